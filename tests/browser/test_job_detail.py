"""The page of one run, live."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.factories import end_job, make_job, make_trained_model
from training.contract import parse_report, server_event
from training.events import append_events

pytestmark = pytest.mark.browser

CASES = Path(__file__).parent.parent / "cases"
HOSTILE = json.loads((CASES / "U07.json").read_text())["put_the_text"]
LIVE = "[data-feed-state]"
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
SHOWN = ("head", "notes", "progress", "stats", "loss-words", "checkpoints", "attempts", "events",
         "files", "times", "actions")  # fmt: skip


def shown(page):
    """What a page says of a run, for comparing two of them."""
    texts = {name: page.locator(f"#{name}").inner_text() for name in SHOWN}
    return texts | {
        "title": page.title(),
        "plot": page.locator("#plot").get_attribute("aria-valuetext"),
    }


def expect_value(page, text):
    expect(page.locator("#plot")).to_have_attribute("aria-valuetext", text)


def test_live_page_is_the_same_after_a_reload(visitor_as, report):
    job = make_job()
    page = visitor_as("viewer").open(f"/console/jobs/{job.pk}/?events=all")
    expect(page.locator(LIVE).first).to_have_text("Live")
    expect(page.locator("#events li")).to_have_count(1)

    for index, one in enumerate(REPORTS):
        report(job, one, start=index)

    expect(page.locator("#events li")).to_have_count(1 + len(REPORTS))
    expect(page.locator("#head .pill")).to_have_text("Training")
    expect(page.locator("#step")).to_contain_text("Step 4 of 100 (4 %)")
    expect(page.locator("#warnings li")).to_have_text("1 of 3 examples dropped")
    expect(page.locator("#loss-words")).to_contain_text("1.5 at step 4")
    expect(page.locator("#checkpoints tbody tr")).to_contain_text("4 best")
    expect(page).to_have_title(f"4 % · Run {job.pk} - gligabao")
    expect_value(page, "step 4: Loss 1.5 (smoothed 3,781), Eval loss 1.9")
    live = shown(page)
    page.reload()
    expect_value(page, live["plot"])
    assert shown(page) == live


def test_run_is_watched_to_its_end(visitor_as, report):
    job = make_job()
    page = visitor_as("trainer").open(f"/console/jobs/{job.pk}/")
    report(job, {"type": "status", "status": "training"})
    expect(page.locator("#head .pill")).to_have_text("Training")
    expect(page.locator("#nav-jobs-count")).to_have_text("1")

    make_trained_model(run=job, name="tiny-mine")
    end_job(job)

    expect(page.locator("#head .pill")).to_have_text("Completed")
    expect(page.get_by_role("link", name="Open the model")).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    expect(page.get_by_role("button", name="Run again")).to_be_visible()
    expect(page.locator("#nav-jobs-count")).to_be_empty()


def test_change_of_status_is_read_out(visitor_as, report):
    job = make_job(name="mine")
    page = visitor_as("viewer").open(f"/console/jobs/{job.pk}/")
    expect(page.locator(LIVE).first).to_have_text("Live")

    report(job, {"type": "status", "status": "training"})
    expect(page.locator("#said")).to_have_text(f"Run {job.pk}: Training")
    end_job(job, status="failed")
    expect(page.locator("#said")).to_contain_text(f"Run {job.pk}: Failed")


def test_failure_says_why(visitor_as, report):
    job = make_job()
    page = visitor_as("viewer").open(f"/console/jobs/{job.pk}/")
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)

    ended = server_event("status", status="failed", reason="out_of_memory", error="exit 137",
                         final_loss=None, model_id=None)  # fmt: skip
    append_events(job.pk, [ended], db="default")

    expect(page.locator("#head .pill")).to_have_text("Failed")
    expect(page.locator("#reason")).to_contain_text("Lower batch_size")
    expect(page.locator("#reason")).to_contain_text("exit 137")


def test_stop_asks_first_and_says_what_it_does(visitor_as, report):
    job = make_job()
    report(job, {"type": "checkpoint", "step": 50, "path": "checkpoint-50"})
    page = visitor_as("trainer").open(f"/console/jobs/{job.pk}/")

    page.get_by_role("button", name="Stop").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("the checkpoint of step 50 is kept")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.get_by_role("button", name="Stop").click()
    dialog.get_by_role("button", name="Go on training").click()
    expect(dialog).to_be_hidden()
    job.refresh_from_db()
    assert job.stop_requested_at is None

    page.get_by_role("button", name="Stop").click()
    dialog.get_by_role("button", name="Stop the run").click()
    expect(page.locator("#head .pill")).to_have_text("Cancelled")
    expect(page.locator("#reason")).to_contain_text("Stopped by trainer-user.")


def test_an_open_dialog_survives_what_comes_in(visitor_as, report):
    job = make_job()
    page = visitor_as("trainer").open(f"/console/jobs/{job.pk}/")
    page.get_by_role("button", name="Stop").click()

    report(
        job, {"type": "status", "status": "training"}, {"type": "progress", "step": 7, "loss": 1}
    )

    expect(page.locator("#step")).to_contain_text("Step 7 of 100")
    expect(page.get_by_role("dialog")).to_be_visible()
    expect(page.get_by_role("button", name="Go on training")).to_be_focused()


def test_what_is_typed_survives_what_comes_in(visitor_as, report):
    job = make_job()
    page = visitor_as("trainer").open(f"/console/jobs/{job.pk}/")
    page.get_by_text("Name, tags and note").click()
    page.get_by_label("Note").fill("half a sen")

    report(job, {"type": "progress", "step": 7, "loss": 1})

    expect(page.locator("#step")).to_contain_text("Step 7 of 100")
    expect(page.get_by_label("Note")).to_have_value("half a sen")
    expect(page.get_by_label("Note")).to_be_focused()


def test_p04_bar_is_clamped(visitor_as, report):
    job = make_job()
    page = visitor_as("viewer").open(f"/console/jobs/{job.pk}/")
    steps = json.loads((CASES / "P04.json").read_text())["steps"]

    report(job, *(step["body"] for step in steps[:-1]))

    expect(page.locator("#step")).to_contain_text("Step 108 of 100 (100 %)")
    bar = page.locator("#progress progress")
    assert bar.evaluate("bar => [bar.value, bar.max]") == [100, 100]
    box, card = bar.bounding_box(), page.locator("#progress").bounding_box()
    assert box["x"] + box["width"] <= card["x"] + card["width"]


def test_u07_markup_is_seen_as_text(visitor_as, report):
    job = make_job(name=HOSTILE, dataset=HOSTILE, tags=[HOSTILE])
    visitor = visitor_as("viewer")
    runs = visitor.open("/console/jobs/")
    page = visitor.open(f"/console/jobs/{job.pk}/")
    expect(page.locator(LIVE).first).to_have_text("Live")

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
    expect(runs.locator(f"tr[data-key='{live_job.pk}'] .name a")).to_have_text(HOSTILE)

    for _ in ("live", "after a reload"):
        expect(page.locator("#reason")).to_contain_text(HOSTILE)
        expect(page.locator("#warnings li")).to_have_text(HOSTILE)
        expect(page.locator("h1")).to_have_text(HOSTILE)
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
    page.get_by_role("link", name="All", exact=True).click()
    expect(page.locator("#events li")).to_have_count(1 + len(REPORTS))
    expect(page.locator("#plot polyline.line-1")).to_have_count(1)
    expect(page.locator("#loss-words")).to_contain_text("Training loss from 3.412 at step 1")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#head .pill")).to_have_text("Cancelled")


def test_long_absence_is_caught_up(visitor_as, report):
    job = make_job()
    page = visitor_as("viewer").open(f"/console/jobs/{job.pk}/")
    expect(page.locator(LIVE).first).to_have_text("Live")
    page.evaluate("() => window.__hide(true)")

    reports = [{"type": "log", "text": f"line {n}", "seq": n, "boot": "b"} for n in range(2500)]
    append_events(job.pk, [parse_report(one) for one in reports], db="default")
    page.evaluate("() => window.__hide(false)")

    expect(page.locator("#events li").first).to_contain_text("line 2499")
    expect(page.locator("#events li")).to_have_count(200)


def test_new_attempt_takes_back_what_was_overtaken(visitor_as, report):
    job = make_job()
    page = visitor_as("viewer").open(f"/console/jobs/{job.pk}/")
    report(job, *({"type": "progress", "step": n, "loss": 3.0} for n in range(1, 9)))
    expect_value(page, "step 8: Loss 3 (smoothed 3)")

    append_events(
        job.pk,
        [parse_report({"boot": "second", "seq": 0, "type": "progress", "step": 5, "loss": 2.0})],
        db="default",
    )

    expect(page.locator("#attempts tbody tr")).to_have_count(2)
    expect(page.locator("#plot")).to_have_attribute("aria-valuemax", "5")


def test_log_is_shown_at_its_end(visitor_as, report, web):
    job = make_job()
    page = visitor_as("viewer").open(f"/console/jobs/{job.pk}/")

    page.get_by_text("Show the end of the log").click()

    expect(page.locator("#log-lines")).to_contain_text("The trainer has printed nothing yet.")
    page.get_by_role("link", name="The last 1,000 lines").click()
    expect(page.locator("h1")).to_have_text("Log")


def test_page_with_a_refused_form_stays_live(visitor_as, report):
    job = make_job(name="mine")
    visitor = visitor_as("trainer")
    page = visitor.open(f"/console/jobs/{job.pk}/")
    page.get_by_text("Name, tags and note").click()
    page.get_by_label("Tags").fill(",".join(f"tag {number}" for number in range(100)))
    page.get_by_role("button", name="Save").click()
    expect(page.locator("main .problem")).to_be_visible()
    visitor.bear("400 (Bad Request)")
    expect(page.locator(LIVE)).to_have_text("Live")

    report(job, {"type": "status", "status": "training"}, {"type": "progress", "step": 7})

    expect(page.locator("main .head .pill")).to_have_text("Training")
    expect(page.locator("#step")).to_contain_text("Step 7 of 100")
    expect(page.get_by_label("Tags")).to_have_value(re.compile("tag 99"))
