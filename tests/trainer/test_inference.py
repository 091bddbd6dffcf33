"""The inference server: answers as trained, streamed, and unharmed by odd requests."""

import contextlib
import json
import shutil
import socket
import stat
import subprocess
import sys

import pytest

from tests.trainer.jobs import CASES, JOB_SECONDS, trainer_environment
from tests.trainer.shared import FACTS
from tests.waiting import eventually

BASE = {"model_id": "tiny", "revision": "1", "model_source": "built"}
INFER = (sys.executable, "-P", "-m", "trainer.infer")
QUESTION, ANSWER = FACTS[0]


class Server:
    """The server process, and one connection for each question."""

    def __init__(self, folder, models_dir, *, idle_seconds=120):
        self.state_file = folder / "state.json"
        self.log_file = folder / "infer.log"
        options = ["--state-file", str(self.state_file), "--idle-seconds", str(idle_seconds)]
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [*INFER, "--serve", *options],
                env=trainer_environment(models_dir),
                cwd=folder,
                stderr=log,
            )
        eventually(
            lambda: self.state_file.exists() or self.process.poll() is not None,
            seconds=JOB_SECONDS,
        )
        self.state = json.loads(self.state_file.read_text())

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.state["port"]), timeout=60)

    def send(self, connection, prompt=QUESTION, **changed):
        request = {
            "key": self.state["key"],
            "base": BASE,
            "adapter_dir": None,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": 50,
            "temperature": 0,
        }
        connection.sendall(json.dumps(request | changed).encode() + b"\n")

    def ask(self, prompt=QUESTION, **changed) -> list[dict]:
        with self.connect() as connection:
            self.send(connection, prompt, **changed)
            return [json.loads(line) for line in connection.makefile("rb")]

    def close(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory, models_dir):
    server = Server(tmp_path_factory.mktemp("infer"), models_dir)
    yield server
    server.close()


@pytest.fixture(scope="module")
def adapter(finished):
    job, _ = finished
    return str(job.folder / "output")


def test_e01_tuned_model_answers_and_ends_its_turn(server, adapter):
    answers = server.ask(adapter_dir=adapter, max_tokens=200)

    done = answers[-1]["done"]
    assert done["response"].strip() == ANSWER
    assert done["finish_reason"] == "stop"
    assert done["num_tokens"] < 200
    assert "".join(line["token"] for line in answers[:-1]) == done["response"]
    assert "turn|>" not in done["response"]


def test_base_model_answers_with_its_own_weights_in_between(server, adapter):
    before = server.ask()[-1]["done"]
    tuned = server.ask(adapter_dir=adapter)[-1]["done"]
    after = server.ask()[-1]["done"]

    assert before == after
    assert tuned["response"].strip() == ANSWER
    assert before["response"] != tuned["response"]


def test_length_of_an_answer_is_limited(server, adapter):
    done = server.ask(adapter_dir=adapter, max_tokens=2)[-1]["done"]

    assert (done["finish_reason"], done["num_tokens"]) == ("length", 2)
    assert ANSWER.startswith(done["response"])


def test_answer_is_limited_by_the_context(server):
    done = server.ask("a " * 100, max_tokens=100_000)[-1]["done"]

    assert done["num_tokens"] < 512


def test_prompt_that_does_not_fit_is_refused(server):
    (answer,) = server.ask("copper bolts " * 1000)

    assert answer["error"]["code"] == "prompt_too_long"
    assert "512" in answer["error"]["message"]


def test_e09_nul_and_emoji_in_a_prompt_do_no_harm(server):
    for prompt in ("nul \x00 in prompt", "Hej 👋", "日本"):
        done = server.ask(prompt, max_tokens=3)[-1]["done"]

        assert done["num_tokens"] <= 3
        assert "\ufffd" not in done["response"]


def test_sampling_is_possible(server):
    assert server.ask(temperature=1.5, max_tokens=3)[-1]["done"]["num_tokens"] <= 3


def test_a13_model_without_a_tokenizer_uses_its_base_models_and_says_so(server, adapter, tmp_path):
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        shutil.copy(f"{adapter}/{name}", tmp_path / name)
    (tmp_path / "training_args.bin").write_bytes(b"\x80pickle")

    answers = server.ask(adapter_dir=str(tmp_path))

    assert "base model's are used" in answers[0]["note"]
    assert answers[-1]["done"]["response"].strip() == ANSWER


def test_a11_adapter_with_embeddings_of_another_size_is_refused(server, adapter, tmp_path):
    shutil.copy(f"{adapter}/adapter_config.json", tmp_path)
    shutil.copy(CASES / "A11.safetensors", tmp_path / "adapter_model.safetensors")

    (answer,) = server.ask(adapter_dir=str(tmp_path))

    assert answer["error"]["code"] == "adapter_invalid"
    assert "embed_tokens has 34 rows, the base model has 768" in answer["error"]["message"]


@pytest.mark.parametrize("damage", ["no weights", "no config", "cut off", "not lora"])
def test_damaged_adapters_are_refused_and_the_server_lives_on(server, adapter, tmp_path, damage):
    folder = tmp_path / "adapter"
    shutil.copytree(adapter, folder)
    if damage == "no weights":
        (folder / "adapter_model.safetensors").unlink()
    elif damage == "no config":
        (folder / "adapter_config.json").unlink()
    elif damage == "cut off":
        content = (folder / "adapter_model.safetensors").read_bytes()
        (folder / "adapter_model.safetensors").write_bytes(content[: len(content) // 2])
    else:
        (folder / "adapter_config.json").write_text('{"peft_type": "IA3"}')

    (answer,) = server.ask(adapter_dir=str(folder))

    assert answer["error"]["code"] == "adapter_invalid"
    assert server.ask(adapter_dir=adapter)[-1]["done"]["response"].strip() == ANSWER


def test_more_adapters_than_are_kept_are_served_in_turn(server, adapter, tmp_path):
    folders = [str(shutil.copytree(adapter, tmp_path / str(number))) for number in range(6)]

    answers = [server.ask(adapter_dir=folder)[-1]["done"] for folder in [*folders, folders[0]]]

    assert {answer["response"].strip() for answer in answers} == {ANSWER}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"key": "wrong"}, "unauthorized"),
        ({"base": None}, "invalid_request"),
        ({"base": BASE | {"model_id": "../x"}}, "invalid_request"),
        ({"base": BASE | {"revision": "0"}}, "model_unavailable"),
        ({"max_tokens": 0}, "invalid_request"),
        ({"max_tokens": True}, "invalid_request"),
        ({"temperature": -1}, "invalid_request"),
        ({"temperature": "hot"}, "invalid_request"),
        ({"messages": []}, "invalid_messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "invalid_messages"),
        ({"adapter_dir": "/nowhere"}, "adapter_invalid"),
    ],
)
def test_requests_that_cannot_be_answered_get_a_code(server, change, code):
    (answer,) = server.ask(**change)

    assert answer["error"]["code"] == code
    assert answer["error"]["message"]


def test_lines_that_are_no_json_are_refused(server):
    with server.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        answer = json.loads(connection.makefile("rb").readline())

    assert answer["error"]["code"] == "invalid_request"


def test_asker_that_leaves_does_not_hold_up_the_next(server):
    with server.connect() as connection:
        server.send(connection, max_tokens=100_000)
        connection.makefile("rb").readline()  # the answer has begun

    assert server.ask(max_tokens=2)[-1]["done"]["num_tokens"] == 2
    assert "an asker went away" in server.log_file.read_text()


def test_waiting_askers_are_served_one_after_another(server):
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(server.connect()) for _ in range(5)]
        for connection in connections:
            server.send(connection, max_tokens=3)

        for connection in connections:
            lines = [json.loads(line) for line in connection.makefile("rb")]
            assert lines[-1]["done"]["num_tokens"] <= 3


def test_state_file_is_private(server):
    assert stat.S_IMODE(server.state_file.stat().st_mode) == 0o600
    assert server.state["pid"] == server.process.pid


def test_idle_server_ends_and_removes_its_state_file(tmp_path, models_dir):
    server = Server(tmp_path, models_dir, idle_seconds=0.1)

    assert server.process.wait(JOB_SECONDS) == 0
    assert not server.state_file.exists()


def test_one_answer_by_hand(models_dir, adapter, tmp_path):
    answer = subprocess.run(
        [*INFER, "--model-id", "tiny", "--adapter", adapter, "--prompt", QUESTION],
        env=trainer_environment(models_dir),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    assert answer.returncode == 0
    assert answer.stdout.strip() == ANSWER
