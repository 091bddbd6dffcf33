"""The page of one run, live."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.factories import end_job, make_job, make_trained_model
from training.contract import parse_report, server_event
from training.events import append_events

pytestmark = pytest.mark.browser

CASES = Path(__file__).parent.parent / "cases"
HOSTILE = json.loads((CASES / "U07.json").read_text())["put_the_text"]
# One of each kind, with numbers that are written in different ways.
REPORTS = (
    {"type": "status", "status": "running"},
    {"type": "warning", "code": "dropped", "message": "1 of 3 examples dropped"},
    {"type": "dataset", "message": "read", "num_examples": 3},
    {"type": "status", "status": "training"},
    {"type": "progress", "step": 1, "loss": 3.41219, "learning_rate": 0.00001234567, "epoch": 1.0},
    {"type": "progress", "step": 2, "loss": None, "nonfinite": "nan", "epoch": 0.07},
    {"type": "progress", "step": 3, "loss": 12345.6, "tokens_per_second": 1e21},
    {"type": "progress", "step": 4, "loss": 1.5, "learning_rate": 0.0005, "elapsed_seconds": 2},
    {"type": "checkpoint", "step": 4, "path": "checkpoint-4", "size_bytes": 29306880},
    {"type": "log", "stream": "stdout", "text": "  two\nlines \u202e{{ 7*7 }}"},
    {"type": "eval", "step": 4, "eval_loss": 1.9},
    {"type": "status", "status": "training", "resumed_from_step": 4, "error": None},
)


def shown(page):
    """What a page says of a run, for comparing two of them."""
    return {
        "events": page.locator("#events li").all_inner_texts(),
        "words": page.locator("#loss-words").inner_text(),
        "shapes": page.locator("#loss-line > *").evaluate_all(
            "shapes => shapes.map(shape => [shape.tagName, shape.textContent,"
            " ...['points', 'd', 'x', 'y', 'cx', 'cy'].map(name => shape.getAttribute(name))].join()).sort()"
        ),
        "checkpoints": page.locator("#checkpoints").inner_text(),
        "head": page.locator("[data-field]").all_inner_texts(),
        "warnings": page.locator("#warnings li").all_inner_texts(),
    }


def test_live_page_is_the_same_after_a_reload(visitor_as, report):
    job = make_job()
    page = visitor_as("viewer").open(f"/console/jobs/{job.pk}/")
    expect(page.locator("#feed-state")).to_have_text("Live")
    expect(page.locator("#events li")).to_have_count(1)

    for index, one in enumerate(REPORTS):
        report(job, one, start=index)

    expect(page.locator("#events li")).to_have_count(1 + len(REPORTS))
    expect(page.locator(".pill")).to_have_text("Training")
    expect(page.locator("[data-field=steps]")).to_have_text("4 / 100")
    expect(page.locator("#warnings li")).to_have_text("1 of 3 examples dropped")
    expect(page.locator("#loss-words")).to_contain_text("1.5 at step 4")
    expect(page.locator("#loss-words")).to_contain_text("Eval loss from 1.9 at step 4")
    expect(page.locator("#checkpoints tbody tr")).to_contain_text("4 (best)")
    live = shown(page)
    page.reload()
    assert shown(page) == live


def test_run_is_watched_to_its_end(visitor_as, report):
    job = make_job()
    page = visitor_as("trainer").open(f"/console/jobs/{job.pk}/")
    report(job, {"type": "status", "status": "training"})
    expect(page.locator(".pill")).to_have_text("Training")
    expect(page.locator("#model")).to_be_hidden()

    make_trained_model(run=job, name="tiny-mine")
    end_job(job)

    expect(page.locator(".pill")).to_have_text("Completed")
    expect(page.get_by_role("link", name="tiny-mine")).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_be_disabled()


def test_failure_says_why(visitor_as, report):
    job = make_job()
    page = visitor_as("viewer").open(f"/console/jobs/{job.pk}/")
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)

    ended = server_event("status", status="failed", reason="out_of_memory", error="exit 137",
                         final_loss=None, model_id=None)  # fmt: skip
    append_events(job.pk, [ended], db="default")

    expect(page.locator(".pill")).to_have_text("Failed")
    expect(page.locator("[data-if=reason]")).to_contain_text("Lower batch_size")
    expect(page.locator("[data-if=reason]")).to_contain_text("exit 137")


def test_stop_button_stops(visitor_as):
    job = make_job()
    page = visitor_as("trainer").open(f"/console/jobs/{job.pk}/")

    page.get_by_role("button", name="Stop").click()

    expect(page.locator(".pill")).to_have_text("Cancelled")
    expect(page.locator("[data-field=error]")).to_have_text("Stopped by trainer-user.")
    expect(page.get_by_role("button", name="Stop")).to_be_disabled()


def test_p04_bar_is_clamped(visitor_as, report):
    job = make_job()
    page = visitor_as("viewer").open(f"/console/jobs/{job.pk}/")
    steps = json.loads((CASES / "P04.json").read_text())["steps"]

    report(job, *(step["body"] for step in steps[:-1]))

    expect(page.locator("[data-field=steps]")).to_have_text("108 / 100")
    bar = page.locator(".steps progress")
    assert bar.evaluate("bar => [bar.value, bar.max]") == [100, 100]
    box, card = bar.bounding_box(), page.locator(".steps").bounding_box()
    assert box["x"] + box["width"] <= card["x"] + card["width"]


def test_u07_markup_is_seen_as_text(visitor_as, report):
    job = make_job(name=HOSTILE, dataset=HOSTILE)
    visitor = visitor_as("viewer")
    runs = visitor.open("/console/jobs/")
    page = visitor.open(f"/console/jobs/{job.pk}/")
    expect(page.locator("#feed-state")).to_have_text("Live")

    report(
        job,
        {"type": "log", "text": HOSTILE},
        {"type": "warning", "code": HOSTILE, "message": HOSTILE},
        {"type": "status", "status": "failed", "error": HOSTILE},
    )
    ended = server_event("status", status="failed", reason="trainer_error", error=HOSTILE,
                         final_loss=None, model_id=None)  # fmt: skip
    append_events(job.pk, [ended], db="default")
    live_job = make_job(name=HOSTILE)
    expect(runs.locator(f"tr[data-run='{live_job.pk}'] a")).to_have_text(
        f"Run {live_job.pk}: {HOSTILE}"
    )

    for _ in ("live", "after a reload"):
        expect(page.locator("[data-field=error]")).to_have_text(HOSTILE)
        expect(page.locator("#warnings li")).to_have_text(HOSTILE)
        expect(page.locator("h1")).to_have_text(f"Run {job.pk}: {HOSTILE}")
        assert sum(HOSTILE in text for text in page.locator("#events li").all_inner_texts()) == 4
        for one in (page, runs):
            assert one.evaluate("() => [typeof window.__pwned, document.images.length]") == [
                "undefined",
                0,
            ]
        page.reload()
        runs.reload()


def test_works_without_javascript(visitor_as, report):
    job = make_job(name="plain")
    report(job, *REPORTS)
    page = visitor_as("trainer", java_script_enabled=False).open("/console/jobs/")

    page.get_by_role("link", name="plain").click()
    expect(page.locator("#events li")).to_have_count(1 + len(REPORTS))
    expect(page.locator("#loss-line polyline")).to_have_count(1)
    expect(page.locator("#loss-words")).to_contain_text("Training loss from 3.412 at step 1")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".pill")).to_have_text("Cancelled")


def test_long_absence_is_caught_up(visitor_as, report):
    job = make_job()
    page = visitor_as("viewer").open(f"/console/jobs/{job.pk}/")
    expect(page.locator("#feed-state")).to_have_text("Live")
    page.evaluate("() => window.__hide(true)")

    reports = [{"type": "log", "text": f"line {n}", "seq": n, "boot": "b"} for n in range(2500)]
    append_events(job.pk, [parse_report(one) for one in reports], db="default")
    page.evaluate("() => window.__hide(false)")

    expect(page.locator("#events li").first).to_contain_text("line 2499")
    expect(page.locator("#events li")).to_have_count(200)
