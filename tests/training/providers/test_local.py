from __future__ import annotations

import json
import os
import signal
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from gligabao.errors import Conflict, NotFound, ProviderRejected, ProviderUnreachable
from tests.training.providers.local_runs import (
    JOB_TOKEN,
    make_provider,
    make_spec,
)
from tests.waiting import eventually
from training.contract import sign
from training.providers.base import Phase, ProviderBusy
from training.providers.local_wrapper import identify


@pytest.fixture
def start(tmp_path):
    """Starts providers' runs and ends whatever of them still lives after the test."""
    runs = []

    def start(*options, spec=None, **changed):
        provider = make_provider(tmp_path, *options, **changed)
        run_id = provider.submit(spec or make_spec())
        runs.append((provider, run_id))
        return provider, run_id

    yield start
    for provider, run_id in runs:
        provider.stop(run_id, force=True)


def ended(provider, run_id):
    return eventually(lambda: (status := provider.poll(run_id)).phase is Phase.ENDED and status)


def process_of(provider, name, job_id="job1"):
    path = provider.jobs_dir / job_id / name
    return eventually(lambda: path.exists() and json.loads(path.read_text()))


def has_free_slot(provider):
    try:
        os.close(provider._take_slot())
    except ProviderBusy:
        return False
    return True


def test_what_is_shown_of_a_provider_and_a_spec_holds_no_secret(tmp_path):
    provider, spec = make_provider(tmp_path), make_spec()

    assert provider.spec_key not in repr(provider)
    assert spec.job_token not in repr(spec)
    assert "nonce=" not in repr(spec)


# --- From start to end -----------------------------------------------------------------------


def test_run_reports_ends_with_its_code_and_leaves_its_files(start):
    provider, run_id = start("--steps", "3", "--exit", "4")

    status = ended(provider, run_id)

    assert (status.exit_code, status.was_out_of_memory) == (4, False)
    assert status.started_at <= status.ended_at <= datetime.now(UTC)
    page = provider.read_events(run_id, "")
    assert [report["type"] for report in page.reports] == ["status", *["progress"] * 3, "status"]
    assert provider.read_events(run_id, page.cursor).reports == []
    assert [(f.path, f.size_bytes) for f in provider.list_files(run_id)] == [
        ("adapter_model.safetensors", 7)
    ]
    with provider.read_file(run_id, "adapter_model.safetensors") as file:
        assert file.read() == b"weights"


def test_run_is_living_until_it_is_stopped(start):
    provider, run_id = start("--until-stopped")
    assert provider.poll(run_id).phase is Phase.RUNNING

    provider.stop(run_id, force=False)
    provider.stop(run_id, force=False)

    assert ended(provider, run_id).exit_code == 0
    assert provider.read_events(run_id, "").reports[-1]["status"] == "cancelled"


def test_spec_is_signed_and_only_its_owner_can_read_it(start):
    provider, run_id = start()
    ended(provider, run_id)
    folder = provider.jobs_dir / "job1"

    envelope = json.loads((folder / "spec.json").read_text())

    assert envelope["signature"] == sign(envelope["spec"], provider.spec_key)
    assert folder.stat().st_mode & 0o777 == 0o700
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path.name


def test_trainer_sees_the_key_by_path_and_no_secret_of_the_control_plane(start, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:secret@host/db")
    monkeypatch.setenv("GLIGABAO_SECRET_KEY", "secret")
    key_file = "/somewhere/spec_key"
    provider, _ = start("--until-stopped", spec_key_file=key_file)
    trainer = process_of(provider, "trainer.json")

    with open(f"/proc/{trainer['pid']}/environ") as file:
        environment = dict(pair.split("=", 1) for pair in file.read().split("\0") if pair)

    assert environment["GLIGABAO_SPEC_KEY_FILE"] == key_file
    assert environment["PYTHONPATH"].endswith("/trainer_image")
    assert not {"DATABASE_URL", "GLIGABAO_SECRET_KEY", "GLIGABAO_SPEC_KEY"} & set(environment)


def test_command_that_cannot_run_ends_with_127_and_says_so(start):
    provider, run_id = start(trainer_command=("/no/such/python",))

    assert ended(provider, run_id).exit_code == 127
    assert "cannot be started" in provider.logs(run_id, limit=5)[-1].text


# --- One run per job -------------------------------------------------------------------------


def test_submitting_again_returns_the_holder_and_starts_nothing(start):
    provider, run_id = start("--until-stopped")

    assert provider.submit(make_spec()) == run_id
    provider.stop(run_id, force=False)
    ended(provider, run_id)
    assert provider.submit(make_spec()) == run_id

    assert provider.find("job1") == run_id
    assert len((provider.jobs_dir / "job1" / "starts.txt").read_text().splitlines()) == 1


def test_run_that_lost_is_answered_for_by_the_holder(start):
    provider, run_id = start("--until-stopped")

    status = provider.poll("local-job1-00000000")

    assert (status.phase, status.provider_job_id) == (Phase.RUNNING, run_id)


def test_no_slot_is_busy_until_the_first_run_is_over(start):
    provider, run_id = start("--until-stopped")

    with pytest.raises(ProviderBusy):
        provider.submit(make_spec("job2"))
    assert provider.find("job2") is None

    provider.stop(run_id, force=False)
    ended(provider, run_id)
    _, second = start("--steps", "1", spec=make_spec("job2"))
    assert ended(provider, second).exit_code == 0


def test_as_many_runs_as_slots_live_at_once(start):
    provider, _ = start("--until-stopped", num_slots=2)
    start("--until-stopped", num_slots=2, spec=make_spec("job2"))

    with pytest.raises(ProviderBusy):
        provider.submit(make_spec("job3"))


def test_live_runs_are_found_without_being_asked_for_by_name(start):
    provider, first = start("--steps", "1", num_slots=2)
    ended(provider, first)
    _, second = start("--until-stopped", num_slots=2, spec=make_spec("job2"))

    assert provider.live_runs() == [("job2", second)]

    provider.stop(second, force=True)
    assert provider.live_runs() == []


# --- Sudden ends -----------------------------------------------------------------------------


def test_killed_trainer_ends_with_137_and_frees_its_slot(start):
    provider, run_id = start("--until-stopped")

    os.kill(process_of(provider, "trainer.json")["pid"], signal.SIGKILL)

    status = ended(provider, run_id)
    assert (status.exit_code, status.was_out_of_memory) == (137, False)
    assert eventually(lambda: has_free_slot(provider))


def test_killed_wrapper_takes_its_trainer_along_and_leaves_no_code(start):
    provider, run_id = start("--until-stopped")
    trainer = process_of(provider, "trainer.json")

    os.kill(process_of(provider, "run.json")["pid"], signal.SIGKILL)

    status = ended(provider, run_id)
    assert status.exit_code is None
    assert datetime.now(UTC) - status.ended_at < timedelta(seconds=60)
    assert identify(trainer["pid"]) is None
    assert eventually(lambda: has_free_slot(provider))


def test_term_signal_to_the_wrapper_reaches_the_trainer(start):
    provider, run_id = start("--until-stopped")
    process_of(provider, "trainer.json")

    os.kill(process_of(provider, "run.json")["pid"], signal.SIGTERM)

    assert ended(provider, run_id).exit_code == 128 + signal.SIGTERM


def test_processes_that_a_killed_trainer_started_end_with_it(start):
    command = "import subprocess, sys, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"
    provider, run_id = start(trainer_command=(sys.executable, "-c", command))
    trainer = process_of(provider, "trainer.json")
    children = f"/proc/{trainer['pid']}/task/{trainer['pid']}/children"

    def sleeper():
        with open(children) as file:
            return file.read().split()

    child = int(eventually(sleeper)[0])
    os.kill(trainer["pid"], signal.SIGKILL)

    assert ended(provider, run_id).exit_code == 137
    assert eventually(lambda: identify(child) is None)


def test_force_ends_a_trainer_that_does_not_listen(start):
    provider, run_id = start("--until-stopped", "--ignore-stop")
    process_of(provider, "trainer.json")

    provider.stop(run_id, force=True)
    provider.stop(run_id, force=True)

    assert provider.poll(run_id).exit_code == 137


def test_force_ends_a_wrapper_that_does_not_answer(start):
    provider, run_id = start("--until-stopped", "--ignore-stop")
    trainer = process_of(provider, "trainer.json")
    wrapper = process_of(provider, "run.json")
    os.kill(wrapper["pid"], signal.SIGSTOP)

    provider.stop(run_id, force=True)

    assert ended(provider, run_id).exit_code is None
    assert identify(trainer["pid"]) is None


def test_number_of_a_process_that_was_given_away_is_neither_living_nor_killed(start):
    provider, run_id = start("--steps", "1")
    ended(provider, run_id)
    folder = provider.jobs_dir / "job1"
    me = identify(os.getpid())
    for name in ("run.json", "trainer.json"):
        process = json.loads((folder / name).read_text())
        process |= {"pid": me["pid"], "pid_started": f"another-boot:{me['pid_started']}"}
        (folder / name).write_text(json.dumps(process))

    provider.stop(run_id, force=True)  # would kill the tests

    assert provider.poll(run_id).phase is Phase.ENDED


def test_process_that_nobody_reaped_is_over(start):
    child = os.fork()
    if child == 0:
        os._exit(0)
    try:
        assert eventually(lambda: identify(child) is None)
    finally:
        os.waitpid(child, 0)


# --- What is not there -----------------------------------------------------------------------


def test_run_without_a_folder_is_unknown(tmp_path):
    provider = make_provider(tmp_path)

    for run_id in ("local-job1-00000000", "fc-123", "local-../../etc-00000000"):
        assert provider.poll(run_id).phase is Phase.UNKNOWN
        assert len(provider.read_events(run_id, "7").reports) == 0
    provider.stop("local-job1-00000000", force=False)
    provider.stop("local-job1-00000000", force=True)
    assert provider.logs("local-job1-00000000", limit=10) == []
    assert provider.list_files("local-job1-00000000") == []
    with pytest.raises(NotFound):
        provider.read_file("local-job1-00000000", "a")


def test_what_cannot_be_read_or_written_is_said_in_words_and_force_still_ends_the_run(start):
    provider, run_id = start("--until-stopped")
    folder = provider.jobs_dir / "job1"
    for name in ("events.jsonl", "trainer.log"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).mkdir()
    (folder / "stop").mkdir()

    with pytest.raises(ProviderUnreachable, match="reports"):
        provider.read_events(run_id, "")
    with pytest.raises(ProviderUnreachable, match="log"):
        provider.logs(run_id, limit=10)
    with pytest.raises(ProviderUnreachable, match="stop"):
        provider.stop(run_id, force=True)

    assert provider.poll(run_id).phase is Phase.ENDED
    (folder / "stop").rmdir()


def test_run_without_a_claim_waits_ten_seconds_and_is_unknown_then(tmp_path):
    provider = make_provider(tmp_path)
    spec_file = provider.jobs_dir / "job1" / "spec.json"
    spec_file.parent.mkdir(parents=True)
    spec_file.write_text("{}")
    assert provider.poll("local-job1-00000000").phase is Phase.WAITING

    os.utime(spec_file, (time.time() - 11,) * 2)

    assert provider.poll("local-job1-00000000").phase is Phase.UNKNOWN


def test_job_id_that_is_a_path_is_refused(tmp_path):
    with pytest.raises(ProviderRejected):
        make_provider(tmp_path).submit(make_spec("../job"))


def test_folder_that_cannot_be_written_is_said_in_words(tmp_path):
    provider = make_provider(tmp_path)
    provider.check()
    (tmp_path / "file").write_text("")
    broken = make_provider(tmp_path, jobs_dir=tmp_path / "file" / "jobs")

    for call in (broken.check, lambda: broken.submit(make_spec())):
        with pytest.raises(ProviderUnreachable, match="Not a directory"):
            call()


# --- Deleting --------------------------------------------------------------------------------


def test_folder_goes_only_when_nothing_lives(start):
    provider, run_id = start("--until-stopped")
    with pytest.raises(Conflict):
        provider.delete_run("job1")

    provider.stop(run_id, force=True)
    provider.delete_run("job1")
    provider.delete_run("job1")

    assert list(provider.jobs_dir.iterdir()) == []
    assert provider.poll(run_id).phase is Phase.UNKNOWN


# --- Logs ------------------------------------------------------------------------------------


def test_log_shows_no_secret_of_the_job(start):
    provider, run_id = start("--print", "calls with {job_token} and hf_EXAMPLE123")
    ended(provider, run_id)

    text = "\n".join(line.text for line in provider.logs(run_id, limit=100))

    assert "calls with [removed] and [removed]" in text
    assert JOB_TOKEN not in text
