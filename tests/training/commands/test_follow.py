"""`manage.py follow` and `manage.py stop`."""

import io

import pytest
from django.core.management import call_command

from tests.factories import end_job, make_job
from tests.training.commands.running import run
from training.contract import parse_report, server_event
from training.events import append_events
from training.models import TrainingJob

pytestmark = pytest.mark.django_db(transaction=True)


def report(job, seq, **fields):
    append_events(job.pk, [parse_report({"boot": "b", "seq": seq, **fields})], db="default")


def trained_job(**end):
    job = make_job()
    report(job, 0, type="status", status="training")
    report(job, 1, type="progress", step=50, loss=1.5)
    report(job, 2, type="log", text="\x1b]0;owned\x07[red]hello")
    return end_job(job, **end)


def fail(job, reason, error):
    ended = server_event(
        "status", status="failed", reason=reason, error=error, final_loss=None, model_id=None
    )
    append_events(job.pk, [ended], db="default")


def test_completed_job_is_told_to_its_end():
    job = trained_job()

    result = run("follow", job.pk)

    assert result.code == 0
    lines = result.out.splitlines()
    assert [line.split()[0] for line in lines] == ["0", "1", "2", "3", "4"]
    assert "step 50 · loss 1.5" in lines[2]
    assert "completed" in lines[4]


def test_log_text_cannot_steer_the_terminal():
    result = run("follow", trained_job().pk)

    assert "\\x1b]0;owned\\x07[red]hello" in result.out
    assert "\x1b" not in result.out


def test_from_begins_later():
    result = run("follow", trained_job().pk, "--from", 3)

    assert [line.split()[0] for line in result.out.splitlines()] == ["3", "4"]


def test_from_beyond_the_end_prints_nothing():
    assert run("follow", trained_job().pk, "--from", 99).out == ""


def test_json_is_one_line_per_event():
    job = trained_job()

    events = run("follow", job.pk, "--json").json_lines

    assert [event["seq"] for event in events] == [0, 1, 2, 3, 4]
    assert {event["run_id"] for event in events} == {job.pk}
    assert events[2]["loss"] == 1.5


def test_failed_job_ends_with_1_and_the_reason():
    job = make_job()
    fail(job, "out_of_memory", "killed \x1b[0m")

    result = run("follow", job.pk)

    assert result.code == 1
    assert "ran out of memory" in result.error
    assert "(killed \\x1b[0m)" in result.error


def test_unknown_job_is_a_plain_sentence():
    assert (run("follow", 99).error, run("stop", 99).error) == ("No training job 99.",) * 2


@pytest.mark.parametrize("run_id", ["x", "-1", "1.0", "9" * 19])
def test_odd_numbers_are_refused(run_id):
    assert run("follow", "--", run_id).code == 1


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def test_terminal_gets_a_bar_that_stays_in_its_bounds(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    job = make_job()
    report(job, 0, type="status", status="training")
    report(job, 1, type="progress", step=108, loss=1.5)
    end_job(job)
    out = Terminal()

    call_command("follow", str(job.pk), stdout=out)

    assert "of 100: step 108 · loss 1.5" in out.getvalue()


def test_queued_job_is_stopped_at_once(fake_provider):
    job = make_job()

    result = run("stop", job.pk, "--wait", "--json")

    assert result.json == {"id": job.pk, "status": "cancelled"}
    job.refresh_from_db()
    assert job.error == "Stopped by the command line."
    assert "over already" in run("stop", job.pk).error


def test_running_job_is_stopping(fake_provider):
    job = make_job()
    TrainingJob.objects.filter(pk=job.pk).update(provider_job_id="fake")
    report(job, 0, type="status", status="training")

    assert run("stop", job.pk).out == f"Job {job.pk} is stopping.\n"
