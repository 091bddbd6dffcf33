"""The base-model catalog: data in `catalog.toml`, checked when it is first read."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from gligabao.errors import InvalidRequest
from training.hyperparams import METHODS, check_hyperparams, missing_hyperparams

CATALOG_FILE = Path(__file__).with_name("catalog.toml")
ROLE_ORDERS = ("strict", "any")


class CatalogError(ValueError):
    """An entry of the catalog is wrong; the message names entry and key."""


@dataclass(frozen=True)
class BaseModel:
    """One base model. Memory floors in GiB, context in tokens."""

    id: str
    size: str
    name: str
    repository: str
    revision: str
    sources: tuple[str, ...]
    family: str
    licence: str
    gated: bool
    modality: str
    context_length: int
    parameters_total: int
    parameters_active: int
    methods: tuple[str, ...]
    vram_floors: Mapping[str, float]
    cpu: bool
    role_order: str
    lora_target_pattern: str
    chat_template: str
    trainer_image: str
    hyperparams: Mapping[str, Any]
    method_hyperparams: Mapping[str, Mapping[str, Any]]

    def defaults_of(self, method: str) -> Mapping[str, Any]:
        """The hyperparameters of this model where the user gives none."""
        return {**self.hyperparams, **self.method_hyperparams.get(method, {})}


@cache
def base_models() -> tuple[BaseModel, ...]:
    """All entries, in the file's order. Raises CatalogError."""
    return read_catalog(CATALOG_FILE.read_text(encoding="utf-8"))


def base_model(id: str) -> BaseModel:
    """The entry of this id. Raises InvalidRequest."""
    for entry in base_models():
        if entry.id == id:
            return entry
    raise InvalidRequest(
        f"No base model {id[:100]!r}. Known: {', '.join(m.id for m in base_models())}.",
        code="unknown_base_model",
    )


def base_model_of_size(size: str) -> BaseModel:
    """The entry of this size alias, in any case. Raises InvalidRequest."""
    for entry in base_models():
        if entry.size == size.lower():
            return entry
    raise InvalidRequest(
        f"No model size {size[:100]!r}. Known: {', '.join(m.size for m in base_models())}.",
        code="unknown_model_size",
    )


def read_catalog(text: str) -> tuple[BaseModel, ...]:
    """Parse and check a catalog. Raises CatalogError."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CatalogError(f"catalog.toml is not TOML: {error}") from error
    unknown = set(document) - {"base_models"}
    if unknown:
        raise CatalogError(f"catalog.toml: unknown table {sorted(unknown)[0]!r}.")
    entries = tuple(_read_entry(raw) for raw in document.get("base_models", []))
    for key in ("id", "size"):
        values = [getattr(entry, key) for entry in entries]
        double = next((value for value in values if values.count(value) > 1), None)
        if double is not None:
            raise CatalogError(f"catalog.toml: {key} {double!r} stands twice.")
    return entries


def _read_entry(raw: Mapping[str, Any]) -> BaseModel:
    label = str(raw.get("id", "an entry without id"))
    known = {field.name for field in fields(BaseModel)}
    for key in sorted(known - set(raw)):
        raise CatalogError(f"catalog.toml: {label}: {key} is missing.")
    for key in sorted(set(raw) - known):
        raise CatalogError(f"catalog.toml: {label}: unknown key {key}.")
    entry = BaseModel(
        **{key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()}
    )
    _check_entry(entry, label)
    return entry


def _check_entry(entry: BaseModel, label: str) -> None:
    def refuse(key: str, why: str) -> None:
        raise CatalogError(f"catalog.toml: {label}: {key} {why}.")

    for key in ("id", "size"):
        if not re.fullmatch(r"[a-z0-9][a-z0-9.\-]{0,62}", str(getattr(entry, key))):
            refuse(key, "must be lower-case letters, digits, dots and dashes")
    for key in ("context_length", "parameters_total", "parameters_active"):
        value = getattr(entry, key)
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            refuse(key, "must be a positive whole number")
    if not entry.methods or not set(entry.methods) <= set(METHODS):
        refuse("methods", f"must be some of {', '.join(METHODS)}")
    if entry.role_order not in ROLE_ORDERS:
        refuse("role_order", f"must be one of {', '.join(ROLE_ORDERS)}")
    if not entry.sources:
        refuse("sources", "must name at least one source")
    for method in (*entry.methods, "infer"):
        floor = entry.vram_floors.get(method)
        if isinstance(floor, bool) or not isinstance(floor, int | float) or floor <= 0:
            refuse(f"vram_floors.{method}", "must be a positive number of GiB")
    try:
        re.compile(entry.lora_target_pattern)
    except re.error as error:
        refuse("lora_target_pattern", f"is no regular expression ({error})")
    if unknown := sorted(set(entry.method_hyperparams) - set(entry.methods)):
        refuse(f"method_hyperparams.{unknown[0]}", "is of a method that the entry does not offer")
    tables = {f"method_hyperparams.{name}": of for name, of in entry.method_hyperparams.items()}
    for key, values in {"hyperparams": entry.hyperparams, **tables}.items():
        try:
            check_hyperparams(values)
        except InvalidRequest as error:
            refuse(key, f"is wrong: {error.message}")
    for method in entry.methods:
        if missing := missing_hyperparams(entry.defaults_of(method), method):
            refuse("hyperparams", f"has no {missing[0]}, which method {method} needs")
