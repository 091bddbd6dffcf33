"""DRF glue: authentication, strict JSON in and out, error bodies, lists."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import orjson
from django.db import InterfaceError, OperationalError
from django.db.models import QuerySet
from django.http import Http404
from knox.auth import TokenAuthentication
from rest_framework import authentication, exceptions, parsers, renderers, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gligabao.errors import GligabaoError, InvalidRequest

logger = logging.getLogger(__name__)

MAX_DEPTH = 64  # of a JSON body; nothing of ours nests deeper than 6
MAX_LIMIT = 500
DATABASE_AWAY = {
    "error": "The database cannot be used now. Try again in a few seconds.",
    "code": "database_unavailable",
}
PLAIN_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


class BearerAuthentication(TokenAuthentication):
    """`Authorization: Bearer <token>`, as made by `manage.py create_token`."""


class SessionAuthentication(authentication.SessionAuthentication):
    """The console's login. Writing needs a CSRF token, so another origin cannot use it."""


class StrictJSONRenderer(renderers.BaseRenderer):
    """JSON without NaN or Infinity: orjson writes them as null."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(self, data: Any, media_type: Any = None, context: Any = None) -> bytes:
        return b"" if data is None else dumps(data)


class StrictJSONParser(parsers.BaseParser):
    """JSON that every other reader would read alike: UTF-8, no doubled keys, no bare NaN."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        return loads(stream.read())


def dumps(data: Any) -> bytes:
    try:
        return orjson.dumps(data, default=_plain)
    except orjson.JSONEncodeError:
        return orjson.dumps(_without_huge_integers(data), default=_plain)


def _without_huge_integers(value: Any) -> Any:
    """PostgreSQL gives 1e20 back as a whole number, and orjson writes those of 64 bits only."""
    if isinstance(value, Mapping):
        return {key: _without_huge_integers(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_huge_integers(inner) for inner in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return float(value)
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (list, tuple, set)):
        return list(value)
    return str(value)


def loads(body: bytes, *, allow_nan: bool = False) -> Any:
    """Parse a JSON body; an empty one is `{}`.

    Raises InvalidRequest for what is not UTF-8, not JSON, nested over MAX_DEPTH, with a key
    twice, with half a surrogate pair, or (unless allowed) with NaN or Infinity.
    """
    if not body.strip():
        return {}
    try:
        value = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_without_double_keys,
            parse_constant=None if allow_nan else _refuse_constant,
            parse_int=_bounded_int,
        )
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"The body is not UTF-8: byte {error.start} cannot be read.", code="not_utf8"
        ) from error
    except RecursionError as error:
        raise _too_deep() from error
    except json.JSONDecodeError as error:
        raise InvalidRequest(
            f"The body is not valid JSON: {error.msg}, line {error.lineno} column {error.colno}.",
            code="invalid_json",
        ) from error
    _check_tree(value, allow_nan=allow_nan)
    return value


def _without_double_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        double = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise InvalidRequest(f"The key {double[:100]!r} stands twice.", code="duplicate_key")
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidRequest(f"{name} is not JSON. Send null.", code="non_standard_number")


def _bounded_int(digits: str) -> int:
    if len(digits) > 40:  # int() of a long text is quadratic
        raise InvalidRequest("A number has more than 40 digits.", code="invalid_number")
    return int(digits)


def _check_tree(value: Any, *, allow_nan: bool) -> None:
    """Walk the whole value without recursion: depth, surrogates, numbers that overflowed."""
    waiting = [(value, 1)]
    while waiting:
        item, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise _too_deep()
        if isinstance(item, dict):
            waiting.extend((key, depth + 1) for key in item)
            waiting.extend((inner, depth + 1) for inner in item.values())
        elif isinstance(item, list):
            waiting.extend((inner, depth + 1) for inner in item)
        elif isinstance(item, str):
            if not item.isascii():
                _check_surrogates(item)
        elif isinstance(item, float) and not allow_nan and item - item != 0:
            raise InvalidRequest("A number is too large.", code="invalid_number")


def _check_surrogates(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            "A text holds half a surrogate pair (a cut emoji).", code="lone_surrogate"
        ) from error


def _too_deep() -> InvalidRequest:
    return InvalidRequest(f"The body nests deeper than {MAX_DEPTH} levels.", code="too_deep")


class StrictSerializer(serializers.Serializer):
    """A request body: an object without unknown fields."""

    def run_validation(self, data: Any = serializers.empty) -> Any:
        if not isinstance(data, Mapping):
            message = f"must be a JSON object, not {_json_type(data)}."
            if self.parent is None:
                raise InvalidRequest(f"The body {message}", code="not_an_object")
            raise serializers.ValidationError(message.capitalize(), code="not_an_object")
        unknown = sorted(set(map(str, data)) - set(self.fields))
        if unknown:
            raise serializers.ValidationError(
                {
                    name[:100]: serializers.ErrorDetail(
                        f"Unknown field. Known: {', '.join(self.fields)}.", code="unknown_field"
                    )
                    for name in unknown[:20]
                }
            )
        return super().run_validation(data)


class StrictIntegerField(serializers.IntegerField):
    """A JSON integer; texts, booleans and fractions are refused."""

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int):
            raise serializers.ValidationError(
                f"Must be a whole number, not {_json_type(data)}.", code="invalid"
            )
        return data


class StrictCharField(serializers.CharField):
    """A JSON string, kept as it was sent; NUL and lone surrogates are refused."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("trim_whitespace", False)
        super().__init__(**kwargs)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            raise serializers.ValidationError(
                f"Must be a text, not {_json_type(data)}.", code="invalid"
            )
        return super().to_internal_value(data)


class StrictBooleanField(serializers.BooleanField):
    """A JSON boolean; 0, 1 and texts are refused."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            raise serializers.ValidationError(
                f"Must be true or false, not {_json_type(data)}.", code="invalid"
            )
        return data


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a text", list: "a list"}
    return names.get(type(value), "an object")


def query_number(request: Request, name: str, *, default: int | None = None) -> int | None:
    """A non-negative number from the query; nonsense raises InvalidRequest."""
    raw = request.query_params.get(name)
    if raw is None:
        return default
    if not PLAIN_NUMBER.fullmatch(raw):
        raise InvalidRequest(
            f"{name}={raw[:100]!r} is not a whole number from 0.", code="invalid_query"
        )
    return int(raw)


def query_limit(request: Request, *, default: int) -> int:
    """`limit`: a positive integer, capped at MAX_LIMIT. Raises InvalidRequest."""
    raw = request.query_params.get("limit")
    if raw is None:
        return default
    if not PLAIN_NUMBER.fullmatch(raw) or int(raw) == 0:
        raise InvalidRequest(
            f"limit={raw[:100]!r} is not a positive integer (at most 18 digits).",
            code="invalid_query",
        )
    return min(int(raw), MAX_LIMIT)


def check_query(request: Request, *known: str) -> None:
    """Raise InvalidRequest for a query field that is not known; `db` always is."""
    unknown = sorted(set(request.query_params) - {"db", *known})
    if unknown:
        raise InvalidRequest(
            f"Unknown query field {unknown[0][:100]!r}. Known: {', '.join(('db', *known))}.",
            code="unknown_field",
        )


def page_of(queryset: QuerySet, request: Request, *, default_limit: int) -> list[Any]:
    """The newest rows, or those before `before=<id>`, at most `limit` of them."""
    limit = query_limit(request, default=default_limit)
    before = query_number(request, "before")
    if before is not None:
        queryset = queryset.filter(pk__lt=before)
    return list(queryset.order_by("-pk")[:limit])


def exception_handler(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """Every refusal as `{"error", "code", "errors"?}`; the rest is a 500 that Django logs."""
    # Here, because that module reads the settings that name our classes while it is loaded.
    from rest_framework.views import set_rollback

    set_rollback()
    if isinstance(error, GligabaoError):
        if error.http_status >= 500:
            logger.error("%s: %s", error.code, error.message)
        return Response(error.as_json(), status=error.http_status)
    if isinstance(error, (OperationalError, InterfaceError)):
        logger.error("The database cannot be used: %s", error)
        return Response(DATABASE_AWAY, status=503, headers={"Retry-After": "5"})
    if isinstance(error, Http404):
        return Response({"error": "Not found.", "code": "not_found"}, status=404)
    if isinstance(error, serializers.ValidationError):
        return Response(_validation_body(error), status=400)
    if isinstance(error, exceptions.APIException):
        headers = {}
        if getattr(error, "auth_header", None):
            headers["WWW-Authenticate"] = error.auth_header
        if getattr(error, "wait", None):
            headers["Retry-After"] = str(int(error.wait))
        detail = error.detail
        code = getattr(detail, "code", error.default_code)
        return Response(
            {"error": _sentence(detail), "code": code}, status=error.status_code, headers=headers
        )
    return None


def _sentence(detail: Any) -> str:
    if isinstance(detail, dict):
        detail = detail.get("detail") or next(iter(detail.values()))
    if isinstance(detail, list):
        detail = detail[0]
    return str(detail)


def _validation_body(error: serializers.ValidationError) -> dict[str, Any]:
    places = list(_places(error.detail, ""))
    first = places[0]
    where = f"{first['path']}: " if first["path"] else ""
    return {"error": f"{where}{first['message']}", "code": "invalid_request", "errors": places}


def _places(detail: Any, path: str) -> Iterator[dict[str, str]]:
    if isinstance(detail, dict):
        for key, inner in detail.items():
            name = "" if key == "non_field_errors" else str(key)
            yield from _places(inner, f"{path}.{name}".strip("."))
    elif isinstance(detail, list):
        for inner in detail:
            yield from _places(inner, path)
    else:
        yield {"path": path, "code": getattr(detail, "code", "invalid"), "message": str(detail)}
