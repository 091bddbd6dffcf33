"""The OpenAPI schema and its page."""

import json

import pytest
from django.core.management import call_command
from django.test import Client

from training.hyperparams import HYPERPARAMS

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    file = tmp_path_factory.mktemp("schema") / "schema.json"
    call_command(
        "spectacular", file=str(file), format="openapi-json", validate=True, fail_on_warn=True
    )
    return json.loads(file.read_text())


def operations(schema):
    return [
        operation
        for path in schema["paths"].values()
        for method, operation in path.items()
        if method in ("get", "post", "patch", "put", "delete")
    ]


def test_every_operation_is_named_once_and_says_who_may_ask(schema):
    names = [operation["operationId"] for operation in operations(schema)]

    assert len(names) == len(set(names))
    assert all(operation["security"] for operation in operations(schema))


def test_what_a_user_sends_first_has_examples(schema):
    start = schema["paths"]["/v1/gb/training/jobs"]["post"]
    infer = schema["paths"]["/v1/gb/training/models/{model_id}/infer"]["post"]

    for operation in (start, infer):
        assert operation["requestBody"]["content"]["application/json"]["examples"]


def test_every_hyperparameter_has_its_range(schema):
    start = schema["components"]["schemas"]["StartJob"]["properties"]["hyperparams"]

    assert list(start["properties"]) == list(HYPERPARAMS)
    rank = start["properties"]["lora_rank"]
    assert (rank["type"], rank["minimum"], rank["maximum"]) == ("integer", 1, 512)
    assert start["properties"]["lr_scheduler"]["enum"] == ["cosine", "linear", "constant"]
    assert start["additionalProperties"] is False


def test_schema_and_page_are_served_from_here_alone():
    client = Client()

    schema = client.get("/v1/schema")
    page = client.get("/v1/schema/page")

    assert schema.status_code == page.status_code == 200
    text = page.content.decode()
    assert "cdn" not in text
    assert 'src="http' not in text
    assert 'href="http' not in text
