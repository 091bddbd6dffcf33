"""JSON in and out."""

import json

import pytest
from django.db import connections

from gligabao.rest import DATABASE_AWAY, dumps


def test_whole_numbers_of_more_than_64_bits_are_written_as_any_reader_has_them():
    data = {
        "rows": [{"loss": 10**20, "low": -(10**300), "step": 2**53, "ok": True}],
        "t": (10**30,),
    }

    assert json.loads(dumps(data)) == {
        "rows": [{"loss": 1e20, "low": -1e300, "step": 2**53, "ok": True}],
        "t": [1e30],
    }


@pytest.mark.django_db(databases=["default", "second"], transaction=True)
def test_database_that_does_not_answer_is_a_503_to_try_again(api_as, monkeypatch, tmp_path):
    monkeypatch.setitem(connections["second"].settings_dict, "NAME", str(tmp_path / "no" / "db"))
    connections["second"].close()

    answer = api_as("viewer").get("/v1/gb/training/jobs?db=second")

    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert answer.json() == DATABASE_AWAY
