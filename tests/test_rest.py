"""JSON in and out."""

import json

from gligabao.rest import dumps


def test_whole_numbers_of_more_than_64_bits_are_written_as_any_reader_has_them():
    data = {
        "rows": [{"loss": 10**20, "low": -(10**300), "step": 2**53, "ok": True}],
        "t": (10**30,),
    }

    assert json.loads(dumps(data)) == {
        "rows": [{"loss": 1e20, "low": -1e300, "step": 2**53, "ok": True}],
        "t": [1e30],
    }
