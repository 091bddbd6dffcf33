from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from gligabao.errors import InferenceTimeout, InvalidRequest, ProviderUnreachable, StorageError
from tests.waiting import eventually
from training.providers.base import InferRequest
from training.providers.local_infer import LocalInference
from training.providers.local_wrapper import identify

SERVER = Path(__file__).with_name("fake_infer_server.py")


def request(prompt):
    return InferRequest(
        model_id="tiny",
        revision="1",
        model_source="local",
        adapter_dir="/adapters/7",
        messages=[{"role": "user", "content": prompt}],
        max_tokens=8,
        temperature=0,
    )


@pytest.fixture
def folder(tmp_path):
    yield tmp_path
    starts = tmp_path / "starts.txt"
    for pid in starts.read_text().split() if starts.exists() else []:
        if identify(int(pid)):
            os.kill(int(pid), signal.SIGKILL)
        eventually(lambda pid=pid: identify(int(pid)) is None)


def client(folder, *options, timeout_seconds=30, idle_seconds=30):
    return LocalInference(
        folder=folder,
        environment={"PATH": os.environ["PATH"]},
        timeout_seconds=timeout_seconds,
        idle_seconds=idle_seconds,
        command=(sys.executable, "-I", str(SERVER), *options),
    )


async def collect(inference, prompt):
    return [event async for event in inference.generate(request(prompt))]


def ask(inference, prompt):
    return asyncio.run(collect(inference, prompt))


def num_starts(folder):
    return len((folder / "starts.txt").read_text().split())


def test_answer_comes_in_pieces_and_then_whole(folder):
    events = ask(client(folder), "hello")

    assert [event.kind for event in events] == ["note", "token", "token", "token", "done"]
    done = events[-1]
    assert (done.text, done.finish_reason, done.num_tokens) == ("tiny /adapters/7 hello", "stop", 3)


def test_second_question_finds_the_server_warm(folder):
    ask(client(folder), "one")
    ask(client(folder), "two")

    assert num_starts(folder) == 1


def test_many_askers_at_once_start_one_server(folder):
    async def all_at_once():
        clients = [client(folder) for _ in range(8)]  # each as if in a process of its own
        return await asyncio.gather(*(collect(one, "hello") for one in clients))

    answers = asyncio.run(all_at_once())

    assert {events[-1].kind for events in answers} == {"done"}
    assert num_starts(folder) == 1


def test_server_that_went_idle_is_replaced(folder):
    ask(client(folder, idle_seconds=0.3), "one")
    pid = int((folder / "starts.txt").read_text())
    eventually(lambda: identify(pid) is None)

    assert ask(client(folder), "two")[-1].kind == "done"
    assert num_starts(folder) == 2


def test_stale_state_of_a_killed_server_is_not_believed(folder):
    ask(client(folder), "one")
    pid = json.loads((folder / "server.json").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: identify(pid) is None)

    assert ask(client(folder), "two")[-1].kind == "done"
    assert num_starts(folder) == 2


def test_server_that_dies_during_an_answer_is_one_clear_error(folder):
    with pytest.raises(ProviderUnreachable, match="ended before the answer was complete"):
        ask(client(folder), "die")

    assert ask(client(folder), "hello")[-1].kind == "done"


def test_server_that_never_answers_a_word_is_asked_twice_at_most(folder):
    with pytest.raises(ProviderUnreachable, match="ended before"):
        ask(client(folder), "leave at once")


def test_server_that_cannot_start_says_why(folder):
    with pytest.raises(ProviderUnreachable, match="no model folder"):
        ask(client(folder, "--broken"), "hello")


def test_answer_that_takes_too_long_is_a_timeout_and_ends_the_generation(folder):
    ask(client(folder), "hello")

    with pytest.raises(InferenceTimeout, match="No complete answer"):
        ask(client(folder, timeout_seconds=0.5), "hang")

    assert eventually(lambda: (folder / "closed.txt").exists())


def test_closing_the_iterator_ends_the_generation(folder):
    async def hang_up():
        async with aclosing(client(folder).generate(request("hang"))) as events:
            async for _ in events:
                return

    asyncio.run(hang_up())

    assert eventually(lambda: (folder / "closed.txt").exists())


def test_cancelling_the_asker_ends_the_generation(folder):
    async def cancelled():
        asker = asyncio.create_task(collect(client(folder), "hang"))
        while not (folder / "server.json").exists():
            await asyncio.sleep(0.01)
        asker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asker
        return await collect(client(folder), "hello")  # the server is free again

    assert asyncio.run(cancelled())[-1].kind == "done"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("prompt_too_long", InvalidRequest),
        ("invalid_messages", InvalidRequest),
        ("adapter_invalid", StorageError),
        ("model_unavailable", StorageError),
        ("out_of_memory", ProviderUnreachable),
    ],
)
def test_errors_of_the_server_keep_their_code_and_words(folder, code, error):
    with pytest.raises(error, match="it says why") as raised:
        ask(client(folder), f"fail {code}")

    assert raised.value.code == code


def test_nonsense_from_the_server_is_an_error(folder):
    with pytest.raises(ProviderUnreachable, match="no JSON"):
        ask(client(folder), "no json")
