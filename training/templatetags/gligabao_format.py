"""Tags and filters of the console's templates."""

from __future__ import annotations

from datetime import datetime

from django import template

from gligabao.console import page_url
from gligabao.databases import current_database, database_names, name_of
from training.event_text import event_text as text_of_event
from training.models import JobEvent

register = template.Library()


@register.simple_tag
def db_url(name: str, *args: object, **query: object) -> str:
    """As Django's own tag, and the address keeps the database of this page."""
    return page_url(name, *args, **query)


@register.simple_tag
def databases() -> list[str]:
    """The outside names of all databases; empty when there is nothing to choose."""
    names = database_names()
    return names if len(names) > 1 else []


@register.simple_tag
def database() -> str:
    """The outside name of the database of this page."""
    return name_of(current_database())


@register.filter
def moment(at: datetime | None) -> str:
    """Such as `2026-11-30 09:30:12 UTC`."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at else "-"


@register.filter
def event_text(event: JobEvent) -> str:
    return text_of_event(event.type, event.data, attempt=event.attempt)
