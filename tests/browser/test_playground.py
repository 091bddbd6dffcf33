"""Asking a model when things go wrong; a real answer is at the end of the main journey."""

import json

import pytest
from playwright.sync_api import expect

from tests.factories import make_trained_model

pytestmark = pytest.mark.browser

EVENTS = [
    ("token", {"text": "<img src=x onerror=alert(1)> "}),
    ("token", {"text": "bolts"}),
    ("done", {"response": "<img src=x onerror=alert(1)> bolts", "finish_reason": "length"}),
]
STREAM = "".join(f"event: {kind}\ndata: {json.dumps(data)}\n\n" for kind, data in EVENTS)


@pytest.fixture
def trainer(visitor_as):
    trainer = visitor_as("trainer")
    trainer.model = make_trained_model()
    return trainer


@pytest.fixture
def page(trainer):
    page = trainer.open(f"/console/models/{trainer.model.pk}/")
    page.get_by_label("Prompt").fill("Which shelf?")
    return page


def ask(page):
    page.get_by_role("button", name="Generate").click()


def test_model_whose_files_are_gone_is_said_and_the_question_stays(page):
    ask(page)

    problem = page.locator("#tuned .problem")
    expect(problem).to_be_visible(timeout=60_000)
    assert len(problem.text_content()) > 20
    expect(page.get_by_label("Prompt")).to_have_value("Which shelf?")
    expect(page.get_by_role("button", name="Generate")).to_be_enabled()


def test_ended_login_is_said(trainer, page):
    trainer.end_login(page)

    ask(page)

    expect(page.locator("#tuned .problem")).to_contain_text("Your login has ended")
    expect(page.locator("#said")).to_contain_text("Your login has ended")
    expect(page.locator("#untuned .words")).to_be_empty()
    trainer.bear("401 (Unauthorized)")


def test_answer_that_breaks_off_keeps_its_words_and_says_so(page):
    started = 'event: token\ndata: {"text": "Shelf"}\n\n'
    page.route(
        "**/infer*",
        lambda route: route.fulfill(content_type="text/event-stream", body=started),
    )

    ask(page)

    expect(page.locator("#tuned .words")).to_contain_text("Shelf")
    expect(page.locator("#tuned .problem")).to_contain_text("The connection was lost")
    expect(page.locator("#said")).to_contain_text("The connection was lost")


def test_stop_ends_the_waiting_and_both_can_be_asked_again(page):
    page.route("**/infer*", lambda route: None)  # it never answers
    page.get_by_label("Also ask the base model").check()

    ask(page)
    page.get_by_role("button", name="Stop", exact=True).click()

    expect(page.locator("#tuned .state")).to_have_text("Stopped.")
    expect(page.get_by_role("button", name="Generate")).to_be_enabled()
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_hidden()


def test_answer_is_text_and_says_that_it_was_cut(page):
    page.route(
        "**/infer*", lambda route: route.fulfill(body=STREAM, content_type="text/event-stream")
    )

    ask(page)

    answer = page.locator("#tuned")
    expect(answer.locator(".words")).to_have_text("<img src=x onerror=alert(1)> bolts")
    expect(answer.locator(".state")).to_contain_text("Cut off: the most tokens were reached.")
    assert answer.locator("img").count() == 0


def test_without_a_script_the_answer_is_a_page(visitor_as):
    model = make_trained_model()
    page = visitor_as("trainer", java_script_enabled=False).open(f"/console/models/{model.pk}/")
    page.get_by_label("Prompt").fill("Which shelf?")

    ask(page)

    expect(page.locator("#tuned .problem")).to_be_visible(timeout=60_000)
    expect(page.get_by_label("Prompt")).to_have_value("Which shelf?")
