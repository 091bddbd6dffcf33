"""The main road on a real installation: train the tiny model, watch it, ask it.

Everything is real: `manage.py up`, the trainer with TRL, the feed, the inference process. The
addresses are called with curl, as in the documents.
"""

import json
import subprocess
import sys

import pytest

from tests.faults.installation import ROOT, Installation, wait_until

JOB_KEYS = {
    "id", "job_id", "provider_job_id", "status", "model_size", "dataset", "num_train_steps",
    "last_step", "last_loss", "final_loss", "started_at", "created_at", "finished_at",
}  # fmt: skip
MODEL_KEYS = {
    "id", "name", "run_id", "job_id", "base_model", "model_size", "dataset", "dataset_sha256",
    "num_examples", "num_train_steps", "final_loss", "params", "path", "files", "size_bytes",
    "created_at",
}  # fmt: skip
DATASET_KEYS = {
    "filename", "size_bytes", "num_records", "sha256", "status", "updated_at", "synced_at",
}  # fmt: skip
CHAT = (
    '{"messages": [{"role": "user", "content": "Which shelf holds the bolts?"}, '
    '{"role": "assistant", "content": "Shelf seven."}]}\n'
)


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    installation = Installation(tmp_path_factory.mktemp("first-job"))
    installation.start()
    yield installation
    installation.stop()


@pytest.fixture(scope="module")
def first_job(installation):
    """The output of `manage.py train` on the tiny model and the sample."""
    done = subprocess.run(
        [sys.executable, "manage.py", "train", "--base-model", "tiny", "--steps", "12", "--json"],
        cwd=ROOT, env=installation.env, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def curl(installation, path, *arguments):
    """Status and body, as `curl` sees them."""
    done = subprocess.run(
        ["curl", "-sS", "--max-time", "120", "-w", "\n%{http_code}",
         "-H", f"Authorization: Bearer {installation.token}",
         f"{installation.url}/v1/gb/training/{path}", *arguments],
        capture_output=True, text=True, timeout=150, check=True,
    )  # fmt: skip
    body, _, code = done.stdout.rpartition("\n")
    return int(code), json.loads(body) if body else None


def post_json(installation, path, body):
    return curl(
        installation, path, "-X", "POST", "-H", "Content-Type: application/json",
        "-d", json.dumps(body),
    )  # fmt: skip


def test_the_train_command_ends_completed_with_every_event(installation, first_job):
    code, job = curl(installation, "jobs/1")

    assert code == 200
    assert set(job) >= JOB_KEYS
    assert (job["status"], job["last_step"], job["attempt"]) == ("completed", 12, 1)
    assert job["final_loss"] is not None
    events = [line for line in first_job if "seq" in line]
    assert [event["seq"] for event in events] == list(range(len(events)))


def test_a_job_is_started_as_documented(installation, first_job, tmp_path):
    (tmp_path / "my.jsonl").write_text(CHAT * 12)
    code, dataset = curl(installation, "datasets", "-F", f"file=@{tmp_path / 'my.jsonl'}")
    assert (code, set(dataset) >= DATASET_KEYS) == (201, True)

    code, job = post_json(
        installation, "jobs", {"num_train_steps": 500, "model_size": "tiny", "dataset": "my.jsonl"}
    )
    assert code == 201
    assert set(job) >= JOB_KEYS
    assert (job["status"], job["num_train_steps"], job["dataset"]) == ("queued", 500, "my.jsonl")
    wait_until(lambda: curl(installation, f"jobs/{job['id']}")[1]["last_step"] > 0, 120, "a step")

    code, answer = curl(installation, f"jobs/{job['id']}/stop", "-X", "POST")
    assert (code, answer) == (202, {"id": job["id"], "status": "stopping"})
    ended = wait_until(
        lambda: (row := curl(installation, f"jobs/{job['id']}")[1])["finished_at"] and row,
        60, "the end",
    )  # fmt: skip
    assert (ended["status"], ended["reason"]) == ("cancelled", "user_stop")
    assert ended["last_step"] < 500
    code, answer = curl(installation, f"jobs/{job['id']}/stop", "-X", "POST")
    assert code == 409


def test_lists_are_as_documented(installation, first_job):
    code, jobs = curl(installation, "jobs?limit=1")
    assert (code, list(jobs), len(jobs["jobs"])) == (200, ["jobs"], 1)

    code, models = curl(installation, "models")
    assert code == 200
    assert set(models["models"][0]) >= MODEL_KEYS

    code, datasets = curl(installation, "datasets")
    assert code == 200
    assert set(datasets["datasets"][0]) >= DATASET_KEYS


def test_the_model_answers(installation, first_job):
    code, model = curl(installation, "models/1")
    assert code == 200
    assert {file["path"] for file in model["files"]} >= {
        "adapter_config.json", "adapter_model.safetensors", "chat_template.jinja",
        "tokenizer_config.json", "training.json",
    }  # fmt: skip

    code, answer = post_json(installation, "models/1/infer", {"prompt": "Hello", "max_tokens": 8})

    assert code == 200, answer
    assert set(answer) >= {"model_id", "response"}
    assert answer["model_id"] == 1
    assert "<|turn>" not in answer["response"]


def test_a_streamed_answer_ends_with_done(installation, first_job):
    done = subprocess.run(
        ["curl", "-sSN", "--max-time", "120", "-H", f"Authorization: Bearer {installation.token}",
         "-H", "Content-Type: application/json",
         "-d", json.dumps({"prompt": "Hello", "max_tokens": 4, "stream": True, "base": True}),
         f"{installation.url}/v1/gb/training/models/1/infer"],
        capture_output=True, text=True, timeout=150, check=True,
    )  # fmt: skip

    assert done.stdout.rstrip().rpartition("\n\n")[2].startswith("event: done\ndata: {")


def test_a_files_bytes_are_those_of_the_row(installation, first_job, tmp_path):
    import hashlib

    _, model = curl(installation, "models/1")
    wanted = next(file for file in model["files"] if file["path"] == "adapter_config.json")
    target = tmp_path / "file"

    subprocess.run(
        ["curl", "-sSL", "-o", target, "-H", f"Authorization: Bearer {installation.token}",
         f"{installation.url}/v1/gb/training/models/1/files/adapter_config.json"],
        check=True, timeout=60,
    )  # fmt: skip

    assert hashlib.sha256(target.read_bytes()).hexdigest() == wanted["sha256"]


def test_the_feed_replays_the_job_as_documented(installation, first_job):
    done = subprocess.run(
        ["curl", "-sSN", "--max-time", "3", "-H", f"Authorization: Bearer {installation.token}",
         f"{installation.url}/v1/gb/training/events?run_id=1"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    messages = [
        dict(line.split(": ", 1) for line in block.splitlines())
        for block in done.stdout.split("\n\n")
        if "data: " in block
    ]
    assert [message["id"] for message in messages] == [str(n) for n in range(len(messages))]
    progress = next(message for message in messages if message["event"] == "progress")
    data = json.loads(progress["data"])
    assert set(data) >= {
        "db", "run_id", "job_id", "seq", "type", "step", "loss", "learning_rate", "epoch",
        "elapsed_seconds", "timestamp",
    }  # fmt: skip
    assert (data["db"], data["run_id"], data["type"]) == ("standard", 1, "progress")


def test_u05_no_secret_in_logs_folder_or_process_list(installation, first_job):
    """The token of the job is nowhere but in the spec that its trainer was handed."""
    spec = json.loads(
        (installation.folder / "data" / "jobs" / first_job[0]["job_id"] / "spec.json").read_text()
    )
    token = json.loads(spec["spec"])["job_token"]
    texts = [installation.log]
    job_folder = installation.folder / "data" / "jobs" / first_job[0]["job_id"]
    texts += [
        path.read_text(errors="replace")
        for path in job_folder.rglob("*")
        if path.is_file() and path.name != "spec.json" and path.suffix != ".safetensors"
    ]

    assert [text for text in texts if token in text] == []
    assert [text for text in texts if "/artifacts/" in text and "[removed]" not in text] == []
