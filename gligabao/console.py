"""What every page of the console shares: who may see it, and addresses that keep the database."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from gligabao.access import has_role
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


def page_url(name: str, *args: object, **query: object) -> str:
    """The address of a view, in the database of the request."""
    database = name_of(current_database())
    if database != STANDARD:
        query["db"] = database
    return reverse(name, args=args) + (f"?{urlencode(query)}" if query else "")
