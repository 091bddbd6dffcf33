"""Logging in and out."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_login_leads_to_the_page_that_was_asked_for(visitor, user_with_role, settings):
    # As in the web process, which does not know the quick one of the tests.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher"]
    user_with_role("viewer", name="vera")
    page = visitor().open("/console/jobs/?db=second")

    expect(page.get_by_label("User name")).to_be_focused()
    page.keyboard.type("vera")
    page.keyboard.press("Tab")
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("correct username and password")

    page.get_by_label("User name").fill("vera")
    page.get_by_label("Password").fill("a-long-password")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
    assert page.url.endswith("/console/jobs/?db=second")
    # A stream that is just being opened would meet the end of the session, and say so.
    expect(page.locator("[data-feed-state]")).to_have_text("Live")

    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
