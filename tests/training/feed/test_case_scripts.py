"""Cases of the case log, posted to a real web process as a trainer posts, and read back."""

import json
from pathlib import Path

import httpx
import pytest

from tests.factories import make_job, token_of

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")

CASES = Path(__file__).parents[2] / "cases"


@pytest.fixture
def post(web):
    """Posts one raw body for a job, with its token."""

    def post(job, body):
        answer = httpx.post(
            f"{web.url}/v1/gb/training/jobs/{job.pk}/events?db=standard",
            content=body,
            headers={
                "Authorization": f"Bearer {token_of(job)}",
                "Content-Type": "application/json",
            },
        )
        assert answer.status_code == 200, answer.text

    return post


@pytest.fixture
def read(web, token_of_role):
    """Reads an address of the API as strict JSON."""
    token = token_of_role("trainer")  # `open_feed` has the viewer

    def read(path):
        answer = httpx.get(
            f"{web.url}/v1/gb/training/{path}", headers={"Authorization": f"Bearer {token}"}
        )
        return json.loads(answer.text, parse_constant=pytest.fail)

    return read


def test_p01_losses_that_are_no_numbers_are_strict_json_everywhere(post, read, open_feed):
    job = make_job()
    for body in json.loads((CASES / "P01.json").read_text())["bodies"]:
        post(job, body)

    events = open_feed(run_id=job.pk).events(5)
    row = read("jobs")["jobs"][0]
    series = read(f"jobs/{job.pk}/metrics")["series"]["loss"]

    assert [event.data["loss"] for event in events[1:]] == [None] * 4
    assert [event.data.get("nonfinite") for event in events[1:]] == ["nan", "inf", None, "inf"]
    assert (row["last_loss"], row["last_loss_nonfinite"], row["last_step"]) == (None, "inf", 40)
    assert series == [[10, None], [20, None], [30, None], [40, None]]


def test_p05_a_resumed_run_is_one_line_and_a_whole_feed(post, read, open_feed):
    job = make_job()
    for step in json.loads((CASES / "P05.json").read_text())["steps"]:
        post(job, json.dumps(step["body"]))

    events = open_feed(run_id=job.pk).events(8)
    series = read(f"jobs/{job.pk}/metrics")["series"]["loss"]

    assert len([event for event in events if event.data.get("timestamp")]) == 7
    assert series == [[10, 2.4], [20, 2.0], [30, 1.82], [40, 1.6]]
    assert read(f"jobs/{job.pk}")["last_loss"] == 1.6
