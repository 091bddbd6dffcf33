"""A real browser on a real web process that shares the tests' database."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx
import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.factories import token_of
from tests.servers import Web, environment, start_web
from tests.waiting import eventually

CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
# Counts the streams that a page has open, and lets a test hide the page.
WATCH_PAGE = """
window.__sources = new Set();
window.EventSource = class extends EventSource {
  constructor(...args) { super(...args); window.__sources.add(this); }
  close() { super.close(); window.__sources.delete(this); }
};
window.__hide = (isHidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => isHidden });
  document.dispatchEvent(new Event("visibilitychange"));
};
"""


@pytest.fixture(scope="package")
def web(django_db_setup, tmp_path_factory) -> Web:
    """A web process on the test databases."""
    web = start_web(environment(), tmp_path_factory.mktemp("web") / "web.log")
    yield web
    web.stop()


@pytest.fixture(scope="package")
def chromium() -> Browser:
    """Started once. While it is there Django must bear the event loop of this thread."""
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
            yield browser
            browser.close()
    finally:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


def wait_for_stream(page: Page) -> None:
    """Asked from here: a page may not run texts as code, so it cannot wait by itself."""
    is_open = "() => [...window.__sources].some((source) => source.readyState === 1)"
    eventually(lambda: page.evaluate(is_open))


@dataclass
class Visitor:
    """One browser profile. What its pages complain about is in `problems`."""

    context: BrowserContext
    url: str
    problems: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._note)
        page.on("request", self._look_at)
        page.goto(self.url + path)
        return page

    def bear(self, text: str) -> None:
        """Forget what a test brought about: the browser notes each request that is refused."""
        assert [one for one in self.problems if text in one], self.problems
        self.problems[:] = [one for one in self.problems if text not in one]

    def end_login(self, page: Page) -> None:
        """Once the page's stream is open: one that is opened later would be refused too."""
        wait_for_stream(page)
        Session.objects.all().delete()

    def _look_at(self, request) -> None:
        if not request.url.startswith((f"{self.url}/", "data:", "blob:")):
            self.problems.append(f"asked another host: {request.url}")

    def _note(self, message) -> None:
        if message.type == "error":
            self.problems.append(f"{message.text} {message.location.get('url')}")


@pytest.fixture
def visitor(web, chromium, transactional_db):
    """Makes browser profiles that nobody is logged in to. Their pages must not complain."""
    made = []

    def make(**options):
        context = chromium.new_context(**options)
        context.set_default_timeout(10_000)
        context.add_init_script(WATCH_PAGE)
        made.append(Visitor(context, web.url))
        return made[-1]

    yield make
    for one in made:
        one.context.close()
    assert [one.problems for one in made] == [[] for _ in made]


@pytest.fixture
def visitor_as(visitor, user_with_role):
    """Makes browser profiles of somebody: visitor_as("trainer")."""

    def make(role, **options):
        client = Client()
        client.force_login(user_with_role(role))
        one = visitor(**options)
        host = urlsplit(one.url).hostname
        session = client.cookies["sessionid"].value
        one.context.add_cookies(
            [{"name": "sessionid", "value": session, "domain": host, "path": "/"}]
        )
        return one

    return make


@pytest.fixture
def report(web):
    """Reports as the job's trainer does, over HTTP: report(job, {...}, {...})."""

    def send(job, *reports, start=0):
        numbered = [{"boot": "b", "seq": start + index, **one} for index, one in enumerate(reports)]
        answer = httpx.post(
            f"{web.url}/v1/gb/training/jobs/{job.pk}/events",
            json=numbered,
            headers={"Authorization": f"Bearer {token_of(job)}"},
            timeout=30,
        )
        assert answer.json()["rejected"] == [], answer.text

    return send
