"""What the validator says of single rows and of files. Case files are tested by upload."""

import io
import json
import tracemalloc

import pytest

from datasets.formats import validate
from datasets.formats import validator as validator_module

MAX_ROW_BYTES = 100_000


def report_of(*lines):
    content = b"\n".join(
        line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines
    )
    return validate(io.BytesIO(content), max_row_bytes=MAX_ROW_BYTES).report


def chat(*messages, **extra):
    return {"messages": [{"role": role, "content": content} for role, content in messages], **extra}


USER, ANSWER = ("user", "Door?"), ("assistant", "Open.")
CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}


def with_call(call, *, content=None):
    return {
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": content, "tool_calls": call},
            {"role": "tool", "tool_call_id": "c1", "content": ""},
            {"role": "assistant", "content": "a"},
        ]
    }


GOOD_ROWS = {
    "system first": chat(("system", "s"), USER, ANSWER),
    "developer first": chat(("developer", "s"), USER, ANSWER),
    "empty system": chat(("system", ""), USER, ANSWER),
    "call without content": with_call([CALL]),
    "call with content": with_call([CALL], content="Let me see."),
    "no calls, null": chat(USER, ANSWER, tools=None),
    "tools as text": chat(USER, ANSWER, tools='[{"type": "function"}]'),
    "extra keys": chat(USER, ANSWER, id=1, meta={"a": [1, {"b": None}]}),
    "deep, but not too deep": chat(USER, ANSWER, meta=json.loads("[" * 63 + "]" * 63)),
    "prompt and completion": {"prompt": "p", "completion": "c"},
    "message lists": {
        "prompt": [{"role": "user", "content": "p"}],
        "completion": [{"role": "assistant", "content": "c"}],
    },
    "alpaca": {"instruction": "i", "input": None, "output": "o"},
    "alpaca with its usual text": {"instruction": "i", "output": "o", "text": "t"},
    "text": {"text": "t"},
    "big number": {"text": "t", "n": 10**40},
}


@pytest.mark.parametrize("name", GOOD_ROWS)
def test_good_row(name):
    assert report_of(GOOD_ROWS[name])["error"] is None


BAD_ROWS = {
    "list": ([1], "not_an_object", None),
    "text": ("x", "not_an_object", None),
    "no keys": ({}, "unknown_format", None),
    "messages an object": ({"messages": {}}, "messages_not_list", "messages"),
    "thoughts a number": (
        {
            "messages": [
                {"role": "user", "content": "q"},
                {"role": "assistant", "content": "a"} | {"reasoning_content": 5},
            ]
        },
        "content_not_text",
        "messages[1].reasoning_content",
    ),
    "message a text": ({"messages": ["x"]}, "not_an_object", "messages[0]"),
    "no role": ({"messages": [{"content": "x"}]}, "unknown_role", "messages[0].role"),
    "role a list": (
        {"messages": [{"role": [], "content": "x"}]},
        "unknown_role",
        "messages[0].role",
    ),
    "role model": (chat(USER, ("model", "x")), "unknown_role", "messages[1].role"),
    "late developer": (chat(USER, ("developer", "x"), ANSWER), "role_order", "messages[1]"),
    "two systems": (
        chat(("system", "a"), ("system", "b"), USER, ANSWER),
        "role_order",
        "messages[1]",
    ),
    "tool first": (chat(("tool", "x"), USER, ANSWER), "role_order", "messages[0]"),
    "tool after user": (chat(USER, ("tool", "x"), ANSWER), "role_order", "messages[1]"),
    "tool without call": (chat(USER, ANSWER, ("tool", "x"), ANSWER), "role_order", "messages[2]"),
    "content a number": (chat(USER, ("assistant", 7)), "content_not_text", "messages[1].content"),
    "content no parts": (chat(USER, ("assistant", [])), "empty_content", "messages[1].content"),
    "part a text": (chat(USER, ("assistant", ["x"])), "content_not_text", "messages[1].content[0]"),
    "part without text": (
        chat(USER, ("assistant", [{"type": "text"}])),
        "content_not_text",
        "messages[1].content[0]",
    ),
    "blank user": (chat(("user", " \n"), ANSWER), "empty_content", "messages[0].content"),
    "null tool": (
        {**with_call([CALL]), "messages": [*with_call([CALL])["messages"][:2], {"role": "tool"}]},
        "empty_content",
        "messages[2].content",
    ),
    "calls an object": (with_call({"a": 1}), "bad_tool_call", "messages[1].tool_calls"),
    "call a text": (with_call(["x"]), "bad_tool_call", "messages[1].tool_calls[0]"),
    "call without a name": (
        with_call([{"function": {"arguments": {}}}]),
        "bad_tool_call",
        "messages[1].tool_calls[0].function.name",
    ),
    "arguments a list": (
        with_call([{"function": {"name": "f", "arguments": "[1]"}}]),
        "bad_tool_call",
        "messages[1].tool_calls[0].function.arguments",
    ),
    "arguments with a doubled key": (
        with_call([{"function": {"name": "f", "arguments": '{"a"\n:1,"a":2}'}}]),
        "bad_tool_call",
        "messages[1].tool_calls[0].function.arguments",
    ),
    "tools an object": (chat(USER, ANSWER, tools={}), "bad_tool_call", "tools"),
    "tools not JSON": (chat(USER, ANSWER, tools="{"), "bad_tool_call", "tools"),
    "only a completion": ({"completion": "c"}, "empty_messages", "prompt"),
    "empty completion": ({"prompt": "p", "completion": ""}, "empty_content", "completion"),
    "completion a number": ({"prompt": "p", "completion": 1}, "content_not_text", "completion"),
    "completion from the user": (
        {"prompt": "p", "completion": [{"role": "user", "content": "x"}]},
        "no_completion",
        "completion",
    ),
    "conversations a text": ({"conversations": "x"}, "messages_not_list", "conversations"),
    "turn a text": ({"conversations": ["x"]}, "not_an_object", "conversations[0]"),
    "turn of a bot": (
        {"conversations": [{"from": "bot", "value": "x"}]},
        "unknown_role",
        "conversations[0].from",
    ),
    "turn without a value": (
        {"conversations": [{"from": "human"}]},
        "content_not_text",
        "conversations[0].value",
    ),
    "no output": ({"instruction": "i"}, "no_completion", "output"),
    "input a list": (
        {"instruction": "i", "input": [1], "output": "o"},
        "content_not_text",
        "input",
    ),
    "text a number": ({"text": 1}, "content_not_text", "text"),
    "blank text": ({"text": "\u2003"}, "empty_content", "text"),
    "too deep": (chat(USER, ANSWER, meta=json.loads("[" * 64 + "]" * 64)), "too_deep", None),
    "far too deep": (b'{"text": "x", "a": ' + b"[" * 5000 + b"]" * 5000 + b"}", "too_deep", None),
    "without end": (b"{" * 100 + b"[" * 100_000, "line_too_long", None),
    "overflow": (b'{"text": "x", "n": 1e400}', "non_standard_number", None),
    "endless digits": (b'{"text": "x", "n": ' + b"9" * 5000 + b"}", "non_standard_number", None),
    "doubled key": (b'{"text": "x", "text": "y"}', "duplicate_key", None),
    "doubled key, spaced": (b'{"text" : "x", "text"\t:"y"}', "duplicate_key", None),
    "doubled key, escaped": (b'{"text": "x", "te\\u0078t": "y"}', "duplicate_key", None),
    "doubled inner key": (b'{"text": "x", "m": [{"a": {"b": 1, "b": 1}}]}', "duplicate_key", None),
    "doubled key, quotes hidden": (
        b'{"text": "\\u0022\\u0022", "n": 1, "n": 1}',
        "duplicate_key",
        None,
    ),
    "NUL byte": (b'{"text": "a\0b"}', "invalid_json", None),
    "old Mac line ends": (b'{"text": "a"}\r{"text": "b"}', "invalid_json", None),
    "surrogate in a key": (b'{"text": "x", "\\ud800": 1}', "lone_surrogate", None),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_row(name):
    row, code, path = BAD_ROWS[name]

    report = report_of({"text": "good"}, row)

    assert report["error_count"] == 1
    error = report["errors"][0]
    assert (error["line"], error["code"], error["path"]) == (2, code, path)
    assert error["message"].endswith(".")


@pytest.mark.parametrize("name", [name for name in BAD_ROWS if name != "list"])
def test_bad_first_row_is_as_bad(name):
    row, code, _ = BAD_ROWS[name]

    assert report_of(row)["code"] == code


def test_formats_may_not_be_mixed():
    report = report_of({"text": "t"}, chat(USER, ANSWER), {"text": "t"})

    assert [(error["line"], error["code"]) for error in report["errors"]] == [(2, "mixed_formats")]


def test_first_hundred_errors_are_listed_and_all_are_counted():
    report = report_of(*[b"{" if number % 2 else b"[]" for number in range(1, 251)])

    assert len(report["errors"]) == 100
    assert report["error_count"] == 250
    assert report["codes"] == {"invalid_json": 125, "not_an_object": 125}
    assert report["error"].startswith("250 problems. The first: Line 1: ")


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (b"[1]\n", "json_array", "one object per line"),
        (b'\n [{"text": "x"}]', "json_array", "one object per line"),
        (b"[" + b"1," * 100_000, "json_array", "one object per line"),
        (b"a\tb\n1\t2\n", "wrong_format", "tab-separated"),
        (b"a;b\n1;2\n", "wrong_format", "semicolon"),
        (b'"prompt","completion"\n"x","y"\n', "wrong_format", "CSV"),
        (b"prompt,completion", "wrong_format", "CSV"),
        (b'{\0"\0', "not_utf8", "UTF-16"),
        (b"BZh91AY", "compressed_file", "bzip2"),
        (b"\x28\xb5\x2f\xfd....", "compressed_file", "zstd"),
        (b"\xef\xbb\xbf", "no_records", "no rows"),
    ],
)
def test_other_files_get_one_error(content, code, words):
    report = validate(io.BytesIO(content), max_row_bytes=MAX_ROW_BYTES).report

    assert (report["code"], report["error_count"]) == (code, 1)
    assert words in report["error"]


def test_prose_is_no_table():
    report = report_of(
        b"Well, that is a long sentence with commas, and it goes on for a good while yet.", b"x"
    )

    assert report["codes"] == {"invalid_json": 2}


@pytest.mark.parametrize(
    ("last", "is_cut"),
    [
        (b'{"text": "x', True),
        (b'{"text": ', True),
        (b'{"text": "x"', True),
        (b'{"text": tru', True),
        (b'{"text": "\xe8\xae', True),
        (b"{'text': 'x'}", False),
        (b'{"text": "x"},', False),
        (b'{"text": "x",}', False),
        (b'{"text": "x\xff y"}', False),
    ],
)
def test_cut_file_is_told_from_a_bad_row(last, is_cut):
    report = report_of({"text": "a"}, last)

    assert ("may be cut off" in report["error"]) == is_cut
    assert "may be cut off" not in report_of({"text": "a"}, last, {"text": "b"})["error"]


def test_byte_order_mark_in_the_middle_is_named():
    report = report_of({"text": "a"}, b"\xef\xbb\xbf" + b'{"text": "b"}')

    assert "byte order mark" in report["error"]


def test_lines_end_at_line_feeds_only():
    assert report_of('{"text": "a\u2028b\u0085c"}'.encode(), {"text": "d"})["num_records"] == 2


def warnings_of(*lines):
    return {w["code"]: (w["count"], w["line"]) for w in report_of(*lines)["warnings"]}


@pytest.mark.parametrize(
    "text",
    [
        "<|im_end|>",
        "<|turn>user",
        "a<turn|>",
        "<start_of_turn>",
        "<end_of_turn>",
        "<|eot_id|>",
        "<bos>",
        "[INST] x",
        '<|"|>',
    ],
)
@pytest.mark.parametrize("is_escaped", [False, True])
def test_chat_markup_is_warned_of_however_it_is_written(text, is_escaped):
    line = json.dumps(chat(("user", text), ANSWER)).encode()
    if is_escaped:
        line = line.replace(b"<", b"\\u003c").replace(b">", b"\\u003E").replace(b"[I", b"\\u005bI")

    warnings = warnings_of(chat(USER, ANSWER), line)

    assert warnings["control_tokens"] == (1, 2)


@pytest.mark.parametrize(
    "text", ["a < b | c > d", "<div>|</div>", "|x|", "\\u003c|im_end|>", "[x]"]
)
def test_ordinary_signs_are_no_markup(text):
    assert "control_tokens" not in warnings_of(chat(("user", text), ANSWER))


def test_duplicates_and_nul_are_counted_with_their_first_line():
    row = chat(("user", "a\0"), ANSWER)

    warnings = warnings_of(chat(USER, ANSWER), row, row, row)

    assert warnings["duplicate_rows"] == (2, 3)
    assert warnings["nul"] == (3, 2)


def test_duplicates_are_looked_for_up_to_a_number_that_is_told(monkeypatch):
    monkeypatch.setattr(validator_module, "MAX_COMPARED", 3)
    rows = [{"text": str(number)} for number in (1, 2, 3, 1, 2)]

    report = report_of(*rows)

    assert report["rows_compared"] == 3
    assert "duplicate_rows" not in {w["code"] for w in report["warnings"]}


def test_few_rows_are_fewer_than_ten():
    rows = [{"text": str(number)} for number in range(10)]

    assert warnings_of(*rows[:9]) == {"few_rows": (9, None)}
    assert warnings_of(*rows) == {}


@pytest.mark.parametrize(
    "messages",
    [
        [USER, USER, ANSWER],
        [ANSWER, USER, ANSWER],
        [USER, ANSWER, ANSWER],
        [("system", "s"), ANSWER],
    ],
)
def test_turns_that_do_not_alternate_are_warned_of(messages):
    report = report_of(chat(USER, ANSWER), chat(*messages))

    assert (report["error"], report["role_order_line"]) == (None, 2)


def test_line_at_the_limit_is_taken_and_one_byte_more_is_not():
    line = b'{"text": "x"}'

    def errors(limit):
        return validate(io.BytesIO(line + b"\n"), max_row_bytes=limit).report["error_count"]

    assert (errors(len(line)), errors(len(line) - 1)) == (0, 1)


def test_memory_does_not_grow_with_a_line_that_is_too_long():
    class Endless(io.RawIOBase):
        left = 60

        def read(self, size=-1):
            self.left -= 1
            return b"x" * size if self.left > 0 else b""

    tracemalloc.start()
    report = validate(Endless(), max_row_bytes=MAX_ROW_BYTES).report
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert report["code"] == "line_too_long"
    assert peak < 8 * 2**20


def test_errors_after_an_over_long_line_have_the_right_number():
    report = report_of({"text": "a"}, b"x" * 3_000_000, b"", b"{", {"text": "b"})

    assert [(error["line"], error["code"]) for error in report["errors"]] == [
        (2, "line_too_long"),
        (4, "invalid_json"),
    ]
    assert report["num_records"] == 2


def test_progress_is_told():
    told = []

    validate(io.BytesIO(b'{"text": "x"}\n' * 200_000), max_row_bytes=100, progress=told.append)

    assert told[-1] == 14 * 200_000
    assert told == sorted(told)
