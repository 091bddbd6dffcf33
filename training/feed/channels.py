"""Names of the feed's channels, and who may read them."""

from __future__ import annotations

import re
from typing import Any

from django.http import HttpRequest
from django_eventstream.channelmanager import ChannelManagerBase

from gligabao.access import VIEWER, has_role
from gligabao.databases import name_of

OURS = re.compile(r"run-[^-]+-[0-9]+|all-[^-]+", re.ASCII)


def run_channel(db: str, run_id: int) -> str:
    """The events of one job. Ids repeat between databases, so the name carries the database."""
    return f"run-{name_of(db)}-{run_id}"


def all_channel(db: str) -> str:
    """The events of every job of one database."""
    return f"all-{name_of(db)}"


class ChannelManager(ChannelManagerBase):
    """One installation is one team: whoever may read reads every job."""

    def get_channels_for_request(
        self, request: HttpRequest, view_kwargs: dict[str, Any]
    ) -> set[str]:
        return set()  # the package's own view is not served; ours names its channel itself

    def can_read_channel(self, user: Any, channel: str) -> bool:
        return OURS.fullmatch(channel) is not None and has_role(user, VIEWER)

    def is_channel_reliable(self, channel: str) -> bool:
        return channel.startswith("run-")  # a run's stream fills its gaps from the rows
