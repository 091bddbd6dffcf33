"""Users, their roles and their API tokens. All of them live in `default`."""

from __future__ import annotations

import secrets

from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from knox.models import AuthToken

from gligabao.access import ADMIN, ROLES
from gligabao.errors import InvalidRequest

FIRST_ADMIN = "admin"


def make_roles() -> None:
    """Make the group of each role; those that are there stay as they are."""
    for role in ROLES:
        Group.objects.get_or_create(name=role)


def make_first_admin() -> str | None:
    """Make an admin with a random password and return it; None when there is any user."""
    if User.objects.exists():
        return None
    password = secrets.token_urlsafe(12)  # 96 bits
    user = User.objects.create_superuser(FIRST_ADMIN, password=password)
    user.groups.add(Group.objects.get(name=ADMIN))
    return password


def make_token(name: str, role: str) -> tuple[User, str]:
    """Give a user the role and a new API token; both the user and the token are returned.

    A user who is not there is made, without a password. The token is stored hashed: it cannot
    be read again. Raises InvalidRequest for a name that cannot be one, or a user switched off.
    """
    make_roles()
    user = User.objects.filter(username=name).first() or _new_user(name)
    if not user.is_active:
        raise InvalidRequest(f"User {name!r} is switched off. Switch it on under /admin/ first.")
    user.groups.add(Group.objects.get(name=role))
    _, token = AuthToken.objects.create(user)
    return user, token


def _new_user(name: str) -> User:
    user = User(username=name)
    user.set_unusable_password()
    try:
        user.full_clean()
    except ValidationError as error:
        raise InvalidRequest(f"{name[:100]!r} is no user name: {error.messages[0]}") from error
    user.save()
    return user
