"""The pages of one's own account: password and language, API tokens, and what runs here."""

from __future__ import annotations

import platform
from typing import Any

import django
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import PasswordChangeForm
from django.db import connections
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import override
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from knox.models import AuthToken

from gligabao import __version__
from gligabao.access import role_of
from gligabao.console.pages import page_url
from gligabao.databases import database_aliases, name_of


class PasswordForm(PasswordChangeForm):
    """Django's own, without taking the focus: it is one of several forms of its page."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        del self.fields["old_password"].widget.attrs["autofocus"]


@require_safe
@never_cache
@login_required
def profile(request: HttpRequest) -> HttpResponse:
    return _profile(request, PasswordForm(request.user))


@require_POST
@login_required
def password(request: HttpRequest) -> HttpResponse:
    """Change the password. This session goes on, all others end."""
    form = PasswordForm(request.user, request.POST)
    if not form.is_valid():
        return _profile(request, form, status=400)
    update_session_auth_hash(request, form.save())
    messages.success(request, _("The password is changed. Other browsers must log in again."))
    return HttpResponseRedirect(page_url("console:settings"))


@require_POST
@login_required
def language(request: HttpRequest) -> HttpResponse:
    """Keep the reader's choice in a cookie; an empty one follows the browser again."""
    chosen = request.POST.get("language", "")
    answer = HttpResponseRedirect(page_url("console:settings"))
    if chosen in dict(settings.LANGUAGES):
        answer.set_cookie(
            settings.LANGUAGE_COOKIE_NAME,
            chosen,
            max_age=settings.LANGUAGE_COOKIE_AGE,
            secure=settings.LANGUAGE_COOKIE_SECURE,
            httponly=settings.LANGUAGE_COOKIE_HTTPONLY,
            samesite=settings.LANGUAGE_COOKIE_SAMESITE,
        )
        with override(chosen):
            messages.success(request, _("Saved."))
    else:
        answer.delete_cookie(settings.LANGUAGE_COOKIE_NAME)
    return answer


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def tokens(request: HttpRequest) -> HttpResponse:
    """One's own API tokens. A new one is shown on this one answer and never again."""
    new = ""
    if request.method == "POST":
        _row, new = AuthToken.objects.create(request.user)
    rows = AuthToken.objects.filter(user=request.user).order_by("-created")
    context = {"tab": "tokens", "tokens": rows, "new": new, "role": role_of(request.user)}
    return render(request, "account/tokens.html", context)


@require_POST
@login_required
def revoke(request: HttpRequest, token_key: str) -> HttpResponse:
    """Only one's own; the key is the beginning of the token, which tells nothing of the rest."""
    mine = AuthToken.objects.filter(user=request.user, token_key=token_key)
    if not mine.exists():
        raise Http404
    mine.delete()
    messages.success(request, _("The token is revoked."))
    return HttpResponseRedirect(page_url("console:settings-tokens"))


@require_safe
@login_required
def about(request: HttpRequest) -> HttpResponse:
    facts = [
        ("gligabao", __version__),
        ("Python", platform.python_version()),
        ("Django", django.get_version()),
        *(
            (_("Database %(name)s") % {"name": name_of(alias)}, connections[alias].display_name)
            for alias in database_aliases()
        ),
        (_("Queue"), "Redis" if settings.REDIS_URL else _("files")),
        (_("Provider"), settings.DEFAULT_PROVIDER),
        (_("Installation"), settings.INSTALLATION_ID),
    ]
    return render(request, "account/about.html", {"tab": "about", "facts": facts})


def _profile(request: HttpRequest, form: PasswordForm, status: int = 200) -> HttpResponse:
    context: dict[str, Any] = {
        "tab": "profile",
        "form": form,
        "role": role_of(request.user),
        "languages": settings.LANGUAGES,
        "chosen": request.COOKIES.get(settings.LANGUAGE_COOKIE_NAME, ""),
    }
    return render(request, "account/profile.html", context, status=status)
