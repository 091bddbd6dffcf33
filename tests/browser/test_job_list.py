"""The list of runs, live."""

import pytest
from playwright.sync_api import expect

from tests.factories import end_job, make_job

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True, databases=["default", "second"]),
]


def test_runs_appear_and_move_by_themselves(visitor_as, report):
    page = visitor_as("viewer").open("/console/jobs/")
    expect(page.locator("#no-jobs")).to_be_visible()
    expect(page.locator("#feed-state")).to_have_text("Live")

    job = make_job(name="first")
    row = page.locator(f"tr[data-run='{job.pk}']")
    expect(row.locator(".pill")).to_have_text("Queued")
    expect(page.locator("#no-jobs")).to_be_hidden()

    report(
        job,
        {"type": "status", "status": "training"},
        {"type": "progress", "step": 40, "loss": 1.5},
    )
    expect(row.locator(".pill")).to_have_text("Training")
    expect(row).to_contain_text("40 / 100")
    expect(row).to_contain_text("1.5")

    newer = make_job(name="second")
    expect(page.locator("tbody tr").first).to_contain_text(f"Run {newer.pk}: second")

    end_job(job)
    expect(row.locator(".pill")).to_have_text("Completed")
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Run {job.pk}: first")


def test_p01_and_p04_in_the_list(visitor_as, report):
    job = make_job()
    page = visitor_as("viewer").open("/console/jobs/")
    row = page.locator(f"tr[data-run='{job.pk}']")

    report(job, {"type": "progress", "step": 108, "loss": None, "nonfinite": "nan"})

    expect(row.locator("[data-field=loss]")).to_have_text("NaN")
    expect(row.locator("[data-field=steps]")).to_have_text("108 / 100")
    assert row.locator("progress").evaluate("bar => [bar.value, bar.max]") == [100, 100]


def test_other_database_has_its_own_list(visitor_as, report):
    page = visitor_as("viewer").open("/console/jobs/?db=second")
    expect(page.locator("#feed-state")).to_have_text("Live")

    make_job(name="here")
    job = make_job(db="second", name="there")

    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="there").click()
    assert page.url.endswith(f"/console/jobs/{job.pk}/?db=second")
    expect(page.locator("#feed-state")).to_have_text("Live")
