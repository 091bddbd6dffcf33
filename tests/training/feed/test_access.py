"""Who may open a stream, what is refused and how, and how many streams one user may have."""

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from knox.models import AuthToken

from tests.factories import make_job, token_of
from tests.servers import environment, start_web
from tests.sse import SseClient
from tests.training.feed.conftest import PATH
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ask(web):
    """Asks for a stream and answers with what came back; closes it."""

    def ask_(query="", token=None, **headers):
        with SseClient(f"{web.url}{PATH}{query}", token, headers=headers) as client:
            return client

    return ask_


def test_p10_the_headers_keep_proxies_from_holding_back_and_packing(ask, token_of_role):
    answer = ask("", token_of_role("viewer"), **{"Accept-Encoding": "gzip, br"})

    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    assert "content-encoding" not in answer.headers


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        pytest.param("?run_id=424242", 404, "unknown_job", id="P09-12"),
        pytest.param("?run_id=1e3", 400, "invalid_query", id="P09-13"),
        pytest.param("?run_id=", 400, "invalid_query", id="empty"),
        pytest.param("?run_id=-1", 400, "invalid_query", id="negative"),
        pytest.param("?run_id=%D9%A4", 400, "invalid_query", id="other digits"),
        pytest.param("?run_id=" + "9" * 30, 400, "invalid_query", id="too long"),
        pytest.param("?db=nowhere", 404, "unknown_database", id="database"),
        pytest.param("?runid=1", 400, "unknown_field", id="unknown field"),
    ],
)
def test_a_bad_question_is_refused_as_json(ask, token_of_role, query, status, code):
    answer = ask(query, token_of_role("viewer"))

    assert (answer.status, answer.body["code"]) == (status, code)
    assert answer.body["error"]


@pytest.mark.parametrize("role", ["viewer", "trainer", "admin"])
def test_every_role_may_read(ask, token_of_role, role):
    assert ask("", token_of_role(role)).status == 200


def test_a_user_without_a_role_may_not(ask):
    user = get_user_model().objects.create_user("nobody", password="a-long-password")

    answer = ask("", AuthToken.objects.create(user)[1])

    assert answer.status == 403
    assert answer.body["code"] == "permission_denied"


@pytest.mark.parametrize("query", ["", "?run_id=424242", "?run_id=x"])
def test_without_a_login_nothing_is_told(ask, query):
    answer = ask(query)

    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.body["code"] == "not_authenticated"


def test_an_unknown_token_is_refused(ask):
    assert ask("", "0" * 64).status == 401


def test_a_token_in_the_address_is_no_login(ask, token_of_role):
    assert ask(f"?token={token_of_role('viewer')}").status == 401


def test_u10_a_jobs_own_token_opens_no_stream(ask):
    job = make_job()

    assert ask(f"?run_id={job.pk}", token_of(job)).status == 401


def test_the_login_of_the_console_is_enough(ask, user_with_role):
    client = Client()
    client.force_login(user_with_role("viewer"))

    assert ask("", Cookie=f"sessionid={client.cookies['sessionid'].value}").status == 200


@pytest.mark.parametrize("method", ["post", "put", "delete", "head", "options"])
def test_a_stream_can_only_be_read(api_as, method):
    assert getattr(api_as("admin"), method)(PATH).status_code == 405


def test_under_wsgi_it_says_what_is_missing(api_as):
    answer = api_as("viewer").get(PATH)

    assert answer.status_code == 501
    assert answer.json()["code"] == "needs_asgi"


def test_a_user_has_so_many_streams_and_a_closed_one_makes_room(token_of_role, tmp_path):
    token, other = token_of_role("viewer"), token_of_role("trainer")
    web = start_web(environment(GLIGABAO_MAX_STREAMS_PER_USER="2"), tmp_path / "web.log")
    url = web.url + PATH
    try:
        with SseClient(url, token) as first, SseClient(url, token), SseClient(url, token) as third:
            assert third.status == 429
            assert third.body["code"] == "too_many_streams"
            with SseClient(url, other) as of_another_user:
                assert of_another_user.status == 200

            first.close()

            eventually(lambda: _is_open(url, token))
    finally:
        web.stop()


def _is_open(url, token):
    with SseClient(url, token) as client:
        return client.status == 200
