"""`manage.py up`, run for real: what it starts, keeps alive, refuses and ends."""

import os
import signal
import socket

import pytest

from gligabao.management.commands.up import _what_becomes_of
from tests.commands.ups import CHILDREN, Up, json_of, lives, manage, status_of
from tests.factories import make_job
from tests.waiting import eventually
from training.states import JobStatus


@pytest.fixture
def data_dir(tmp_path):
    return tmp_path / "data"


def test_first_start_makes_everything_and_prints_the_password_once(data_dir):
    with Up(data_dir) as up:
        password = up.line(r"log in as admin with the password (\S+)")
        up.wait_until_ready()
        assert status_of(f"{up.url}/healthz") == 200
        ready = json_of(f"{up.url}/readyz")
        assert status_of(f"{up.url}/v1/gb/training/jobs") == 401
        token = up.manage(
            "create_token", "--user", "me", "--role", "viewer", "--quiet"
        ).stdout.strip()
        datasets = json_of(f"{up.url}/v1/gb/training/datasets", token=token)["datasets"]
    with Up(data_dir) as again:
        again.wait_until_ready()
        output = again.output

    assert ready == {"status": "ready", "databases": {"standard": "ok"}, "broker": "ok"}
    assert len(password) >= 16
    assert [dataset["status"] for dataset in datasets] == ["ready"]
    assert "password" not in output


def test_each_child_that_is_killed_returns(data_dir):
    with Up(data_dir) as up:
        up.wait_until_ready()
        first = {name: up.pid(name) for name in CHILDREN}

        for pid in first.values():
            os.kill(pid, signal.SIGKILL)

        for name, pid in first.items():
            eventually(lambda name=name, pid=pid: up.pid(name) != pid)
            assert f"{name} ended (killed by SIGKILL); starting it again" in up.output
        up.wait_until_ready()
        assert up.process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_everything(data_dir, number):
    with Up(data_dir) as up:
        up.wait_until_ready()
        pids = [up.pid(name) for name in CHILDREN]

        up.process.send_signal(number)

        assert up.process.wait(30) == 0
        assert not any(lives(pid) for pid in pids)
        assert "\nStopping ...\n" in up.output
        assert up.output.endswith("\nStopped.\n")
        assert not list((data_dir / "run").glob("*.pid"))


def test_children_end_with_an_up_that_is_killed(data_dir):
    with Up(data_dir) as up:
        up.wait_until_ready()
        pids = [up.pid(name) for name in CHILDREN]

        up.process.kill()
        up.process.wait()

        eventually(lambda: not any(lives(pid) for pid in pids))
    with Up(data_dir) as again:
        again.wait_until_ready()


def test_port_in_use_is_refused_before_anything_starts(data_dir):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = manage(data_dir, "up", "--port", str(port))

    assert result.returncode == 1
    assert f"Port {port} on 127.0.0.1 is in use." in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (data_dir / "gligabao.sqlite3").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--port", "70000"], "'70000' is no port"),
        (["--port", "-1"], "'-1' is no port"),
        (["--host", "nowhere.invalid"], "Cannot listen on nowhere.invalid"),
        (["--host", "192.0.2.1"], "Cannot listen on 192.0.2.1"),
    ],
)
def test_address_that_cannot_be_listened_on_is_one_sentence(data_dir, arguments, said):
    result = manage(data_dir, "up", *arguments)

    assert result.returncode != 0
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_second_up_on_the_same_folder_is_refused(data_dir):
    with Up(data_dir) as up:
        up.wait_until_ready()

        result = up.manage("up", "--port", "0")

        assert result.returncode == 1
        assert (
            f"Another `manage.py up` (process {up.process.pid}) runs on {data_dir}."
            in result.stderr
        )
        assert len(result.stderr.strip().splitlines()) == 1
        assert status_of(f"{up.url}/readyz") == 200


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        (
            "DATABASE_URL",
            "postgresql://u:geheim1@127.0.0.1:9/d",
            "The database standard cannot be used",
        ),
        (
            "DATABASE_URL",
            "sqlite:////proc/nowhere/db.sqlite3",
            "The database standard cannot be used",
        ),
        (
            "GLIGABAO_DATABASES",
            "b=postgresql://u:geheim1@127.0.0.1:9/d",
            "The database b cannot be used",
        ),
        ("DATABASE_URL", "nonsense", "A database address cannot be read"),
        ("REDIS_URL", "redis://127.0.0.1:9/0", "Redis did not answer"),
        (
            "GLIGABAO_DATA_DIR",
            "/proc/nowhere",
            "Set GLIGABAO_DATA_DIR to a folder that you can write",
        ),
    ],
)
def test_wrong_setting_is_one_sentence(data_dir, variable, value, said):
    result = manage(data_dir, "up", "--port", "0", **{variable: value})

    assert result.returncode == 1
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert "geheim1" not in result.stdout + result.stderr


def test_file_that_is_no_database_is_one_sentence(data_dir):
    data_dir.mkdir()
    (data_dir / "gligabao.sqlite3").write_text("not a database " * 100)

    result = manage(data_dir, "up", "--port", "0")

    assert result.returncode == 1
    assert "The database standard cannot be used: file is not a database." in result.stderr


def test_prepare_only_makes_everything_and_exits(data_dir):
    second = f"second=sqlite:///{data_dir}/second.sqlite3"

    result = manage(data_dir, "up", "--prepare-only", GLIGABAO_DATABASES=second)

    assert result.returncode == 0
    assert "Database standard: ready." in result.stdout
    assert "Database second: ready." in result.stdout
    assert (data_dir / "second.sqlite3").exists()
    token = manage(data_dir, "create_token", "--user", "a", "--role", "viewer", "--quiet")
    assert token.returncode == 0


def test_everything_that_is_written_lies_in_the_data_folder(data_dir, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    home = tmp_path / "home"
    elsewhere.mkdir()
    home.mkdir()

    with Up(data_dir, HOME=str(home), TMPDIR=str(elsewhere)) as up:
        up.wait_until_ready()

    assert not list(home.iterdir())
    assert not list(elsewhere.iterdir())
    assert (data_dir.stat().st_mode & 0o077) == 0 or (data_dir / "run").stat().st_mode & 0o077 == 0


@pytest.mark.django_db(databases=["default", "second"])
def test_job_that_goes_on_after_the_end_is_named_with_the_way_to_stop_it():
    queued = make_job()
    training = make_job(status=JobStatus.TRAINING, provider_job_id="local-1", db="second")

    assert _what_becomes_of(queued) == (
        f"Job {queued.pk} is queued: it is submitted at the next `manage.py up`."
    )
    said = _what_becomes_of(training)
    assert f"Job {training.pk} is training: its trainer goes on by itself" in said
    assert f"`manage.py stop {training.pk} --db second`" in said
