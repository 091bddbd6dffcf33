"""GET /v1/gb/training/datasets/{filename}/tokens."""

import pytest

from tests.factories import make_dataset
from training.models import TokenStatistics
from training.models.token_statistics import TokenStatus

pytestmark = pytest.mark.django_db

ADDRESS = "/v1/gb/training/datasets/mine.jsonl/tokens"
COUNTED = {"status": TokenStatus.READY, "num_rows": 3, "num_trained": 9,
           "lengths": {"10": 2, "300": 1}, "firsts": {"7": 3}}  # fmt: skip


def test_asks_first_and_answers_when_it_is_counted(api_as):
    make_dataset()
    client = api_as("viewer")

    answer = client.get(f"{ADDRESS}?base_model=tiny")
    assert (answer.status_code, answer.json()) == (202, {"base_model": "tiny", "status": "waiting"})

    TokenStatistics.objects.update(**COUNTED)
    answer = client.get(f"{ADDRESS}?base_model=tiny")
    body = answer.json()
    assert answer.status_code == 200
    assert (body["num_tokens"], body["p50"], body["p95"], body["max"]) == (320, 10, 300, 300)
    assert (body["max_length"], body["num_over_max_length"]) == (256, 1)
    assert (
        client.get(f"{ADDRESS}?base_model=tiny&max_length=400").json()["num_over_max_length"] == 0
    )


def test_failure_is_told(api_as):
    make_dataset()
    client = api_as("viewer")
    client.get(f"{ADDRESS}?base_model=tiny")
    TokenStatistics.objects.update(status=TokenStatus.FAILED, error="No tokenizer.")

    answer = client.get(f"{ADDRESS}?base_model=tiny")

    assert (answer.status_code, answer.json()["error"]) == (202, "No tokenizer.")


@pytest.mark.parametrize(
    ("query", "status"),
    [("base_model=none", 400), ("max_length=0", 400), ("max_length=x", 400), ("other=1", 400)],
)
def test_bad_queries(api_as, query, status):
    make_dataset()

    assert api_as("viewer").get(f"{ADDRESS}?{query}").status_code == status


def test_unknown_dataset(api_as):
    assert api_as("viewer").get(ADDRESS).status_code == 404
