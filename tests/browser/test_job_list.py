"""The list of runs and the overview, live."""

import pytest
from playwright.sync_api import expect

from tests.factories import end_job, make_job

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True, databases=["default", "second"]),
]

LIVE = "[data-feed-state]"


def test_runs_appear_and_move_by_themselves(visitor_as, report):
    page = visitor_as("viewer").open("/console/jobs/")
    expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
    expect(page.locator(LIVE)).to_have_text("Live")

    job = make_job(name="first")
    row = page.locator(f"tr[data-key='{job.pk}']")
    expect(row.locator(".pill")).to_have_text("Queued")
    expect(page.get_by_role("heading", name="No runs yet")).to_have_count(0)

    report(
        job,
        {"type": "status", "status": "training"},
        {"type": "progress", "step": 40, "loss": 1.5},
    )
    expect(row.locator(".pill")).to_have_text("Training")
    expect(row).to_contain_text("40 / 100")
    expect(row).to_contain_text("1.5")

    newer = make_job(name="second")
    expect(page.locator("tbody tr").first).to_contain_text("second")
    expect(page.locator("#counts")).to_contain_text("2 active")

    end_job(job)
    expect(row.locator(".pill")).to_have_text("Completed")
    expect(page.locator(f"tr[data-key='{newer.pk}'] .pill")).to_have_text("Queued")
    row.get_by_role("link", name="first").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("first")


def test_overview_moves_from_active_to_recent(visitor_as, report):
    page = visitor_as("trainer").open("/console/")
    expect(page.get_by_role("heading", name="The first three steps")).to_be_visible()
    expect(page.locator(LIVE)).to_have_text("Live")

    job = make_job(name="mine")
    active = page.get_by_role("region", name="Active now")
    expect(active).to_contain_text("mine")
    end_job(job)

    expect(active).to_contain_text("Nothing runs at the moment.")
    expect(page.get_by_role("region", name="Finished recently")).to_contain_text("mine")


def test_p01_and_p04_in_the_list(visitor_as, report):
    job = make_job()
    page = visitor_as("viewer").open("/console/jobs/")
    row = page.locator(f"tr[data-key='{job.pk}']")

    report(job, {"type": "progress", "step": 108, "loss": None, "nonfinite": "nan"})

    expect(row).to_contain_text("NaN")
    expect(row).to_contain_text("108 / 100")
    assert row.locator("progress").evaluate("bar => [bar.value, bar.max]") == [100, 100]


def test_filters_stay_and_the_filtered_list_is_live(visitor_as, report):
    job, other = make_job(name="one"), end_job(make_job(name="two"))
    page = visitor_as("viewer").open("/console/jobs/")

    page.locator("label", has_text="Queued").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    assert "status=queued" in page.url
    expect(page.locator(LIVE)).to_have_text("Live")
    end_job(job)

    expect(page.get_by_role("heading", name="No runs match")).to_be_visible()
    expect(page.get_by_role("checkbox", name="Queued")).to_be_checked()
    page.get_by_role("link", name="Clear the filters").click()
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_role("searchbox").fill("two")
    page.keyboard.press("Enter")
    expect(page.locator(f"tr[data-key='{other.pk}']")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(1)


def test_chosen_runs_are_compared(visitor_as, report):
    jobs = [make_job(name=f"number {n}") for n in range(3)]
    for job in jobs:
        report(
            job,
            {"type": "progress", "step": 1, "loss": 2.0},
            {"type": "progress", "step": 2, "loss": 1.5},
        )
    page = visitor_as("viewer").open("/console/jobs/")
    button = page.get_by_role("button", name="Compare selected")
    expect(button).to_be_disabled()

    page.get_by_label("Choose number 0 for comparing").check()
    expect(button).to_be_disabled()
    page.get_by_label("Choose number 2 for comparing").check()
    report(jobs[1], {"type": "progress", "step": 3, "loss": 9.0}, start=2)
    expect(page.locator(f"tr[data-key='{jobs[1].pk}']")).to_contain_text("3 / 100")
    expect(page.get_by_label("Choose number 2 for comparing")).to_be_checked()
    button.click()

    expect(page.locator("#legend li")).to_have_text(["number 2", "number 0"])
    plot = page.locator("#plot")
    expect(plot).to_have_attribute(
        "aria-valuetext", "step 2: number 2 1.5 (smoothed 1.722), number 0 1.5 (smoothed 1.722)"
    )
    report(jobs[0], {"type": "progress", "step": 3, "loss": 1.0}, start=2)
    expect(plot).to_have_attribute("aria-valuemax", "3")


def test_other_database_has_its_own_list(visitor_as, report):
    page = visitor_as("viewer").open("/console/jobs/?db=second")
    expect(page.locator(LIVE)).to_have_text("Live")

    make_job(name="here")
    job = make_job(db="second", name="there")

    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="there").click()
    assert page.url.endswith(f"/console/jobs/{job.pk}/?db=second")
    expect(page.locator(LIVE).first).to_have_text("Live")


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/console/jobs/", ".tag"),
        ("/console/", ".tag"),
        ("/console/jobs/compare/?id={}", "th small"),
    ],
)
def test_name_that_turns_the_direction_turns_nothing_else(visitor_as, path, what):
    job = make_job(name="abc \u202egnirts", tags=["12"])
    page = visitor_as("viewer").open(path.format(job.pk))

    places = page.locator(what).first.evaluate(
        """(beside) => {
          const text = beside.firstChild;
          const at = (index) => {
            const range = document.createRange();
            range.setStart(text, index);
            range.setEnd(text, index + 1);
            return range.getBoundingClientRect().left;
          };
          const name = beside.parentElement.querySelector("a").getBoundingClientRect();
          return { first: at(0), second: at(1), nameEnds: name.right };
        }"""
    )

    assert places["nameEnds"] <= places["first"] < places["second"]
