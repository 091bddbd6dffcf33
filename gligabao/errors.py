"""The errors that a person may read. `rest.py` alone turns them into HTTP.

Each carries a stable `code`, and optionally `errors`: the places in the input that are wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class GligabaoError(Exception):
    """Base of all errors with a message for the person who asked."""

    http_status: ClassVar[int] = 500
    default_code: ClassVar[str] = "error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        errors: Sequence[Mapping[str, Any]] = (),
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.errors = list(errors)
        self.extra = dict(extra or {})

    def as_json(self) -> dict[str, Any]:
        """The error body: `error`, `code`, and `errors` where there are any."""
        body: dict[str, Any] = {"error": self.message, "code": self.code}
        if self.errors:
            body["errors"] = self.errors
        return body | self.extra


class InvalidRequest(GligabaoError):
    http_status = 400
    default_code = "invalid_request"


class NotFound(GligabaoError):
    http_status = 404
    default_code = "not_found"


class Conflict(GligabaoError):
    http_status = 409
    default_code = "conflict"


class TooLarge(GligabaoError):
    http_status = 413
    default_code = "too_large"


class DatasetDamaged(GligabaoError):
    """A stored dataset file is missing or does not match its record."""

    http_status = 500
    default_code = "dataset_damaged"


class StorageError(GligabaoError):
    http_status = 500
    default_code = "storage_error"


class ProviderRejected(GligabaoError):
    """The provider said no; asking again would not help."""

    http_status = 502
    default_code = "provider_rejected"


class ProviderUnreachable(GligabaoError):
    """The provider did not answer; asking again later may help."""

    http_status = 502
    default_code = "provider_unreachable"


class BrokerUnreachable(GligabaoError):
    http_status = 502
    default_code = "broker_unreachable"


class NotConfigured(GligabaoError):
    """The provider has no credentials here."""

    http_status = 503
    default_code = "not_configured"


class InferenceTimeout(GligabaoError):
    http_status = 504
    default_code = "inference_timeout"
