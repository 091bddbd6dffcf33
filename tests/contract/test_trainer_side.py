"""What a real trainer reports has the form that the contract shows."""

import json

import pytest

from tests.trainer.jobs import TRAINER_IMAGE
from tests.trainer.shared import finished_job

CONTRACT = TRAINER_IMAGE / "contract"
EXAMPLES = [json.loads(line) for line in (CONTRACT / "events.v1.jsonl").read_text().splitlines()]
# Shown for readers of the contract; this trainer sends them only when there is cause.
OCCASIONAL = {
    "nonfinite", "grad_norm", "mean_token_accuracy", "message", "resumed_from_step", "seconds_left",
    "eval_loss", "is_best", "best_step", "best_eval_loss",
}  # fmt: skip


def kind(event: dict) -> str:
    return f"{event['type']}:{event['status']}" if event["type"] == "status" else event["type"]


def shape(value):
    """The types in a JSON value; a list is as its first entry."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    return "number" if isinstance(value, int | float) else type(value).__name__


@pytest.fixture
def events():
    job, _ = finished_job()
    return job.events


@pytest.mark.parametrize(
    "example",
    [e for e in EXAMPLES if kind(e) in {"status:running", "status:training", "dataset"}]
    + [e for e in EXAMPLES if kind(e) in {"checkpoint", "status:uploading", "status:completed"}]
    + [next(e for e in EXAMPLES if e["type"] == "progress")],
    ids=kind,
)
def test_reports_have_the_fields_of_the_contract(events, example):
    event = {kind(event): event for event in events}[kind(example)]

    missing = set(example) - set(event) - OCCASIONAL
    assert missing == set()
    unknown = set(event) - set(example) - OCCASIONAL
    assert unknown == set()
    for name in ("versions", "files", "params", "step", "loss", "boot"):
        if name in example:
            found, shown = shape(event[name]), shape(example[name])
            assert found == shown or set(found) >= set(shown)


def test_boot_is_sixteen_hex_digits_and_numbers_start_at_zero(events):
    assert len(bytes.fromhex(events[0]["boot"])) == 8
    assert [event["seq"] for event in events] == list(range(len(events)))
