"""Profile, language, API tokens, and the pages that say what went wrong."""

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client, RequestFactory
from knox.models import AuthToken
from rest_framework.test import APIClient

from gligabao.outages import OutageMiddleware
from tests.reading import Page, page_of

pytestmark = pytest.mark.django_db


def test_every_page_needs_a_login(client):
    for address in ("", "tokens/", "about/"):
        assert client.get(f"/console/settings/{address}").status_code == 302


def test_user_without_a_role_still_has_an_account():
    client = Client()
    client.force_login(User.objects.create_user("none", password="old-password"))

    page = page_of(client, "/console/settings/")

    assert page.all("form", action="/logout/")
    assert not page.all("a", href="/console/jobs/")


def test_password_is_changed_and_the_session_goes_on(client_as):
    client = client_as("viewer")
    new = {"new_password1": "another-long-one", "new_password2": "another-long-one"}

    response = client.post("/console/settings/password", {"old_password": "wrong", **new})
    assert response.status_code == 400
    assert "old password was entered incorrectly" in Page(response.content.decode()).text
    client.post("/console/settings/password", {"old_password": "a-long-password", **new})

    assert "The password is changed" in page_of(client, "/console/settings/").text
    assert Client().login(username="viewer-user", password="another-long-one")


def test_language_is_chosen_and_given_back(client_as):
    client = client_as("viewer")
    assert 'lang="en"' in client.get("/console/jobs/").content.decode()

    client.post("/console/settings/language", {"language": "de"})
    text = client.get("/console/jobs/").content.decode()
    assert 'lang="de"' in text
    client.post("/console/settings/language", {"language": ""})
    assert (
        'lang="de"'
        in client.get("/console/jobs/", headers={"accept-language": "de-AT"}).content.decode()
    )
    assert (
        'lang="en"'
        in client.get("/console/jobs/", headers={"accept-language": "fr"}).content.decode()
    )
    client.post("/console/settings/language", {"language": "../x"})
    assert 'lang="en"' in client.get("/console/jobs/").content.decode()


def test_api_stays_english(api_as):
    client = api_as("viewer")

    answer = client.get("/v1/gb/training/jobs?limit=0", headers={"accept-language": "de"})

    assert answer.json()["error"] == client.get("/v1/gb/training/jobs?limit=0").json()["error"]


def test_token_is_shown_once_works_and_is_revoked(client_as):
    client = client_as("viewer")
    assert "You have none yet." in page_of(client, "/console/settings/tokens/").text

    response = client.post("/console/settings/tokens/")
    token = Page(response.content.decode()).text_of("new-token")
    assert "no-store" in response.headers["Cache-Control"]
    assert token not in client.get("/console/settings/tokens/").content.decode()
    api = APIClient()
    api.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    assert api.get("/v1/gb/training/jobs").status_code == 200

    key = AuthToken.objects.get().token_key
    client.post(f"/console/settings/tokens/{key}/revoke")
    assert api.get("/v1/gb/training/jobs").status_code == 401


def test_nobody_revokes_another_ones_token(client_as):
    mine, theirs = client_as("viewer"), client_as("trainer")
    mine.post("/console/settings/tokens/")
    key = AuthToken.objects.get().token_key

    assert theirs.post(f"/console/settings/tokens/{key}/revoke").status_code == 404
    assert AuthToken.objects.exists()
    assert key not in theirs.get("/console/settings/tokens/").content.decode()


def test_about_names_what_runs_and_no_secret(client_as, settings):
    text = page_of(client_as("viewer"), "/console/settings/about/").text

    assert "Django" in text
    assert "SQLite" in text
    assert settings.SECRET_KEY not in text
    assert settings.SPEC_KEY not in text


def test_old_form_is_refused_with_a_sentence(user_with_role):
    client = Client(enforce_csrf_checks=True)
    client.force_login(user_with_role("viewer"))

    response = client.post("/console/settings/language", {"language": "de"})

    assert response.status_code == 403
    assert "The form was too old" in Page(response.content.decode()).text


def test_database_that_is_away_is_said():
    request = RequestFactory().get("/console/")

    answer = OutageMiddleware(lambda request: None).process_exception(
        request, OperationalError("x")
    )

    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert "The database does not answer" in answer.content.decode()
    assert OutageMiddleware(lambda request: None).process_exception(request, ValueError()) is None


def test_pages_are_compressed_and_streams_are_not(client_as):
    client = client_as("viewer")

    page = client.get("/console/", headers={"accept-encoding": "gzip"})
    answer = client.get("/v1/gb/training/jobs", headers={"accept-encoding": "gzip"})

    assert page.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in answer.headers
