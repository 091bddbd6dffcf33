"""What every page of the console shares: who may see it, and addresses that keep the database."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from gligabao.access import ADMIN, ROLES, TRAINER, VIEWER, has_role, role_of
from gligabao.databases import STANDARD, current_database, name_of

View = Callable[..., HttpResponse]


def role_required(role: str) -> Callable[[View], View]:
    """Let users of at least this role in; others get a 403, a visitor the login page."""

    def decorate(view: View) -> View:
        @wraps(view)
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not has_role(request.user, role):
                raise PermissionDenied(f"This needs the role {role}.")
            return view(request, *args, **kwargs)

        return login_required(checked)

    return decorate


def page_context(request: HttpRequest) -> dict[str, Any]:
    """For every template: what the reader may do. Asked of the database once, where it is read."""
    rank = cache(lambda: _rank(getattr(request, "user", None)))
    return {
        name: (lambda role=role: rank() >= ROLES.index(role))  # a template calls what it reads
        for name, role in (("may_view", VIEWER), ("may_train", TRAINER), ("may_administer", ADMIN))
    }


def _rank(user: Any) -> int:
    role = role_of(user)
    return -1 if role is None else ROLES.index(role)


def page_url(view: str, /, *args: object, **query: object) -> str:
    """The address of a view, in the database of the request."""
    database = name_of(current_database())
    if database != STANDARD:
        query["db"] = database
    return reverse(view, args=args) + (f"?{urlencode(query)}" if query else "")
