"""Tags and filters that all pages share. What is only about jobs is in training/templatetags."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import quote

from django import template
from django.conf import settings
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from gligabao.console.pages import page_url
from gligabao.databases import current_database, database_names, name_of
from gligabao.units import count_text, size_text

register = template.Library()


@register.simple_tag
def db_url(view: str, *args: object, **query: object) -> str:
    """As Django's own tag, and the address keeps the database of this page."""
    return page_url(view, *args, **query)


@register.simple_tag
def databases() -> list[str]:
    """The outside names of all databases; empty when there is nothing to choose."""
    names = database_names()
    return names if len(names) > 1 else []


@register.simple_tag
def database() -> str:
    """The outside name of the database of this page."""
    return name_of(current_database())


@register.simple_tag
def icon(name: str) -> SafeString:
    """A picture of static/icons.svg. It says nothing by itself: words stand beside it."""
    return format_html(
        '<svg class="icon" aria-hidden="true" focusable="false"><use href="{}"/></svg>',
        icon_url(name),
    )


@register.simple_tag
@cache
def favicon() -> str:
    """The picture in a browser's tab, in the page itself: one request less on a first visit."""
    picture = (settings.BASE_DIR / "static" / "favicon.svg").read_text(encoding="utf-8").strip()
    return f"data:image/svg+xml,{quote(picture)}"


@register.simple_tag
def icon_url(name: str) -> str:
    return f"{static('icons.svg')}#{name}"


@register.inclusion_tag("components/nav_item.html", takes_context=True)
def nav_item(
    context: template.Context,
    name: str,
    icon: str,
    label: str,
    *also: str,
    count: int | None = None,
) -> dict[str, object]:
    """A link of the side bar; `also` are the other pages that belong to it."""
    match = getattr(context.get("request"), "resolver_match", None)  # None on an error page
    here = match.view_name if match else ""
    return {
        "url": page_url(f"console:{name}"),
        "icon": icon,
        "label": label,
        "is_here": here in {f"console:{page}" for page in (name, *also)},
        "id": f"nav-{name}",
        "count": count,
    }


@register.filter
def moment(at: datetime | None) -> str | SafeString:
    """A time; static/js/frame.js shows it in the reader's time zone."""
    if at is None:
        return "-"
    return format_html(
        '<time datetime="{}">{} UTC</time>',
        at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        at.strftime("%Y-%m-%d %H:%M:%S"),
    )


@register.filter
def ago(at: datetime | None) -> str | SafeString:
    """A time in a list: with a script as `3 days ago`, and hovering tells it whole."""
    if at is None:
        return "-"
    return format_html(
        '<time datetime="{}" data-form="ago">{}</time>',
        at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        at.strftime("%Y-%m-%d %H:%M UTC"),
    )


@register.filter
def at(values: Mapping[str, Any], key: str) -> Any:
    """The value of a key that is not known when the template is written."""
    return values.get(key)


@register.filter
def number(value: int | float | None) -> str:
    """A count with the thousands marked as the reader's language does."""
    return "-" if value is None else count_text(value)


@register.filter
def size(size_bytes: int | None) -> str:
    return "-" if size_bytes is None else size_text(size_bytes)


@register.simple_tag
def frame_words() -> dict[str, str]:
    """What static/js/frame.js and live_page.js say, in the reader's language."""
    return {
        "copied": _("Copied"),
        "selected": _("Selected: copy it with the keyboard"),
        "connecting": _("Connecting"),
        "live": _("Live"),
        "lost": _("Connection lost"),
        "lost_since": _(
            "No connection since {time}. What you see is of then; the page goes on by itself "
            "as soon as the server answers."
        ),
        "login_ended": _("Your login has ended. Reload the page to log in again."),
        "gone": _("What this page shows is not there any more."),
    }
