"""The queue of files, with several processes at it."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from kombu import Connection, Queue

from tests.waiting import eventually

ROOT = Path(__file__).resolve().parent.parent
NUM_MESSAGES = 300

PRODUCER = """
import json, sys
import gligabao.celery
from kombu import Connection
options, name, number = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with Connection("files://localhost", transport_options=options) as connection:
    queue = connection.SimpleQueue("work")
    for index in range(number):
        queue.put({"id": f"{name}-{index}", "load": "x" * 50_000})
"""


@pytest.fixture
def options(tmp_path):
    for name in ("queue", "control"):
        (tmp_path / name).mkdir()
    folder = str(tmp_path / "queue")
    return {
        "data_folder_in": folder,
        "data_folder_out": folder,
        "control_folder": str(tmp_path / "control"),
        "polling_interval": 0.01,
    }


def start_producer(options, name, number=NUM_MESSAGES):
    return subprocess.Popen(
        [sys.executable, "-c", PRODUCER, json.dumps(options), name, str(number)], cwd=ROOT
    )


def test_message_is_never_seen_half_written(options, tmp_path):
    producer = start_producer(options, "a")
    seen = set()

    def all_read():
        for file in (tmp_path / "queue").glob("[0-9]*.msg"):
            seen.add(file.name)
            json.loads(file.read_bytes())
        return len(seen) == NUM_MESSAGES

    eventually(all_read, seconds=60, every=0)
    assert producer.wait(30) == 0
    assert len(list((tmp_path / "queue").iterdir())) == NUM_MESSAGES


def test_two_producers_and_a_consumer_lose_and_double_nothing(options):
    got = []
    producers = [start_producer(options, name) for name in ("a", "b")]

    with Connection("files://localhost", transport_options=options) as connection:
        queue = connection.SimpleQueue("work")

        def take():
            try:
                message = queue.get(timeout=0.5)
            except queue.Empty:
                return False
            got.append(message.payload["id"])
            message.ack()
            return len(got) == 2 * NUM_MESSAGES

        eventually(take, seconds=60, every=0)
        queue.close()

    assert [producer.wait(30) for producer in producers] == [0, 0]
    assert len(set(got)) == 2 * NUM_MESSAGES


def test_queue_that_many_processes_declare_at_once_is_there_for_all(options, tmp_path):
    processes = [start_producer(options, name, 1) for name in "abcdef"]

    assert [process.wait(60) for process in processes] == [0] * len(processes)

    with Connection("files://localhost", transport_options=options) as connection:
        Queue("other", exchange="work", routing_key="other", channel=connection).declare()
    tables = list((tmp_path / "control").iterdir())
    assert [table.name for table in tables] == ["work.exchange"]
    assert len(json.loads(tables[0].read_text())) == 2


def test_full_disk_leaves_no_half_message(options, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Connection("files://localhost", transport_options=options) as connection:
        queue = connection.SimpleQueue("full")
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        try:
            with pytest.raises(OSError, match="File too large"):
                queue.put({"load": "x" * 2000})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

        assert list((tmp_path / "queue").iterdir()) == []
        queue.close()
