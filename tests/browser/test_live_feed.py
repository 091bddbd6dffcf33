"""One stream for all tabs: who holds it, and what a tab that missed something does."""

import psutil
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import wait_for_stream
from tests.factories import make_job
from tests.waiting import eventually
from training.contract import parse_report
from training.events import append_events

pytestmark = pytest.mark.browser
LIVE = "[data-feed-state]"


def num_streams(page):
    return page.evaluate("() => window.__sources.size")


def texts(page):
    return page.locator("#events li .text").all_inner_texts()


def lines(start, stop):
    return [{"type": "log", "text": f"line {number}"} for number in range(start, stop)]


def expect_lines(page, stop):
    """The page has line 0 to line stop - 1, each once, the newest first."""
    expect(page.locator("#events li")).to_have_count(stop + 1)
    assert texts(page)[:-1] == [f"line {number}" for number in reversed(range(stop))]


def num_connections(web):
    found = psutil.Process(web.process.pid).net_connections(kind="tcp")
    return sum(
        one.status == psutil.CONN_ESTABLISHED and one.laddr.port == web.port for one in found
    )


def test_p11_seven_tabs_share_one_stream(visitor_as, report, web):
    """Six connections are all that a browser opens to one server."""
    jobs = [make_job(name=f"number {number}") for number in range(7)]
    visitor = visitor_as("trainer")
    tabs = [visitor.open(f"/console/jobs/{job.pk}/") for job in jobs[:6]]
    tabs.append(visitor.open(f"/console/jobs/{jobs[6].pk}/"))
    expect(tabs[6].locator("h1")).to_contain_text("number 6", timeout=5_000)

    for tab in tabs:
        expect(tab.locator(LIVE)).to_have_text("Live")
    assert sorted(map(num_streams, tabs)) == [0] * 6 + [1]
    for job, tab in zip(jobs, tabs, strict=True):
        report(job, *lines(0, 3))
        expect_lines(tab, 3)

    tabs[6].get_by_role("button", name="Stop").click()
    tabs[6].get_by_role("button", name="Stop the run").click()
    expect(tabs[6].locator("#head .pill")).to_have_text("Cancelled")

    for tab in tabs[:3]:
        tab.close()
    for tab in tabs[3:]:
        expect(tab.locator(LIVE)).to_have_text("Live")
    # Idle connections end after five seconds, streams of closed tabs at once.
    eventually(lambda: num_connections(web) == 1, seconds=20)
    assert sum(map(num_streams, tabs[3:])) == 1
    for job, tab in zip(jobs[3:6], tabs[3:6], strict=True):
        report(job, *lines(3, 5), start=3)
        expect_lines(tab, 5)


def test_hidden_tab_holds_no_stream_and_catches_up(visitor_as, report):
    job = make_job()
    page = visitor_as("viewer").open(f"/console/jobs/{job.pk}/")
    report(job, *lines(0, 2))
    expect_lines(page, 2)
    assert num_streams(page) == 1

    page.evaluate("() => window.__hide(true)")
    assert num_streams(page) == 0
    report(job, *lines(2, 5), start=2)
    expect(page.locator("#events li")).to_have_count(3)

    page.evaluate("() => window.__hide(false)")
    expect_lines(page, 5)
    report(job, *lines(5, 6), start=5)
    expect_lines(page, 6)
    assert num_streams(page) == 1


def test_stream_goes_on_in_another_tab(visitor_as, report):
    job = make_job()
    visitor = visitor_as("viewer")
    leader, follower = (visitor.open(f"/console/jobs/{job.pk}/") for _ in range(2))
    expect(follower.locator(LIVE)).to_have_text("Live")
    assert (num_streams(leader), num_streams(follower)) == (1, 0)

    leader.close()
    report(job, *lines(0, 2))

    expect_lines(follower, 2)
    assert num_streams(follower) == 1


def test_left_page_holds_no_stream(visitor_as):
    job = make_job()
    page = visitor_as("viewer").open(f"/console/jobs/{job.pk}/")
    expect(page.locator(LIVE)).to_have_text("Live")

    page.goto(page.url.split("/console")[0] + "/console/jobs/")
    expect(page.locator(LIVE)).to_have_text("Live")
    page.go_back()

    expect(page.locator(LIVE)).to_have_text("Live")
    assert num_streams(page) == 1


def test_event_told_twice_or_late_changes_nothing(visitor_as, report):
    job = make_job()
    visitor = visitor_as("viewer")
    page = visitor.open(f"/console/jobs/{job.pk}/")
    other = visitor.open("/console/jobs/")
    report(job, *lines(0, 3))
    expect_lines(page, 3)

    other.evaluate(
        """(run_id) => {
            const channel = new BroadcastChannel("gligabao-feed-standard");
            for (const seq of [2, 2, 3, 0]) {
                const event = { run_id, seq, type: "log", attempt: 1, text: "again",
                                created_at: "2026-11-30T09:30:12Z" };
                channel.postMessage({ kind: "event", event });
            }
        }""",
        job.pk,
    )
    report(job, *lines(3, 4), start=3)

    expect_lines(page, 4)


def test_gap_in_the_stream_is_filled_from_the_rows(visitor_as, report):
    job = make_job()
    visitor = visitor_as("viewer")
    leader = visitor.open("/console/jobs/")
    expect(leader.locator(LIVE)).to_have_text("Live")
    page = visitor.open(f"/console/jobs/{job.pk}/")
    expect(page.locator(LIVE)).to_have_text("Live")
    stored = [parse_report({"boot": "b", "seq": n, **one}) for n, one in enumerate(lines(0, 300))]

    # More at once than may wait for one reader: the stream of all jobs is cut or has a gap.
    append_events(job.pk, stored, db="default")

    expect(page.locator("#events li").first).to_contain_text("line 299")
    expect(page.locator("#events li")).to_have_count(200)
    assert texts(page) == [f"line {number}" for number in reversed(range(100, 300))]


def test_server_that_was_away_leaves_no_gap(visitor_as, report, web):
    job = make_job()
    visitor = visitor_as("viewer")
    page = visitor.open(f"/console/jobs/{job.pk}/")
    report(job, *lines(0, 2))
    expect_lines(page, 2)

    web.kill()
    expect(page.locator(LIVE)).to_have_text("Connection lost")
    expect(page.locator("#connection")).to_contain_text("No connection since")
    stored = [parse_report({"boot": "b", "seq": 2 + n, **one}) for n, one in enumerate(lines(2, 4))]
    append_events(job.pk, stored, db="default")
    web.start()

    expect(page.locator(LIVE)).to_have_text("Live", timeout=20_000)
    expect(page.locator("#connection")).to_be_hidden()
    expect_lines(page, 4)
    report(job, *lines(4, 5), start=4)
    expect_lines(page, 5)
    # The browser complains of the lost connection, and of nothing else.
    assert all("net::ERR_" in problem for problem in visitor.problems)
    visitor.problems.clear()


def test_page_that_is_not_there_says_so_once_and_counts_on(visitor_as):
    visitor = visitor_as("viewer")
    page = visitor.open("/console/nothing/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
    wait_for_stream(page)

    make_job()

    expect(page.get_by_role("link", name="Runs 1")).to_be_visible()
    expect(page.locator("#connection")).to_be_hidden()
    visitor.bear("404 (Not Found)")
