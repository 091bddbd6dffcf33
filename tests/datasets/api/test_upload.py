"""Uploads: what is stored, what is answered, and that nothing is stored in part."""

import hashlib

import pytest

from datasets.models import Dataset, DatasetVersion
from tests.datasets.uploads import (
    BOUNDARY,
    DATASETS,
    GOOD,
    body_of,
    file_part,
    part,
    send,
    upload,
)

pytestmark = pytest.mark.django_db


def test_new_file_is_stored_and_answered_with_its_row(api_as):
    answer = upload(api_as("trainer"), GOOD, name="Doors", description="Two rows.")

    assert answer.status_code == 201
    row = answer.json()
    assert row["report"].pop("warnings")[0]["code"] == "few_rows"
    assert row | {"id": 0, "created_at": "", "updated_at": ""} == {
        "id": 0,
        "filename": "mine.jsonl",
        "name": "Doors",
        "description": "Two rows.",
        "size_bytes": len(GOOD),
        "num_records": 2,
        "sha256": hashlib.sha256(GOOD).hexdigest(),
        "format": "chat",
        "status": "ready",
        "created_at": "",
        "updated_at": "",
        "synced_at": None,
        "report": {
            "error": None,
            "code": None,
            "errors": [],
            "error_count": 0,
            "codes": {},
            "num_records": 2,
            "format": "chat",
            "rows_compared": 2,
            "role_order_line": None,
        },
    }


def test_same_content_again_is_a_200_and_other_content_a_201(api_as):
    client = api_as("trainer")
    first = upload(client, GOOD, name="Doors").json()

    same = upload(client, GOOD)
    changed = upload(client, GOOD + GOOD)

    assert (same.status_code, same.json()) == (200, first)
    assert changed.status_code == 201
    assert changed.json()["id"] == first["id"]
    assert changed.json()["name"] == "Doors"
    assert changed.json()["num_records"] == 4
    assert DatasetVersion.objects.count() == 2


def test_refused_file_stores_nothing_and_answers_the_whole_report(api_as, case, stored_files):
    answer = upload(api_as("trainer"), case("D19.jsonl"))

    assert answer.status_code == 400
    report = answer.json()
    assert report["code"] == "no_assistant"
    assert report["error_count"] == 5
    assert [error["line"] for error in report["errors"]] == [2, 3, 4, 5, 6]
    assert set(report["errors"][0]) == {"line", "column", "path", "code", "message"}
    assert report["num_records"] == 1
    assert not Dataset.objects.exists()
    assert not DatasetVersion.objects.exists()
    assert stored_files() == []


def test_refused_file_leaves_the_earlier_content_in_place(api_as, case):
    client = api_as("trainer")
    first = upload(client, GOOD).json()

    upload(client, case("D19.jsonl"))

    assert client.get(f"{DATASETS}/mine.jsonl").json() == first


def test_stored_bytes_are_those_that_were_sent(api_as, case, dataset_folders):
    content = case("D01.jsonl")

    row = upload(api_as("trainer"), content).json()

    version = DatasetVersion.objects.get()
    assert version.path.read_bytes() == content
    (data,) = dataset_folders.glob("datasets_training/*/data.jsonl")
    assert data.read_bytes() == content
    assert row["sha256"] == version.sha256 == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "no_file"),
        (b"nothing of the kind", "broken_multipart"),
        (body_of(), "no_file"),
        (body_of(file_part(GOOD), end=b""), "broken_multipart"),
        (body_of(file_part(GOOD))[:-60], "broken_multipart"),
        (body_of(file_part(GOOD), end=b"\r\n"), "broken_multipart"),
        (body_of(file_part(GOOD), end=b"xx"), "broken_multipart"),
        (body_of(b"no headers at all"), "broken_multipart"),
        (body_of(part(GOOD, "x=1")), "broken_multipart"),
        (body_of(b"X-Long: " + b"a" * 20_000 + b"\r\n\r\n"), "broken_multipart"),
        (
            body_of(
                b"Content-Transfer-Encoding: base64\r\n" + file_part(GOOD),
            ),
            "broken_multipart",
        ),
        (body_of(*[part(b"x", 'name="name"')] * 30), "bad_field"),
        (body_of(part(b"x", 'name="name"')), "no_file"),
        (body_of(part(GOOD, 'name="file"')), "no_file"),
        (body_of(file_part(GOOD), file_part(GOOD)), "two_files"),
        (body_of(file_part(GOOD), part(b"1", 'name="colour"')), "unknown_field"),
        (body_of(file_part(GOOD), part(GOOD, 'name="other"; filename="b.jsonl"')), "unknown_field"),
        (
            body_of(file_part(GOOD), part(b"x", 'name="name"'), part(b"y", 'name="name"')),
            "bad_field",
        ),
        (body_of(file_part(GOOD), part(b"x", 'name="name"; filename="n"')), "bad_field"),
        (body_of(part(b"\xff", 'name="name"'), file_part(GOOD)), "not_utf8"),
        (body_of(part(b"a\x1bb", 'name="name"'), file_part(GOOD)), "bad_name"),
        (body_of(part(b"a\0b", 'name="description"'), file_part(GOOD)), "bad_description"),
        (body_of(part(b"n" * 201, 'name="name"'), file_part(GOOD)), "bad_name"),
        (body_of(part(b"d" * 100_000, 'name="description"'), file_part(GOOD)), "broken_multipart"),
    ],
)
def test_wrong_form_is_refused_with_its_reason(api_as, stored_files, body, code):
    answer = send(api_as("trainer"), body)

    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert answer.json()["error"]
    assert stored_files() == []
    assert not Dataset.objects.exists()


def test_parts_may_come_in_any_order_and_hold_boundary_lookalikes(api_as):
    lookalike = f'{{"text": "--{BOUNDARY} \\r\\n--{BOUNDARY}--"}}\n'.encode()
    body = body_of(file_part(lookalike + b"\r\n-"[:2]), part(b"Later", 'name="name"'))

    answer = send(api_as("trainer"), body)

    assert answer.status_code == 201
    assert answer.json()["name"] == "Later"
    assert answer.json()["size_bytes"] == len(lookalike) + 2


@pytest.mark.parametrize(
    ("content_type", "body", "status", "code"),
    [
        ("multipart/form-data", b"x", 400, "broken_multipart"),
        ("application/json", b'{"url": "https://x.example/a.jsonl"}', 400, "unknown_field"),
        ("application/json", b"{", 400, "invalid_json"),
        ("application/json", b"[1]", 400, "unknown_field"),
        ("application/x-www-form-urlencoded", b"file=x", 415, "unsupported_media_type"),
        ("application/x-ndjson", GOOD, 415, "unsupported_media_type"),
        ("", GOOD, 415, "unsupported_media_type"),
    ],
)
def test_other_bodies_are_refused(api_as, content_type, body, status, code):
    answer = send(api_as("trainer"), body, content_type=content_type)

    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_file_over_the_limit_is_a_413(api_as, settings, stored_files):
    settings.MAX_UPLOAD_BYTES = 100

    answer = upload(api_as("trainer"), GOOD)

    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert stored_files() == []


def test_line_over_the_limit_is_named(api_as, settings):
    settings.MAX_ROW_BYTES = 2000
    long_line = b'{"text": "' + b"x" * 3_000_000 + b'"}\n'

    answer = upload(api_as("trainer"), b'{"text": "short"}\n' + long_line)

    report = answer.json()
    assert (report["code"], report["errors"][0]["line"]) == ("line_too_long", 2)
    assert "2000" in report["error"]


def test_upload_needs_a_login_and_the_role_trainer(client, api_as):
    assert upload(client).status_code == 401
    assert upload(api_as("viewer")).status_code == 403
    assert upload(api_as("trainer")).status_code == 201
    assert upload(api_as("admin")).status_code == 200


def test_session_needs_its_csrf_token_in_the_header(user_with_role):
    from django.test import Client

    browser = Client(enforce_csrf_checks=True)
    browser.force_login(user_with_role("trainer"))
    form_token = part(b"a" * 32, 'name="csrfmiddlewaretoken"')

    refused = send(browser, body_of(form_token, file_part(GOOD)))
    browser.cookies["csrftoken"] = "a" * 32
    accepted = browser.generic(
        "POST",
        DATASETS,
        body_of(file_part(GOOD)),
        content_type=f"multipart/form-data; boundary={BOUNDARY}",
        headers={"X-CSRFToken": "a" * 32},
    )

    assert refused.status_code == 403
    assert accepted.status_code == 201


def test_other_database_has_rows_and_folder_of_its_own(api_as, dataset_folders):
    client = api_as("trainer")

    assert upload(client, query="?db=nowhere").status_code == 404
    assert upload(client, query="?colour=red").status_code == 400
