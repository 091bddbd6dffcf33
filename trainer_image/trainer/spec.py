"""The job spec: read from its signed envelope, checked, and turned into a dataclass."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import CONTRACT_VERSION
from .errors import SpecRefused

# Secrets, addresses, and folders of one machine: nothing that a published file should name.
PRIVATE_FIELDS = frozenset(
    {"job_token", "nonce", "callback_url", "uploads", "expires_at"}
    | {"dataset_path", "checkpoint_dir", "resume_from"}
)
METHODS = ("lora", "qlora", "full")
LR_SCHEDULERS = ("cosine", "linear", "constant")
SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


@dataclass(frozen=True)
class Hyperparams:
    """What a job may tune.

    `checkpoint_every`, `logging_steps` and `eval_steps` count optimizer steps, and
    `early_stopping_patience` evaluations; 0 there is never. `warmup_ratio` is a share of the
    steps, `eval_fraction` one of the examples. A full fine-tune has no `lora_*`.
    """

    learning_rate: float
    batch_size: int
    max_length: int
    lora_rank: int | None = None
    lora_alpha: int | None = None
    lora_dropout: float = 0.0
    gradient_accumulation_steps: int = 1
    warmup_ratio: float = 0.1
    lr_scheduler: str = "cosine"
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    packing: bool = False
    eval_fraction: float = 0.0
    eval_steps: int = 50
    early_stopping_patience: int = 0
    checkpoint_every: int = 50
    logging_steps: int = 1


@dataclass(frozen=True)
class JobSpec:
    """All that a trainer is told; `trainer_image/README.md` has the fields in words."""

    job_id: str
    model: str
    revision: str
    model_id: str
    model_source: str
    method: str
    lora_target_pattern: str
    dataset_path: str
    dataset_sha256: str
    dataset_format: str
    hyperparams: Hyperparams
    num_train_steps: int
    seed: int
    max_seconds: int
    checkpoint_dir: str
    expires_at: str
    job_token: str = ""
    installation_id: str = ""
    nonce: str = ""
    resume_from: str | None = None
    callback_url: str | None = None
    uploads: str | None = None

    def public_fields(self) -> dict[str, Any]:
        """The fields that may be written into `training.json`."""
        return {name: value for name, value in asdict(self).items() if name not in PRIVATE_FIELDS}


def read_spec(path: Path, key: str | None, *, unsigned: bool = False) -> JobSpec:
    """The spec in a file. `key` signs envelopes; a bare spec needs `unsigned`.

    Raises SpecRefused with one sentence.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecRefused(f"The spec file cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise SpecRefused(f"The spec file is not JSON: {error}.") from error
    if not isinstance(content, dict):
        raise SpecRefused("The spec file does not hold a JSON object.")
    if "signature" not in content and unsigned:
        return parse_spec(content)
    return parse_spec(json.loads(_verified_text(content, key)))


def _verified_text(envelope: Mapping[str, Any], key: str | None) -> str:
    text, signature = envelope.get("spec"), envelope.get("signature")
    if not isinstance(text, str) or not isinstance(signature, str):
        raise SpecRefused(
            "The spec is not signed. A spec written by hand runs with the option --unsigned."
        )
    if not key:
        raise SpecRefused(
            "There is no key to check the spec with: "
            "set GLIGABAO_SPEC_KEY or GLIGABAO_SPEC_KEY_FILE."
        )
    expected = hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected.encode(), signature.encode()):
        raise SpecRefused("The signature of the spec is wrong: it was not signed with this key.")
    return text


def parse_spec(content: Mapping[str, Any], *, now: datetime | None = None) -> JobSpec:
    """The spec in a JSON object; fields that this version does not know are ignored."""
    if content.get("contract") != CONTRACT_VERSION:
        raise SpecRefused(
            f"The spec has contract {content.get('contract')!r}; "
            f"this trainer understands contract {CONTRACT_VERSION}."
        )
    known = {name: content[name] for name in JobSpec.__dataclass_fields__ if name in content}
    known["hyperparams"] = _parse_hyperparams(content.get("hyperparams"))
    for text_field in ("job_token", "installation_id", "nonce"):
        known[text_field] = known.get(text_field) or ""
    try:
        spec = JobSpec(**known)
    except TypeError as error:
        raise SpecRefused(f"The spec is incomplete: {_missing(error)}.") from error
    _check(spec, now or datetime.now(UTC))
    return spec


def _parse_hyperparams(content: Any) -> Hyperparams:
    if not isinstance(content, dict):
        raise SpecRefused("hyperparams must be an object.")
    try:
        values = Hyperparams(**content)
    except TypeError as error:
        raise SpecRefused(f"hyperparams do not fit: {_missing(error)}.") from error
    for name, field in Hyperparams.__dataclass_fields__.items():
        problem = _problem(name, getattr(values, name), field.type)
        if problem:
            raise SpecRefused(f"{name} must be {problem}, not {getattr(values, name)!r}.")
    return values


def _problem(name: str, value: Any, kind: str) -> str | None:
    """What a hyperparameter must be and is not; its exact range is the control plane's matter."""
    if kind == "bool":
        return None if isinstance(value, bool) else "true or false"
    if kind == "str":
        return None if value in LR_SCHEDULERS else f"one of {', '.join(LR_SCHEDULERS)}"
    if kind == "float":
        return None if _is_number(value) and value >= 0 else "a number from 0"
    if kind == "int | None" and value is None:
        return None  # whether the method can do without is asked of the whole spec
    minimum = 0 if name == "early_stopping_patience" else 1
    return None if _is_count(value, minimum) else f"a whole number from {minimum}"


def _check(spec: JobSpec, now: datetime) -> None:
    if spec.method not in METHODS:
        raise SpecRefused(
            f"This trainer has no method {spec.method!r}; it has {', '.join(METHODS)}."
        )
    if spec.method != "full":
        for name in ("lora_rank", "lora_alpha"):
            if getattr(spec.hyperparams, name) is None:
                raise SpecRefused(f"hyperparams do not fit: method {spec.method} needs {name}.")
    for name in ("num_train_steps", "max_seconds"):
        if not _is_count(getattr(spec, name)):
            raise SpecRefused(f"{name} must be a whole number from 1, not {getattr(spec, name)!r}.")
    if not isinstance(spec.seed, int) or isinstance(spec.seed, bool) or spec.seed < 0:
        raise SpecRefused(f"seed must be a whole number from 0, not {spec.seed!r}.")
    for name in ("model_id", "revision"):  # they become folder names
        if not isinstance(getattr(spec, name), str) or not SAFE_NAME.fullmatch(getattr(spec, name)):
            raise SpecRefused(f"{name} is not a plain name: {getattr(spec, name)!r}.")
    for name in ("dataset_path", "checkpoint_dir", "dataset_sha256", "lora_target_pattern"):
        if not isinstance(getattr(spec, name), str) or not getattr(spec, name):
            raise SpecRefused(f"{name} is missing.")
    _check_expiry(spec.expires_at, now)


def _check_expiry(expires_at: str, now: datetime) -> None:
    try:
        expiry = datetime.fromisoformat(expires_at)
    except (TypeError, ValueError) as error:
        raise SpecRefused(f"expires_at is not a time: {expires_at!r}.") from error
    if expiry.tzinfo is None:
        raise SpecRefused(f"expires_at has no time zone: {expires_at!r}.")
    if expiry <= now:
        raise SpecRefused(f"The spec expired at {expires_at}. Start the job again.")


def _missing(error: TypeError) -> str:
    return str(error).partition("__init__() ")[2] or str(error)


def _is_count(value: Any, minimum: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= minimum


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
