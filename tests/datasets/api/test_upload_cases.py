"""Files as people really send them, through the real endpoint."""

import json

import pytest

from datasets.models import Dataset
from tests.datasets.uploads import CASES, DATASETS, body_of, file_part, part, send, upload

pytestmark = pytest.mark.django_db

ACCEPTED = {
    "D01.jsonl": ("chat", 3, {"bom"}),
    "D04.jsonl": ("chat", 3, {"blank_lines"}),
    "D11.jsonl": ("chat", 1, set()),
    "D12.jsonl": ("chat", 3, set()),
    "D13-a.jsonl": ("chat", 4, set()),
    "D13-b.jsonl": ("chat", 4, set()),
    "D14.jsonl": ("chat", 2, set()),
    "D16.jsonl": ("sharegpt", 2, set()),
    "D21.jsonl": ("chat", 3, set()),
    "D21-all.jsonl": ("chat", 4, set()),
    "D22.jsonl": ("chat", 3, set()),
    "D29-one.jsonl": ("chat", 1, set()),
    "U07.jsonl": ("chat", 2, set()),
}
REFUSED = {
    "D02.jsonl": ("not_utf8", [2], "offset 203"),
    "D02-utf16.jsonl": ("not_utf8", [1], "looks like UTF-16, save as UTF-8"),
    "D04-bad.jsonl": ("invalid_json", [4], "column 15"),
    "D05.jsonl": ("json_array", [1], "write one object per line"),
    "D05-oneline.jsonl": ("json_array", [1], "write one object per line"),
    "D06.jsonl": ("invalid_json", [2, 4], "column 148"),
    "D06-python.jsonl": ("invalid_json", [2], "double quotes"),
    "D07.jsonl": ("non_standard_number", [2, 3], "NaN"),
    "D09.jsonl": ("lone_surrogate", [2], "surrogate"),
    "D11-bad.jsonl": ("empty_content", [2, 3, 4, 5, 6], "tool call"),
    "D12-badargs.jsonl": ("bad_tool_call", [1], "arguments is not JSON"),
    "D14-image.jsonl": ("content_not_text", [2], "image_url parts are not supported"),
    "D16-vertex.jsonl": ("unknown_format", [1], "'contents'"),
    "D18.jsonl": ("role_order", [4], "system"),
    "D19.jsonl": ("no_assistant", [2, 3, 4, 5, 6], "assistant"),
    "D23-gzip.jsonl": ("compressed_file", [1], "gzip"),
    "D23-zip.jsonl": ("compressed_file", [1], "zip"),
    "D24-csv.jsonl": ("wrong_format", [1], "CSV"),
    "D24-parquet.jsonl": ("wrong_format", [1], "Parquet"),
    "D29-empty.jsonl": ("no_records", [None], "no rows"),
    "D29-blank.jsonl": ("no_records", [None], "no rows"),
    "D31.jsonl": ("invalid_json", [3], "may be cut off"),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_file(api_as, case, name):
    answer = upload(api_as("trainer"), case(name))

    format, num_records, warnings = ACCEPTED[name]
    row = answer.json()
    assert answer.status_code == 201
    assert (row["format"], row["num_records"]) == (format, num_records)
    assert {warning["code"] for warning in row["report"]["warnings"]} == warnings | {"few_rows"}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_file(api_as, case, stored_files, name):
    answer = upload(api_as("trainer"), case(name))

    code, lines, words = REFUSED[name]
    report = answer.json()
    assert answer.status_code == 400
    assert (report["code"], report["error_count"]) == (code, len(lines))
    assert [error["line"] for error in report["errors"]] == lines
    assert words in report["error"]
    assert not Dataset.objects.exists()
    assert stored_files() == []


def test_d19_names_each_fault():
    from datasets.formats import validate

    with (CASES / "D19.jsonl").open("rb") as file:
        report = validate(file, max_row_bytes=2**20).report

    assert [error["code"] for error in report["errors"]] == [
        "no_assistant",
        "last_not_assistant",
        "empty_messages",
        "messages_not_list",
        "no_completion",
    ]


def test_d18_tells_the_first_line_that_only_some_models_accept(api_as, case):
    content = b"\n".join(case("D18.jsonl").split(b"\n")[:3])

    report = upload(api_as("trainer"), content).json()["report"]

    (warning,) = [each for each in report["warnings"] if each["code"] == "role_order"]
    assert (warning["line"], warning["count"]) == (2, 2)
    assert report["role_order_line"] == 2


def rows_of(client, name, query=""):
    return client.get(f"{DATASETS}/{name}/rows{query}").json()["rows"]


def test_d12_shows_both_styles_of_arguments_as_one(api_as, case):
    client = api_as("trainer")
    upload(client, case("D12.jsonl"))

    calls = [
        row["messages"][1]["tool_calls"][0]["function"]["arguments"]
        for row in rows_of(client, "mine.jsonl")
    ]

    assert all(isinstance(arguments, dict) for arguments in calls)
    assert calls[0] == {"part": "washer", "qty": 4}
    assert calls[1] == {"part": "pin", "qty": "four"}


def test_d13_order_of_rows_does_not_matter(api_as, case):
    client = api_as("trainer")
    for name in ("a", "b"):
        upload(client, case(f"D13-{name}.jsonl"), f"{name}.jsonl")

    first, second = (
        sorted(json.dumps(row["messages"]) for row in rows_of(client, f"{name}.jsonl"))
        for name in ("a", "b")
    )

    assert first == second


def test_d14_joins_the_parts_of_a_text(api_as, case):
    client = api_as("trainer")
    upload(client, case("D14.jsonl"))

    message = rows_of(client, "mine.jsonl")[0]["messages"][0]

    assert message["content"]["text"] == "Name the colour of the crate."


def test_d22_shows_the_beginning_of_a_huge_text_and_its_true_length(api_as, case):
    client = api_as("trainer")
    upload(client, case("D22.jsonl"))

    answer = client.get(f"{DATASETS}/mine.jsonl/rows")

    texts = [m["content"] for row in answer.json()["rows"] for m in row["messages"]]
    cut = [text for text in texts if text["is_cut"]]
    assert len(answer.content) < 10_000
    assert len(cut) == 1
    assert len(cut[0]["text"].encode()) <= 2048
    assert cut[0]["length"] > 2_000_000


NAMES = json.loads((CASES / "D25.json").read_text("utf-8"))["names"]
ACCEPTED_NAMES = {14, 15, 16, 17, 19}  # 19 is markup: stored as it is, escaped wherever shown


@pytest.mark.parametrize("index", range(len(NAMES)))
def test_d25_names_as_sent(api_as, case, dataset_folders, stored_files, index):
    client = api_as("admin")
    raw = NAMES[index].replace('"', '\\"').encode()

    answer = upload(client, case("D04.jsonl"), raw)

    if index not in ACCEPTED_NAMES:
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_name")
        assert stored_files() == []
        return
    assert answer.status_code == 201
    assert answer.json()["filename"] == NAMES[index]
    folders = {name.split("/")[0] for name in stored_files()}
    assert folders == {"datasets_training", "dataset_versions"}
    assert not any(NAMES[index] in name for name in stored_files())
    from urllib.parse import quote

    address = f"{DATASETS}/{quote(NAMES[index], safe='')}"
    assert client.get(address).json()["filename"] == NAMES[index]
    assert client.delete(address).status_code == 204


@pytest.mark.parametrize(
    "disposition",
    [
        b'name="file"; filename="caf\xe9.jsonl"',
        b"name=\"file\"; filename*=UTF-8''..%2Fx.jsonl",
        b"name=\"file\"; filename*=UTF-8''%E9.jsonl",
        b'name="file"; filename="good.jsonl"; filename*=UTF-8\'\'bad%00.jsonl',
        b'name="file"; filename=../x.jsonl',
        b'name="file"; filename="a\xef\xbf\xbd.jsonl"',
        b'name="file"; filename="D:x.jsonl"',
        b'name="file"; filename="\\"/x.jsonl"',
    ],
)
def test_d25_other_spellings_of_bad_names(api_as, stored_files, disposition):
    answer = send(api_as("trainer"), body_of(part(b'{"text": "x"}', disposition)))

    assert (answer.status_code, answer.json()["code"]) == (400, "bad_name")
    assert stored_files() == []


@pytest.mark.parametrize(
    ("disposition", "filename"),
    [
        (b"name=\"file\"; filename*=UTF-8''%E8%AE%AD.jsonl", "\u8bad.jsonl"),
        (b"name=file; filename=plain.jsonl", "plain.jsonl"),
        (b'name="file"; filename="say \\"hi\\".jsonl"', 'say "hi".jsonl'),
        (b'name="file"; filename="a;b.jsonl"', "a;b.jsonl"),
    ],
)
def test_d25_other_spellings_of_good_names(api_as, disposition, filename):
    answer = send(api_as("trainer"), body_of(part(b'{"text": "x"}', disposition)))

    assert answer.json()["filename"] == filename


def test_d23_name_of_a_packed_file_is_refused(api_as, case):
    answer = upload(api_as("trainer"), case("D23.jsonl.gz"), "D23.jsonl.gz")

    assert (answer.status_code, answer.json()["code"]) == (400, "bad_name")


def test_whatever_is_sent_is_answered_in_words(api_as):
    """Bodies with random bytes in and around a good one: never a 500, never half a file."""
    import random

    client = api_as("trainer")
    rng = random.Random(3)
    good = body_of(part(b"x", 'name="name"'), file_part(b'{"text": "x"}\n'))
    for _ in range(300):
        body = bytearray(good)
        for _ in range(rng.randrange(1, 5)):
            place = rng.randrange(len(body))
            body[place : place + rng.randrange(4)] = rng.randbytes(rng.randrange(4))

        answer = send(client, bytes(body))

        assert answer.status_code in (200, 201, 400), bytes(body)
        assert answer.status_code < 400 or answer.json()["error"]
