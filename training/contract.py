"""The trainer contract, version 1: the spec that goes out, the reports that come in.

Plain dataclasses, shared with nobody: the trainer has its own reading of the same examples
in `trainer_image/contract/`, and both sides are tested against them.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gligabao.errors import InvalidRequest
from training.states import parse_status

CONTRACT_VERSION = 1
REPORT_TYPES = ("status", "progress", "log", "checkpoint", "eval", "dataset", "warning")
MAX_BATCH = 500  # reports in one POST
MAX_SOURCE_SEQ = 2**53  # what every JSON reader counts exactly
MAX_STEP = 2**53
MAX_INTEGER = 2**63 - 1


@dataclass(frozen=True)
class JobSpec:
    """All that a trainer is told. Times in seconds, addresses absolute, `expires_at` RFC 3339."""

    job_id: str
    nonce: str = field(repr=False)
    installation_id: str
    model: str
    revision: str
    model_id: str
    model_source: str
    method: str
    lora_target_pattern: str
    dataset_sha256: str
    dataset_format: str
    hyperparams: Mapping[str, Any]
    num_train_steps: int
    seed: int
    max_seconds: int
    job_token: str = field(repr=False)
    expires_at: str
    dataset_path: str | None = None
    dataset_url: str | None = None
    checkpoint_dir: str | None = None
    resume_from: str | None = None
    callback_url: str | None = None
    uploads: str | None = None
    contract: int = CONTRACT_VERSION

    def to_text(self) -> str:
        """The exact text that is signed and run: one text for one job, however often sent."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    def envelope(self, key: str) -> str:
        """The signed form that a trainer accepts."""
        text = self.to_text()
        return json.dumps({"spec": text, "signature": sign(text, key)})


def sign(text: str, key: str) -> str:
    """Hex HMAC-SHA256 of the text."""
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class Report:
    """One report of a trainer, or one event of the server's own.

    `data` is the report without `boot` and `seq`. `source_seq` is the trainer's number under
    its boot; None where it did not number. `source` is "trainer" or "server".
    """

    type: str
    data: dict[str, Any]
    boot: str = ""
    source_seq: int | None = None
    source: str = "trainer"
    digest: str = field(default="", compare=False)

    @property
    def status(self) -> str | None:
        return self.data.get("status") if self.type == "status" else None


def server_event(type: str, **data: Any) -> Report:
    """An event of the server's own; it has no boot and no number but the row's."""
    return Report(type=type, data=data, source="server")


def parse_report(raw: Any) -> Report:
    """Read one flat report. Unknown fields are kept. Raises InvalidRequest naming the field."""
    if not isinstance(raw, dict):
        raise InvalidRequest("A report must be a JSON object.", code="not_an_object")
    type_ = raw.get("type")
    if not isinstance(type_, str) or type_ not in REPORT_TYPES:
        raise InvalidRequest(
            f"type={_shown(type_)} is not one of {', '.join(REPORT_TYPES)}.", code="unknown_type"
        )
    boot = raw.get("boot", "")
    if not isinstance(boot, str) or len(boot) > 64 or "\x00" in boot:
        raise InvalidRequest("boot must be a text of at most 64 characters.", code="bad_boot")
    source_seq = _count(raw, "seq", MAX_SOURCE_SEQ)
    digest = "" if source_seq is not None else _digest(raw)
    # `reported` is the server's word for what a trainer said; see training.events.
    data = _storable({key: raw[key] for key in raw if key not in ("boot", "seq", "reported")})
    _check_numbers(data)
    if type_ == "status":
        _check_status(data)
    return Report(type=type_, data=data, boot=boot, source_seq=source_seq, digest=digest)


def _check_status(data: dict[str, Any]) -> None:
    status = data.get("status")
    if not isinstance(status, str) or parse_status(status) is None:
        raise InvalidRequest(f"status={_shown(status)} is not a status.", code="unknown_status")
    for name in ("error", "reason"):
        if data.get(name) is not None and not isinstance(data[name], str):
            raise InvalidRequest(f"{name} must be a text.", code="bad_field")
    files = data.get("files")
    if files is not None and not isinstance(files, list):
        raise InvalidRequest("files must be a list.", code="bad_field")
    resumed = data.get("resumed_from_step")
    if resumed is not None:
        _count(data, "resumed_from_step", MAX_STEP)


def _check_numbers(data: dict[str, Any]) -> None:
    for name in ("step", "num_train_steps"):
        _count(data, name, MAX_STEP)
    for name in ("loss", "final_loss", "learning_rate", "eval_loss", "elapsed_seconds"):
        value = data.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise InvalidRequest(f"{name}={_shown(value)} is not a number.", code="bad_field")


def _count(data: Mapping[str, Any], name: str, maximum: int) -> int | None:
    value = data.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= maximum:
        raise InvalidRequest(
            f"{name}={_shown(value)} is not a whole number from 0 to {maximum}.", code="bad_field"
        )
    return value


def _storable(data: dict[str, Any]) -> dict[str, Any]:
    """The report as every database can hold it.

    NaN and Infinity become null, and `nonfinite` says which it was, of `loss` if that was one.
    NUL and halves of surrogate pairs, which PostgreSQL refuses, become U+FFFD.
    """
    found = {name: word for name in data if (word := _nonfinite_word(data[name]))}
    cleaned = {_clean_text(key): _clean(value) for key, value in data.items()}
    if found and "nonfinite" not in cleaned:
        cleaned["nonfinite"] = found.get("loss") or next(iter(found.values()))
    return cleaned


def _nonfinite_word(value: Any) -> str:
    if not isinstance(value, float) or math.isfinite(value):
        return ""
    return "nan" if math.isnan(value) else "inf"


def _clean(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return _clean_text(value)
    if isinstance(value, dict):
        return {_clean_text(key): _clean(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_clean(inner) for inner in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_INTEGER:
        return str(value)
    return value


def _clean_text(text: str) -> str:
    return (
        text.replace("\x00", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )


def _digest(raw: dict[str, Any]) -> str:
    """Digest of a report's JSON: an equal one from the same boot is a repeat."""
    text = json.dumps(raw, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _shown(value: Any) -> str:
    return repr(value)[:80]
