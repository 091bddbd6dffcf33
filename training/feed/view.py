"""`GET /v1/gb/training/events`: who asks, for what, and from where on.

A plain async view around a DRF view: DRF has none that is async, and would refuse
`Accept: text/event-stream`. The DRF part runs in a thread, as all that touches the database.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any
from weakref import WeakSet

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.db.models import Q
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django_eventstream.utils import add_default_headers, get_channelmanager
from knox.models import AuthToken
from rest_framework.exceptions import PermissionDenied, Throttled
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from gligabao.databases import current_database
from gligabao.errors import InvalidRequest, NotFound
from gligabao.rest import PLAIN_NUMBER, check_query
from training.feed.channels import all_channel, run_channel
from training.feed.stream import RunFeed, Stream
from training.feed.tailer import tailer_of
from training.models import TrainingJob

DIGITS = re.compile(r"[0-9]+", re.ASCII)
NO_ASGI = {
    "error": "Streams need an ASGI server. Start the project with: manage.py up",
    "code": "needs_asgi",
}

_open_streams: WeakSet[Stream] = WeakSet()
_open_streams_lock = threading.Lock()


@csrf_exempt
async def events(request: HttpRequest) -> HttpResponseBase:
    """The live feed of one job (`run_id`), or of all jobs of the database."""
    return await sync_to_async(_open)(request)


def _open(request: HttpRequest) -> HttpResponseBase:
    try:
        return EventsView.as_view()(request)
    finally:
        if isinstance(request, ASGIRequest):
            # Here, in the thread that opened them: they would stay open as long as the stream.
            connections.close_all()


class _AnyAccept(BaseContentNegotiation):
    """Errors are JSON whatever the client accepts, as a browser's EventSource asks for a stream."""

    def select_parser(self, request: Request, parsers: Sequence[Any]) -> Any:
        return parsers[0]

    def select_renderer(
        self, request: Request, renderers: Sequence[Any], format_suffix: str | None = None
    ) -> tuple[Any, str]:
        return renderers[0], renderers[0].media_type


class EventsView(APIView):
    """Checks access and parameters like every other view, then opens the stream."""

    content_negotiation_class = _AnyAccept
    http_method_names = ("get",)

    def get(self, request: Request) -> HttpResponseBase:
        check_query(request, "run_id", "from")
        db = current_database()
        run = _run_feed(request, db)
        channel = run_channel(db, run.run_id) if run else all_channel(db)
        if not get_channelmanager().can_read_channel(request.user, channel):
            raise PermissionDenied()
        if not isinstance(request._request, ASGIRequest):
            return Response(NO_ASGI, status=501)  # WSGI would collect the stream to its end
        stream = _seated(
            lambda: Stream(
                tailer_of(db), run, user_id=request.user.pk, may_read=_access_of(request, channel)
            ),
            request.user.pk,
        )
        response = StreamingHttpResponse(stream, content_type="text/event-stream")
        add_default_headers(response, request=request)
        return response


def _run_feed(request: Request, db: str) -> RunFeed | None:
    raw = request.query_params.get("run_id")
    if raw is None:
        return None
    if not PLAIN_NUMBER.fullmatch(raw):
        raise InvalidRequest(f"run_id={raw[:100]!r} is not a whole number.", code="invalid_query")
    jobs = TrainingJob.objects.using(db).filter(pk=int(raw))
    job = jobs.values_list("pk", "job_id", "next_seq").first()
    if job is None:
        raise NotFound(f"No training job {int(raw)}.", code="unknown_job")
    run_id, job_id, next_seq = job
    # Whoever waits for what is not there yet waits at the end.
    return RunFeed(run_id, job_id, min(_first_seq(request), next_seq), next_seq)


def _first_seq(request: Request) -> int:
    """The first event that is wanted.

    `Last-Event-ID` counts before `from`: a browser that reconnects sends both. What is not a
    plain number is as if it were not there.
    """
    last = _number(request.headers.get("Last-Event-ID"))
    if last is not None:
        return last + 1
    return _number(request.query_params.get("from")) or 0


def _number(raw: str | None) -> int | None:
    raw = (raw or "").strip(" \t")
    if not DIGITS.fullmatch(raw):
        return None
    # int() refuses thousands of digits; all such numbers are beyond the end of every job.
    return int(raw) if len(raw) <= 18 else sys.maxsize


def _access_of(request: Request, channel: str) -> Callable[[], bool]:
    if isinstance(request.auth, AuthToken):
        return partial(_token_may_read, request.auth.digest, channel)
    return partial(_session_may_read, request.session.session_key, channel)


def _token_may_read(digest: str, channel: str) -> bool:
    good = Q(expiry=None) | Q(expiry__gt=timezone.now())
    token = AuthToken.objects.filter(good, digest=digest).select_related("user").first()
    return token is not None and get_channelmanager().can_read_channel(token.user, channel)


def _session_may_read(session_key: str, channel: str) -> bool:
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    return get_channelmanager().can_read_channel(get_user(request), channel)


def _seated(make: Callable[[], Stream], user_id: int) -> Stream:
    """Make a stream if its user has not too many open in this process."""
    with _open_streams_lock:
        mine = [
            stream for stream in _open_streams if stream.user_id == user_id and not stream.is_closed
        ]
        if len(mine) >= settings.MAX_STREAMS_PER_USER:
            raise Throttled(
                detail=f"You have {len(mine)} streams open. Close one first.",
                code="too_many_streams",
            )
        stream = make()
        _open_streams.add(stream)
        return stream
