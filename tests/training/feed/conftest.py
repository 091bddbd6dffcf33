"""Web processes and readers for the tests of the feed."""

import pytest
from knox.models import AuthToken

from tests.servers import environment, start_web
from tests.settings import TEST_REDIS_URL
from tests.sse import SseClient
from training.feed.tailer import stop_tailers

PATH = "/v1/gb/training/events"

SETUPS = [
    pytest.param("sqlite", id="sqlite"),
    pytest.param("postgres", id="postgres", marks=pytest.mark.postgres),
    pytest.param("redis", id="redis", marks=[pytest.mark.postgres, pytest.mark.redis]),
]


@pytest.fixture(params=SETUPS)
def setup(request, settings):
    """Each set-up in turn."""
    if request.param == "redis":
        settings.REDIS_URL = TEST_REDIS_URL  # this process rings too
    return request.param


@pytest.fixture(scope="session")
def web(django_db_setup, tmp_path_factory):
    """A web process on the test databases, without Redis."""
    web = start_web(environment(), tmp_path_factory.mktemp("web") / "web.log")
    yield web
    web.stop()


@pytest.fixture(autouse=True)
def _stopped_tailers():
    yield
    stop_tailers()


@pytest.fixture
def token_of_role(user_with_role):
    """Makes tokens: token_of_role("viewer")."""

    def make(role):
        return AuthToken.objects.create(user_with_role(role))[1]

    return make


@pytest.fixture
def open_feed(web, token_of_role):
    """Opens streams: open_feed(run_id=3, db="pg", last_id="4"). Closes them after the test."""
    token = token_of_role("viewer")
    clients = []

    def open_(*, db="default", last_id=None, headers=None, **options):
        query = {"db": "standard" if db == "default" else db}
        for name in ("run_id", "from_"):
            if name in options:
                query[name.rstrip("_")] = options.pop(name)
        headers = dict(headers or {})
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        url = f"{web.url}{PATH}?" + "&".join(f"{name}={value}" for name, value in query.items())
        client = SseClient(url, token, headers=headers, **options)
        clients.append(client)
        return client

    yield open_
    for client in clients:
        client.close()
