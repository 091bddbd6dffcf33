"""`manage.py create_token`: users, roles and tokens."""

import io
import json

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from knox.models import AuthToken

from gligabao.access import ROLES, role_of


def create_token(*arguments):
    out = io.StringIO()
    call_command("create_token", *arguments, stdout=out)
    return out.getvalue()


@pytest.mark.django_db
@pytest.mark.parametrize("role", ROLES)
def test_missing_user_is_made_with_the_role_and_no_password(role):
    create_token("--user", "new", "--role", role, "--quiet")

    user = User.objects.get(username="new")
    assert role_of(user) == role
    assert not user.has_usable_password()


@pytest.mark.django_db
def test_token_opens_the_api(client):
    token = create_token("--user", "new", "--role", "viewer", "--quiet").strip()

    refused = client.get("/v1/gb/training/jobs")
    answer = client.get("/v1/gb/training/jobs", headers={"Authorization": f"Bearer {token}"})

    assert (refused.status_code, answer.status_code) == (401, 200)


@pytest.mark.django_db
def test_quiet_prints_the_token_and_nothing_else():
    output = create_token("--user", "new", "--role", "viewer", "--quiet")

    assert len(output.split()) == 1
    assert AuthToken.objects.get().token_key == output[: len(AuthToken.objects.get().token_key)]


@pytest.mark.django_db
def test_json_names_user_role_and_token():
    answer = json.loads(create_token("--user", "new", "--role", "trainer", "--json"))

    assert {name: answer[name] for name in ("user", "role")} == {"user": "new", "role": "trainer"}
    assert answer["token"]


@pytest.mark.django_db
def test_token_is_stored_hashed():
    token = create_token("--user", "new", "--role", "viewer", "--quiet").strip()

    assert token not in str(AuthToken.objects.values().get())


@pytest.mark.django_db
def test_user_may_have_several_tokens():
    tokens = {create_token("--user", "new", "--role", "viewer", "--quiet") for _ in range(2)}

    assert len(tokens) == 2
    assert User.objects.count() == 1


@pytest.mark.django_db
def test_higher_role_of_a_user_stays_and_is_named():
    create_token("--user", "new", "--role", "admin")

    output = create_token("--user", "new", "--role", "viewer")

    assert "Token of new (admin)" in output


@pytest.mark.django_db
def test_user_who_is_switched_off_gets_no_token():
    User.objects.create_user("gone", is_active=False)

    with pytest.raises(CommandError, match="switched off"):
        create_token("--user", "gone", "--role", "viewer")

    assert not AuthToken.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["", "two words", "x" * 151, "a\nb", "-a;b"])
def test_impossible_name_makes_no_user(name):
    with pytest.raises(CommandError, match="no user name"):
        create_token(f"--user={name}", "--role", "viewer")

    assert not User.objects.exists()


@pytest.mark.django_db
def test_unknown_role_is_refused_with_the_known_ones():
    with pytest.raises(CommandError, match=r"viewer.*trainer.*admin"):
        create_token("--user", "new", "--role", "owner")
