"""The main journey by keyboard alone, on a real installation: from the login to an answer.

Web, worker, trainer and inference are real; the model is the tiny one.
"""

import json

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import WATCH_PAGE
from tests.faults.installation import Installation

pytestmark = pytest.mark.browser

ROWS = [
    {"prompt": f"Which shelf holds part {number}?", "completion": f"Shelf {number}."}
    for number in range(1, 13)
]
MOST_TABS = 80  # no page needs as many to reach anything
# Collects what a screen reader is told, in order.
HEAR = """
window.__said = [];
addEventListener("DOMContentLoaded", () => {
  const place = document.getElementById("said");
  const note = () => place.textContent.trim() && window.__said.push(place.textContent.trim());
  new MutationObserver(note).observe(place, { childList: true, characterData: true, subtree: true });
});
"""


@pytest.fixture
def installation(tmp_path):
    installation = Installation(tmp_path)
    installation.start()
    yield installation
    installation.stop()


@pytest.fixture
def page(chromium, installation):
    context = chromium.new_context(locale="en-GB")
    context.set_default_timeout(10_000)
    context.add_init_script(WATCH_PAGE + HEAR)
    elsewhere, problems = [], []
    context.on(
        "request",
        lambda one: one.url.startswith((installation.url, "data:")) or elsewhere.append(one.url),
    )
    page = context.new_page()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda one: one.type == "error" and problems.append(one.text))
    page.goto(installation.url)
    yield page
    context.close()
    assert (elsewhere, problems) == ([], [])


def tab_to(page, place):
    """Press Tab until it has the focus, as somebody without a mouse does."""
    expect(place).to_be_visible()
    for _ in range(MOST_TABS):
        if place.evaluate("(element) => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{place} cannot be reached by Tab")


def follow(page, place):
    tab_to(page, place)
    page.keyboard.press("Enter")


def heading(page, text):
    expect(page.get_by_role("heading", level=1)).to_have_text(text)


def test_from_login_to_answer_without_a_mouse(page, installation, tmp_path):
    rows = tmp_path / "shelves.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS))

    page.keyboard.type("admin")
    page.keyboard.press("Tab")
    page.keyboard.type(installation.password)
    page.keyboard.press("Enter")
    heading(page, "Overview")

    follow(page, page.get_by_role("main").get_by_role("link", name="Upload dataset"))
    heading(page, "Upload a dataset")
    tab_to(page, page.get_by_label("Choose a .jsonl file"))
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Space")
    chooser.value.set_files(rows)
    follow(page, page.get_by_role("button", name="Upload"))
    heading(page, "shelves.jsonl")
    expect(page.get_by_role("main")).to_contain_text("Shelf 7.")

    follow(page, page.get_by_role("link", name="Train on this"))
    heading(page, "New run")
    expect(page.get_by_label("Dataset")).to_have_value("shelves.jsonl")
    tab_to(page, page.get_by_label("Base model"))
    page.keyboard.type("tiny")
    tab_to(page, page.get_by_label("Steps", exact=True))
    page.keyboard.press("Control+a")
    page.keyboard.type("12")
    follow(page, page.get_by_role("button", name="Start run"))

    pill = page.locator("main .head .pill")
    expect(pill).to_have_text("Completed", timeout=180_000)
    tab_to(page, page.get_by_role("slider", name="Training curve"))
    page.keyboard.press("Home")
    plot = page.locator("#plot")
    assert plot.get_attribute("aria-valuetext").startswith("step 1: Loss ")
    page.keyboard.press("End")
    assert plot.get_attribute("aria-valuetext").startswith("step 12: Loss ")
    said = page.evaluate("() => window.__said")
    assert said[-1].endswith("Completed"), said
    assert any("Training" in one for one in said), said
    print(said, plot.get_attribute("aria-valuetext"))

    follow(page, page.get_by_role("link", name="Open the model"))
    tab_to(page, page.get_by_label("Prompt"))
    page.keyboard.type("Which shelf holds part 7?")
    tab_to(page, page.get_by_label("Most tokens"))
    page.keyboard.press("Control+a")
    page.keyboard.type("8")
    tab_to(page, page.get_by_label("Also ask the base model"))
    expect(page.get_by_label("Also ask the base model")).to_be_checked()
    page.keyboard.press("Control+Enter")
    expect(page.locator("#said")).to_have_text("The answer is complete.", timeout=180_000)
    for name in ("Tuned", "Base model"):
        answer = page.get_by_role("region", name=name)
        expect(answer.locator(".words")).not_to_be_empty()
        expect(answer.locator(".problem")).to_have_count(0)
        expect(answer.locator(".state")).to_contain_text(" pieces in ")
