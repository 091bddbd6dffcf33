"""The pages of datasets as the server sends them."""

import asyncio
import json
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import AsyncClient

from datasets.console.explanations import EXPLANATIONS
from datasets.formats.report import WARNINGS
from datasets.models import Dataset
from tests.factories import make_dataset, make_job
from tests.reading import Page, page_of

pytestmark = pytest.mark.django_db(databases=["default", "second"])

CASES = Path(__file__).parent.parent.parent / "cases"
HOSTILE = json.loads((CASES / "U07.json").read_text())["put_the_text"]
UPLOAD = "/console/datasets/upload/"
ROW = {"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]}


def jsonl(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def sent(client, content, name="mine.jsonl", address=UPLOAD, **fields):
    return client.post(address, {"file": SimpleUploadedFile(name, content), **fields})


def test_empty_list_says_the_next_step(client_as):
    page = page_of(client_as("trainer"), "/console/datasets/")

    assert "No datasets yet" in page.text
    assert page.all("a", href=UPLOAD)


def test_list_shows_each_dataset_and_its_runs(client_as, django_assert_max_num_queries):
    client = client_as("viewer")
    for number in range(3):
        make_dataset(f"file {number}.jsonl", num_rows=1234 if number == 1 else 2)
    make_job(dataset="file 1.jsonl")
    make_job(dataset="file 1.jsonl")

    with django_assert_max_num_queries(8):
        page = page_of(client, "/console/datasets/")

    assert page.all("a", href="/console/datasets/file%201.jsonl/")
    for text in ("file 1.jsonl", "Ready", "1,234", "chat"):
        assert text in page.text
    assert not page.all("a", href=UPLOAD), "a viewer uploads nothing"
    assert "file 2" not in page_of(client, "/console/datasets/?q=file+1").text
    assert "No dataset matches" in page_of(client, "/console/datasets/?q=nothing").text


def test_upload_stores_and_leads_to_the_dataset(client_as):
    client = client_as("trainer")

    for content, words in (
        (jsonl(ROW), "is uploaded and ready"),
        (jsonl(ROW), "had just this content already"),
        (jsonl(ROW, ROW), "has new content"),
    ):
        response = sent(client, content, name="größe 1.jsonl", description="About it")
        assert response.status_code == 302
        assert words in page_of(client, response.url).text
    dataset = Dataset.objects.get()
    assert (dataset.filename, dataset.description) == ("größe 1.jsonl", "About it")


@pytest.mark.parametrize(
    ("case", "code", "lines"),
    [
        ("D02.jsonl", "not_utf8", ["2"]),
        ("D04-bad.jsonl", "invalid_json", ["4"]),
        ("D05.jsonl", "json_array", []),
        ("D06.jsonl", "invalid_json", ["2", "4"]),
        ("D07.jsonl", "non_standard_number", ["2", "3"]),
        ("D09.jsonl", "lone_surrogate", ["2"]),
    ],
)
def test_file_that_does_not_validate_shows_its_report(client_as, case, code, lines):
    client = client_as("trainer")

    response = sent(client, (CASES / case).read_bytes(), name="typed", description="kept text")
    assert response.status_code == 400
    response = sent(client, (CASES / case).read_bytes(), name="mine.jsonl", description="kept text")

    page = Page(response.content.decode())
    assert response.status_code == 400
    assert "The file was not stored." in page.text_of("problems")
    assert code in page.text
    assert str(EXPLANATIONS[code]) in page.text
    assert "kept text" in page.text
    cells = [one for one in page.all("td") if one.get("data-label") == "Line"]
    assert len(cells) >= len(lines)
    assert not Dataset.objects.exists()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("data.csv", b"a,b\n1,2\n", "does not end in .jsonl"),
        ("a.jsonl", b"PK\x03\x04rest", "Unpack"),
        ("a.jsonl", b"", "holds no row"),
        (".hidden.jsonl", jsonl(ROW), "starts with a dot"),
    ],
)
def test_wrong_files_are_named(client_as, name, content, words):
    response = sent(client_as("trainer"), content, name=name)

    assert response.status_code == 400
    assert words in Page(response.content.decode()).text
    assert not Dataset.objects.exists()


def test_form_without_a_file_says_so(client_as):
    response = client_as("trainer").post(UPLOAD, {"name": "x"})

    page = Page(response.content.decode())
    assert response.status_code == 400
    assert "This field is required" in page.text_of("problems")
    assert page.all("input", name="name", value="x")


def test_replacing_keeps_the_name(client_as):
    make_dataset("old.jsonl")
    client = client_as("trainer")
    page = page_of(client, f"{UPLOAD}?filename=old.jsonl")
    assert page.text_of("h1") == "Replace old.jsonl"

    response = sent(client, jsonl(ROW), name="other.jsonl", filename="old.jsonl")

    assert response.url == "/console/datasets/old.jsonl/"
    assert Dataset.objects.get().num_records == 1


def test_dataset_shows_rows_as_the_trainer_sees_them(client_as):
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    rows = [
        {"messages": [
            {"role": "system", "content": "Be kind."}, {"role": "user", "content": "Q1"},
            {"role": "assistant", "content": "A1"}]},
        {"messages": [
            {"role": "user", "content": "Q2"}, {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "content": "42", "tool_call_id": "c1"},
            {"role": "assistant", "content": HOSTILE}],
         "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]},
        {"messages": [{"role": "user", "content": "x" * 5000}, {"role": "assistant", "content": "A3"}]},
    ]  # fmt: skip
    client = client_as("viewer")
    sent(client_as("trainer"), jsonl(*rows))

    page = page_of(client, "/console/datasets/mine.jsonl/")

    assert len(page.all("div", class_="turn trained")) == 4
    assert len(page.all("div", class_="turn")) == 5
    assert HOSTILE in page.text
    assert not page.all("img")
    assert "cut; 5,000 characters" in page.text
    assert "tool_calls" in page.text
    assert '"role": "system"' in page.text, "and as it stands in the file"


def test_pages_of_rows_and_a_line_of_choice(client_as):
    make_dataset(num_rows=45)
    client = client_as("viewer")

    def shown(query):
        page = page_of(client, f"/console/datasets/mine.jsonl/?{query}")
        return [int(one["value"]) for one in page.all("li") if one.get("value")]

    assert shown("") == list(range(1, 21))
    assert shown("offset=40") == list(range(41, 46))
    assert shown("line=30") == list(range(30, 46))
    assert shown("line=99") == []
    for odd in ("offset=x", "offset=-1", f"line={'9' * 40}", "line=0"):
        assert shown(odd) == list(range(1, 21))


def test_problems_of_a_file_in_the_folder(client_as, tmp_path):
    dataset = make_dataset(num_rows=2)
    report = {"error": "x", "errors": [{"line": 2, "column": 1, "path": None, "code": "invalid_json", "message": HOSTILE}],
              "error_count": 1, "codes": {"invalid_json": 1},
              "warnings": [{"code": "few_rows", "count": 2, "message": WARNINGS["few_rows"], "line": 1, "lines": [1]}]}  # fmt: skip
    Dataset.objects.filter(pk=dataset.pk).update(status="invalid", report=report)
    client = client_as("trainer")

    page = page_of(client, "/console/datasets/mine.jsonl/")

    assert "cannot be trained on" in page.text_of("why")
    assert HOSTILE in page.text
    assert str(EXPLANATIONS["invalid_json"]) in page.text
    assert page.all("a", href="?line=2&problems=1#rows-title")
    assert not page.all("a", href="/console/jobs/new/?dataset=mine.jsonl")
    rows = page_of(client, "/console/datasets/mine.jsonl/?problems=1").all("li")
    assert [one["value"] for one in rows if one.get("value")] == ["1", "2"]


def test_ready_dataset_can_be_trained_on(client_as):
    make_dataset()
    make_job(name="used it")
    trainer, viewer = client_as("trainer"), client_as("viewer")

    page = page_of(trainer, "/console/datasets/mine.jsonl/")

    assert page.all("a", href="/console/jobs/new/?dataset=mine.jsonl")
    assert "used it" in page.text
    assert not page_of(viewer, "/console/datasets/mine.jsonl/").all(
        "a", href="/console/jobs/new/?dataset=mine.jsonl"
    )


def test_every_code_of_a_report_is_explained():
    spec = [
        "not_utf8",
        "invalid_json",
        "json_array",
        "wrong_format",
        "compressed_file",
        "not_an_object",
        "unknown_format",
        "mixed_formats",
        "non_standard_number",
        "duplicate_key",
        "lone_surrogate",
        "too_deep",
        "line_too_long",
        "messages_not_list",
        "empty_messages",
        "unknown_role",
        "role_order",
        "no_assistant",
        "last_not_assistant",
        "content_not_text",
        "empty_content",
        "no_completion",
        "bad_tool_call",
        "no_records",
        "bad_name",
        "bom",
        "blank_lines",
        "duplicate_rows",
        "control_tokens",
        "nul",
        "few_rows",
    ]

    assert set(spec) <= set(EXPLANATIONS)


@pytest.mark.django_db(transaction=True)
def test_download_gives_the_bytes_that_came(user_with_role):
    dataset = make_dataset("big file.jsonl")
    user = user_with_role("viewer")

    async def read():
        client = AsyncClient()
        await client.aforce_login(user)
        answer = await client.get("/console/datasets/big file.jsonl/download")
        return answer, b"".join([block async for block in answer.streaming_content])

    answer, content = asyncio.run(read())

    assert (len(content), answer.headers["Content-Length"]) == (
        dataset.size_bytes,
        str(dataset.size_bytes),
    )
    assert answer.headers["Content-Disposition"].startswith("attachment;")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_delete_is_for_admins_and_not_while_it_is_used(client_as):
    make_dataset()
    job = make_job()
    trainer, admin = client_as("trainer"), client_as("admin")
    address = "/console/datasets/mine.jsonl/delete"

    assert trainer.post(address).status_code == 403
    response = admin.post(address, follow=True)
    assert "An unfinished job uses" in Page(response.content.decode()).text
    job.delete()
    assert admin.post(address).url == "/console/datasets/"
    assert not Dataset.objects.exists()


def test_unknown_datasets_are_404(client_as):
    client = client_as("admin")

    for name in ("none.jsonl", "%00.jsonl", "a/b.jsonl"):
        for verb in ("", "download"):
            assert client.get(f"/console/datasets/{name}/{verb}").status_code == 404
        assert client.post(f"/console/datasets/{name}/delete").status_code == 404


def test_viewer_uploads_nothing(client_as):
    client = client_as("viewer")

    assert client.get(UPLOAD).status_code == 403
    assert sent(client, jsonl(ROW)).status_code == 403
    assert not Dataset.objects.exists()


def test_other_database(client_as):
    client = client_as("trainer")

    response = sent(client, jsonl(ROW), address=f"{UPLOAD}?db=second")

    assert response.url == "/console/datasets/mine.jsonl/?db=second"
    assert Dataset.objects.using("second").exists()
    assert not Dataset.objects.exists()
    page = page_of(client, response.url)
    assert page.all("a", href="/console/datasets/mine.jsonl/download?db=second")
