"""Uploading: a good file, a bad one, a network that is gone, a login that has ended."""

import json

import pytest
from playwright.sync_api import expect

from datasets.models import Dataset

pytestmark = pytest.mark.browser

ROW = {"prompt": "Who <b>asks</b>?", "completion": "<script>alert(1)</script> Nobody."}
GOOD = "".join(
    json.dumps({**ROW, "prompt": f"{ROW['prompt']} {number}"}) + "\n" for number in range(12)
)
ADDRESS = "/console/datasets/upload/"


def file(name, text):
    return {"name": name, "mimeType": "application/jsonl", "buffer": text.encode()}


def send(page, name, text):
    page.get_by_label("Choose a .jsonl file").set_input_files(file(name, text))
    page.get_by_role("button", name="Upload").click()


@pytest.mark.parametrize("has_script", [True, False])
def test_good_file_leads_to_its_page(visitor_as, has_script):
    page = visitor_as("trainer", java_script_enabled=has_script).open(ADDRESS)

    page.get_by_label("Description").fill("<i>mine</i>")
    send(page, "good.jsonl", GOOD)

    expect(page.get_by_role("heading", level=1)).to_have_text("good.jsonl")
    expect(page.get_by_role("main")).to_contain_text("<script>alert(1)</script> Nobody.")
    expect(page.get_by_role("main")).to_contain_text("<i>mine</i>")
    assert page.locator("main i, main b").count() == 0


@pytest.mark.parametrize("has_script", [True, False])
def test_bad_file_is_explained_and_what_was_typed_stays(visitor_as, has_script):
    visitor = visitor_as("trainer", java_script_enabled=has_script)
    page = visitor.open(ADDRESS)
    page.get_by_label("Description").fill("my own words")

    send(page, "bad.jsonl", GOOD + '{"prompt": "cut\n')

    problems = page.locator("#problems")
    expect(problems).to_contain_text("The file was not stored.")
    expect(page.get_by_role("region", name="What is wrong")).to_contain_text("13")
    expect(page.get_by_label("Description")).to_have_value("my own words")
    visitor.bear("400 (Bad Request)")
    if has_script:
        expect(problems).to_be_focused()
        send(page, "bad.jsonl", GOOD)
        expect(page.get_by_role("heading", level=1)).to_have_text("bad.jsonl")
        expect(page.get_by_role("main")).to_contain_text("my own words")
    else:
        assert not Dataset.objects.filter(filename="bad.jsonl").exists()


def test_lost_network_is_said_and_the_form_goes_on(visitor_as):
    visitor = visitor_as("trainer")
    page = visitor.open(ADDRESS)
    # Something that does not arrive: the connection is cut before the file is under way.
    page.route("**/upload/", lambda route: route.abort("internetdisconnected"))

    send(page, "later.jsonl", GOOD)
    expect(page.get_by_role("alert")).to_contain_text("The connection was lost")
    assert not Dataset.objects.filter(filename="later.jsonl").exists()

    page.unroute("**/upload/")
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("later.jsonl")
    visitor.bear("ERR_INTERNET_DISCONNECTED")


def test_ended_login_is_said(visitor_as):
    visitor = visitor_as("trainer")
    page = visitor.open(ADDRESS)
    visitor.end_login(page)

    send(page, "never.jsonl", GOOD)

    expect(page.get_by_role("alert")).to_contain_text("Your login has ended. Nothing was stored")
    assert not Dataset.objects.filter(filename="never.jsonl").exists()
