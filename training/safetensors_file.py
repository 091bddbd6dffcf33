"""Checks the header of a safetensors file without loading a tensor.

Stricter than the format's own library: no key twice, no holes, no overlaps. Layout: 8 bytes
little-endian header length, the header as JSON, then the tensors' bytes
(https://huggingface.co/docs/safetensors/index#format).
"""

from __future__ import annotations

import json
import math
from typing import Any, BinaryIO

MAX_HEADER_BYTES = 100_000_000  # the library's own limit
MAX_COUNT = 2**63 - 1
MAX_DIMENSIONS = 32
DTYPE_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "I16": 16, "U16": 16, "F16": 16,
    "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip


class InvalidSafetensors(ValueError):
    """The header is not one; the message says where."""


def check_header(file: BinaryIO, *, size_bytes: int) -> dict[str, Any]:
    """Return the header's tensors by name. Raises InvalidSafetensors."""
    start = file.read(8)
    if len(start) < 8:
        raise InvalidSafetensors("it is shorter than 8 bytes")
    length = int.from_bytes(start, "little")
    if length > min(MAX_HEADER_BYTES, size_bytes - 8):
        raise InvalidSafetensors("its header is longer than the file")
    header = _parse(file.read(length))
    header.pop("__metadata__", None)
    spans = sorted(_span(name, tensor) for name, tensor in header.items())
    end = 0
    for begin, stop, name in spans:
        if begin != end:
            raise InvalidSafetensors(f"the bytes of {name[:100]!r} do not follow those before them")
        end = stop
    if end != size_bytes - 8 - length:
        raise InvalidSafetensors(f"its tensors have {end} bytes, {size_bytes - 8 - length} follow")
    return header


def _parse(raw: bytes) -> dict[str, Any]:
    if not raw.startswith(b"{"):
        raise InvalidSafetensors("its header is no JSON object")
    try:
        return json.loads(raw.decode("utf-8"), object_pairs_hook=_once)
    except InvalidSafetensors:
        raise
    except (ValueError, RecursionError) as error:  # not UTF-8, no JSON, a number without end
        raise InvalidSafetensors("its header is no JSON") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise InvalidSafetensors("a name stands twice in its header")
    return result


def _span(name: str, tensor: Any) -> tuple[int, int, str]:
    try:
        bits = DTYPE_BITS[tensor["dtype"]]
        begin, stop = tensor["data_offsets"]
        shape = tensor["shape"]
        counts = [*shape, begin, stop]
        if any(isinstance(count, bool) or not isinstance(count, int) for count in counts):
            raise TypeError("a count is no integer")
        if len(shape) > MAX_DIMENSIONS or max(counts) > MAX_COUNT:
            raise ValueError("a count that no tensor has")
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidSafetensors(f"the entry of {name[:100]!r} is incomplete") from error
    if min(counts) < 0 or stop - begin != math.prod(shape) * bits // 8:
        raise InvalidSafetensors(f"the size of {name[:100]!r} does not fit its shape")
    return begin, stop, name
