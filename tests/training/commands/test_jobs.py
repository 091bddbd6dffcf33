"""`manage.py jobs` and `manage.py models`: tables for people, JSON for programs."""

import pytest

from tests.factories import end_job, make_job, make_trained_model
from tests.training.commands.running import run
from training.contract import parse_report
from training.events import append_events

pytestmark = pytest.mark.django_db

HOSTILE = "\x1b[2J[red]x[/red]<b>"
SHOWN = "\\x1b[2J[red]x[/red]<b>"


def test_table_lists_the_newest_first():
    older, newer = make_job(name="older"), make_job(name="newer")

    lines = run("jobs").out.splitlines()

    rows = [line for line in lines if "older" in line or "newer" in line]
    assert [row.split()[0] for row in rows] == [str(newer.pk), str(older.pk)]
    assert "0 / 100" in rows[0]


def test_p01_loss_that_was_no_number_is_named():
    job = make_job()
    report = {"type": "progress", "seq": 0, "step": 4, "loss": None, "nonfinite": "nan"}
    append_events(job.pk, [parse_report(report)], db="default")

    assert "NaN" in run("jobs").out


def test_text_of_rows_cannot_steer_the_terminal():
    make_job(name=HOSTILE, dataset=HOSTILE)
    make_trained_model(name=HOSTILE)

    for command in ("jobs", "models"):
        out = run(command).out
        assert SHOWN in out
        assert "\x1b" not in out


def test_status_and_limit_choose_rows():
    jobs = [make_job() for _ in range(3)]
    end_job(jobs[1])

    assert [row["id"] for row in run("jobs", "--json", "--limit", 2).json["jobs"]] == [
        jobs[2].pk,
        jobs[1].pk,
    ]
    ended = run("jobs", "--json", "--status", "completed").json["jobs"]
    assert [row["id"] for row in ended] == [jobs[1].pk]


@pytest.mark.parametrize("limit", ["0", "-1", "1.5", "x", "9" * 20])
def test_bad_limit_is_refused(limit):
    result = run("jobs", f"--limit={limit}")

    assert result.code == 1
    assert "--limit" in result.error


def test_json_is_what_the_api_says(api_as):
    make_job(name=HOSTILE)
    make_trained_model()
    client = api_as("viewer")

    for command in ("jobs", "models"):
        answer = client.get(f"/v1/gb/training/{command}").json()
        assert run(command, "--json").json == answer


def test_empty_lists_say_the_next_step():
    assert "manage.py train" in run("jobs").out
    assert "manage.py train" in run("models").out


@pytest.mark.django_db(databases=["default", "second"])
def test_other_database_by_name():
    make_job(name="here")
    make_job(db="second", name="there")

    assert "there" in run("jobs", "--db", "second").out
    assert "there" not in run("jobs").out
    assert "there" not in run("jobs", "--db", "standard").out
    refused = run("jobs", "--db", "third")
    assert (refused.code, refused.out) == (1, "")
    assert "No database 'third'" in refused.error
