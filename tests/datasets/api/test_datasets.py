"""Listing, reading and deleting datasets."""

import pytest
from django.core.management import call_command

from datasets.models import Dataset, DatasetStatus
from datasets.services import deletion
from tests.datasets.uploads import DATASETS, GOOD, upload

pytestmark = pytest.mark.django_db


def test_list_is_newest_first_and_paged(api_as):
    client = api_as("trainer")
    for number in range(3):
        upload(client, GOOD, f"{number}.jsonl")

    page = client.get(f"{DATASETS}?limit=2").json()["datasets"]
    rest = client.get(f"{DATASETS}?before={page[-1]['id']}").json()["datasets"]

    assert [row["filename"] for row in page + rest] == ["2.jsonl", "1.jsonl", "0.jsonl"]
    assert set(page[0]) == {
        "id",
        "filename",
        "name",
        "description",
        "size_bytes",
        "num_records",
        "sha256",
        "format",
        "status",
        "created_at",
        "updated_at",
        "synced_at",
    }
    assert page[0]["updated_at"].endswith("Z")


def test_list_is_one_query_for_any_number_of_rows(api_as, django_assert_num_queries):
    client = api_as("trainer")
    for number in range(4):
        upload(client, GOOD, f"{number}.jsonl")

    with django_assert_num_queries(4):  # token, its last use, groups, rows
        client.get(DATASETS)


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=x", "before=-1", "colour=red", "limit=99999999999999999999"]
)
def test_list_refuses_a_wrong_query(api_as, query):
    assert api_as("viewer").get(f"{DATASETS}?{query}").status_code == 400


def test_unknown_name_is_a_404(api_as):
    client = api_as("admin")

    for address in (f"{DATASETS}/no.jsonl", f"{DATASETS}/no.jsonl/rows", f"{DATASETS}/a%0Ab"):
        assert client.get(address).status_code == 404
    answer = client.delete(f"{DATASETS}/no.jsonl")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_dataset")


def test_status_tells_at_once_that_a_file_is_gone_or_changed(api_as, dataset_folders):
    client = api_as("trainer")
    upload(client, GOOD)
    (data,) = dataset_folders.glob("datasets_training/*/data.jsonl")

    data.write_bytes(b"other")
    changed = client.get(f"{DATASETS}/mine.jsonl").json()["status"]
    data.unlink()
    missing = client.get(DATASETS).json()["datasets"][0]["status"]
    upload(client, GOOD)
    again = client.get(f"{DATASETS}/mine.jsonl").json()["status"]

    assert (changed, missing, again) == ("changed", "missing", "ready")


def test_rows_come_in_pages(api_as):
    client = api_as("trainer")
    upload(client, b"".join(b'{"text": "row %d"}\n\n' % number for number in range(5)))

    page = client.get(f"{DATASETS}/mine.jsonl/rows?offset=1&limit=2").json()
    last = client.get(f"{DATASETS}/mine.jsonl/rows?offset={page['next']}&limit=2").json()
    beyond = client.get(f"{DATASETS}/mine.jsonl/rows?offset=99").json()

    assert [(row["index"], row["line"], row["text"]["text"]) for row in page["rows"]] == [
        (1, 3, "row 1"),
        (2, 5, "row 2"),
    ]
    assert [row["index"] for row in last["rows"]] == [3, 4]
    assert last["next"] is None
    assert beyond == {"rows": [], "next": None}


def test_rows_with_problems_are_those_that_the_report_names(api_as):
    client = api_as("trainer")
    content = b'{"text": "a"}\n{"text": "b <|im_end|>"}\n{"text": "c"}\n{"text": "a"}\n'
    upload(client, content)

    rows = client.get(f"{DATASETS}/mine.jsonl/rows?problems=true").json()["rows"]

    assert [(row["line"], row["problems"][0]["code"]) for row in rows] == [
        (2, "control_tokens"),
        (4, "duplicate_rows"),
    ]


@pytest.mark.parametrize("query", ["offset=-1", "offset=x", "limit=0", "problems=maybe", "page=2"])
def test_rows_refuse_a_wrong_query(api_as, query):
    client = api_as("trainer")
    upload(client, GOOD)

    assert client.get(f"{DATASETS}/mine.jsonl/rows?{query}").status_code == 400


def test_rows_of_an_invalid_folder_show_the_lines_as_they_are(api_as, dataset_folders, case):
    folder = dataset_folders / "datasets_training" / "team"
    folder.mkdir(parents=True)
    (folder / "dataset.toml").write_text('file = "team.jsonl"')
    (folder / "team.jsonl").write_bytes(case("D19.jsonl") + b'{"text": "\xff"}\n')
    call_command("sync_datasets")

    rows = api_as("viewer").get(f"{DATASETS}/team.jsonl/rows?problems=1").json()["rows"]

    assert [row["line"] for row in rows] == [2, 3, 4, 5, 6, 7]
    assert rows[3]["raw"]["text"] == '{"messages": "hello"}\n'
    assert rows[3]["problems"] == [
        {"level": "error", "code": "messages_not_list", "message": "'messages' is not a list."}
    ]


def test_large_tool_calls_and_numbers_are_cut_or_shown_as_numbers(api_as):
    client = api_as("trainer")
    arguments = '{"n": 123456789012345678901234567890}'
    call = '{"id": "c", "function": {"name": "f", "arguments": %s}}'
    row = (
        '{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": [%s]},'
        ' {"role": "tool", "content": ""}, {"role": "assistant", "content": "a"}]}\n'
    )
    big = '{"x": "%s"}' % ("y" * 9000)
    upload(client, (row % call % arguments + row % call % big).encode())

    first, second = client.get(f"{DATASETS}/mine.jsonl/rows").json()["rows"]

    assert first["messages"][1]["tool_calls"][0]["function"]["arguments"] == {
        "n": 1.2345678901234568e29
    }
    assert second["messages"][1]["tool_calls"]["is_cut"]
    assert second["messages"][1]["tool_calls"]["length"] > 9000


def test_deletion_removes_row_and_folder_and_keeps_the_version(api_as, stored_files):
    client = api_as("admin")
    upload(client, GOOD)

    answer = client.delete(f"{DATASETS}/mine.jsonl")

    assert answer.status_code == 204
    assert not Dataset.objects.exists()
    (left,) = stored_files()
    assert left.startswith("dataset_versions/")


def test_deletion_waits_for_unfinished_jobs(api_as, monkeypatch, stored_files):
    client = api_as("admin")
    upload(client, GOOD)
    before = stored_files()
    monkeypatch.setattr(deletion, "_use_checks", [lambda filename, db: filename == "mine.jsonl"])

    answer = client.delete(f"{DATASETS}/mine.jsonl")

    assert (answer.status_code, answer.json()["code"]) == (409, "dataset_in_use")
    assert stored_files() == before


def test_only_what_was_uploaded_can_be_deleted(api_as):
    call_command("sync_datasets")

    answer = api_as("admin").delete(f"{DATASETS}/gligabao_facts.jsonl")

    assert (answer.status_code, answer.json()["code"]) == (409, "not_an_upload")
    assert Dataset.objects.get().status == DatasetStatus.READY


def test_reading_needs_a_login_and_deletion_an_admin(client, api_as):
    upload(api_as("trainer"), GOOD)

    assert client.get(DATASETS).status_code == 401
    assert client.get(f"{DATASETS}/mine.jsonl/rows").status_code == 401
    assert api_as("viewer").get(DATASETS).status_code == 200
    assert api_as("trainer", "other").delete(f"{DATASETS}/mine.jsonl").status_code == 403
    assert api_as("admin").delete(f"{DATASETS}/mine.jsonl").status_code == 204


def test_hostile_text_comes_back_as_text(api_as, case):
    client = api_as("trainer")
    upload(client, case("U07.jsonl"), "<b>.jsonl", name="<script>")

    answer = client.get(f"{DATASETS}/%3Cb%3E.jsonl")

    assert answer["Content-Type"] == "application/json"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer.json()["name"] == "<script>"
