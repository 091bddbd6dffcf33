"""What a job's addresses tell of its past: events, series, checkpoints, attempts."""

import pytest

from tests.factories import make_job
from training.contract import parse_report
from training.events import append_events

JOBS = "/v1/gb/training/jobs"

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


def test_stored_events_come_page_by_page(api_as):
    viewer = api_as("viewer")
    job = make_job()
    append_events(
        job.pk,
        [parse_report({"seq": n, "type": "progress", "step": n, "loss": 1.0}) for n in range(5)],
        db="default",
    )

    first = viewer.get(f"{JOBS}/{job.pk}/events?limit=4").json()
    rest = viewer.get(f"{JOBS}/{job.pk}/events?from={first['next']}").json()

    assert [event["seq"] for event in first["events"] + rest["events"]] == list(range(6))
    assert set(first["events"][0]) == {"seq", "type", "attempt", "data", "created_at"}
    assert rest["next"] is None


def test_p05_the_chart_keeps_the_newest_value_of_a_step(api_as):
    job = make_job()
    values = [(1, 10, 2.4), (2, 20, 2.0), (3, 30, 1.8), (5, 30, 1.82), (6, 40, 1.6)]
    reports = [{"seq": s, "type": "progress", "step": t, "loss": v} for s, t, v in values]
    reports.insert(3, {"seq": 4, "type": "status", "status": "training", "resumed_from_step": 20})
    append_events(job.pk, [parse_report(report) for report in reports], db="default")

    body = api_as("viewer").get(f"{JOBS}/{job.pk}/metrics").json()

    assert body["series"]["loss"] == [[10, 2.4], [20, 2.0], [30, 1.82], [40, 1.6]]
    assert body["last_seq"] == 6


def test_a_thinned_chart_keeps_the_extremes(api_as):
    job = make_job()
    losses = [1.0] * 400
    losses[123], losses[321] = 9.0, 0.1
    for start in range(0, 400, 100):
        append_events(
            job.pk,
            [
                parse_report({"seq": n, "type": "progress", "step": n, "loss": losses[n]})
                for n in range(start, start + 100)
            ],
            db="default",
        )

    loss = api_as("viewer").get(f"{JOBS}/{job.pk}/metrics?points=50").json()["series"]["loss"]

    assert len(loss) <= 50
    assert [123, 9.0] in loss
    assert [321, 0.1] in loss
    assert loss == sorted(loss)


def test_checkpoints_and_evaluations_are_listed(api_as):
    job = make_job()
    reports = [
        {"type": "progress", "step": 10, "loss": 1.5},
        {"type": "eval", "step": 10, "eval_loss": 1.8},
        {"type": "checkpoint", "step": 10, "path": "checkpoint-10", "size_bytes": 4096},
        {"type": "eval", "step": 20, "eval_loss": None, "nonfinite": "nan"},
    ]
    append_events(job.pk, [parse_report(report) for report in reports], db="default")
    viewer = api_as("viewer")

    (row,) = viewer.get(f"{JOBS}/{job.pk}/checkpoints").json()["checkpoints"]
    series = viewer.get(f"{JOBS}/{job.pk}/metrics").json()["series"]

    assert row.pop("created_at").endswith("Z")
    assert row == {
        "step": 10, "path": "checkpoint-10", "size_bytes": 4096, "attempt": 1, "loss": 1.5,
        "eval_loss": 1.8, "is_best": True,
    }  # fmt: skip
    assert series["eval_loss"] == [[10, 1.8], [20, None]]
    assert viewer.get(f"{JOBS}/424242/checkpoints").status_code == 404


def test_attempts_are_listed(api_as):
    job = make_job()
    for boot in ("a", "b"):
        append_events(
            job.pk,
            [parse_report({"boot": boot, "seq": 0, "type": "status", "status": "running"})],
            db="default",
        )

    attempts = api_as("viewer").get(f"{JOBS}/{job.pk}/attempts").json()["attempts"]

    assert [(row["attempt"], row["boot"]) for row in attempts] == [(1, "a"), (2, "b")]
