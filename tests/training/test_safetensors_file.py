"""Headers of safetensors files as a hostile trainer may write them."""

import io
import struct

import pytest

from training.safetensors_file import InvalidSafetensors, check_header


def read(header):
    raw = header.encode()
    data = struct.pack("<Q", len(raw)) + raw + b"\0\0\0\0"
    return check_header(io.BytesIO(data), size_bytes=len(data))


def entry(shape="[1]", offsets="[0, 4]", name="a"):
    return f'{{"{name}": {{"dtype": "F32", "shape": {shape}, "data_offsets": {offsets}}}}}'


def test_a_header_that_fits_its_file_is_read():
    assert list(read(entry())) == ["a"]


@pytest.mark.parametrize(
    "header",
    [
        entry(shape=f"[{'1' * 5000}]"),
        entry(shape=f"[{'1' * 4000}]"),
        entry(shape=f"[{', '.join(['1'] * 100_000)}]"),
        entry(offsets=f"[0, {'4' * 4000}]"),
        entry(shape="[-1]"),
        '{"a": 1, "a": 2}',
        '{"a": ' + "[" * 100_000,
    ],
    ids=["no-integer", "huge", "dimensions", "offset", "negative", "double", "deep"],
)
def test_a_header_that_is_none_is_refused(header):
    with pytest.raises(InvalidSafetensors):
        read(header)


def test_a_name_that_no_database_can_hold_is_shown_escaped():
    with pytest.raises(InvalidSafetensors) as refusal:
        read(entry(shape="[2]", name="\\ud800\\u0000"))

    assert str(refusal.value).isascii()
    assert "\0" not in str(refusal.value)
