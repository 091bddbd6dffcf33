from __future__ import annotations

import json
import os

import pytest

from gligabao.errors import NotFound
from training.contract import MAX_BATCH
from training.providers import local_folder


@pytest.fixture
def events(tmp_path):
    return tmp_path / "events.jsonl"


def lines(*reports):
    return b"".join(json.dumps(report).encode() + b"\n" for report in reports)


def read_all(path):
    """Page after page, as a follower reads."""
    cursor, reports, malformed = "", [], 0
    while (page := local_folder.read_events(path, cursor)).cursor != cursor:
        cursor = page.cursor
        reports += page.reports
        malformed += page.malformed
    return reports, malformed


# --- Reports ---------------------------------------------------------------------------------


def test_line_that_is_still_being_written_is_read_when_it_is_complete(events):
    events.write_bytes(lines({"seq": 0}) + b'{"seq": ')
    page = local_folder.read_events(events, "")
    assert (page.reports, page.malformed) == ([{"seq": 0}], 0)

    with events.open("ab") as file:
        file.write(b"1}\n")

    again = local_folder.read_events(events, page.cursor)
    assert again.reports == [{"seq": 1}]
    assert local_folder.read_events(events, again.cursor).cursor == again.cursor


def test_lines_that_are_no_reports_are_counted_and_passed_over(events):
    bad = [b"nonsense", b"", b"[1, 2", b"\xff\xfe", b'{"a": 1, "a": 2}', b"[" * 5000]
    events.write_bytes(lines({"seq": 0}) + b"\n".join(bad) + b"\n" + lines({"seq": 1}))

    page = local_folder.read_events(events, "")

    assert page.reports == [{"seq": 0}, {"seq": 1}]
    assert page.malformed == len(bad)


def test_nan_stands_for_itself_until_the_report_is_parsed(events):
    events.write_bytes(b'{"loss": NaN}\n')

    assert str(local_folder.read_events(events, "").reports) == "[{'loss': nan}]"


def test_pages_hold_no_more_than_one_batch_and_lose_nothing(events):
    reports = [{"seq": number} for number in range(2 * MAX_BATCH + 7)]
    events.write_bytes(lines(*reports))

    assert len(local_folder.read_events(events, "").reports) == MAX_BATCH
    assert read_all(events) == (reports, 0)


def test_line_that_no_page_can_hold_is_passed_over(events):
    huge = {"text": "x" * (local_folder.MAX_PAGE_BYTES * 2)}
    events.write_bytes(lines({"seq": 0}, huge, {"seq": 1}))

    assert read_all(events) == ([{"seq": 0}, {"seq": 1}], 1)


@pytest.mark.parametrize("cursor", ["1000000", "3", "nonsense", "-1", "²"])
def test_cursor_that_is_not_of_this_file_reads_it_from_the_beginning(events, cursor):
    events.write_bytes(lines({"seq": 0}, {"seq": 1}))

    assert local_folder.read_events(events, cursor).reports == [{"seq": 0}, {"seq": 1}]


# --- Printed lines ---------------------------------------------------------------------------


def shown(path, *, limit=100, secrets=()):
    return [line.text for line in local_folder.last_lines(path, limit=limit, secrets=secrets)]


def test_last_lines_of_a_huge_log_are_read_from_its_end(tmp_path):
    log = tmp_path / "trainer.log"
    with log.open("wb") as file:
        file.truncate(2**33)  # a hole of 8 GiB: reading it whole would not end in time
        file.seek(0, os.SEEK_END)
        file.write(b"\nbefore\nlast\n")

    assert shown(log, limit=2) == ["before", "last"]


def test_nothing_in_a_log_can_steer_a_terminal(tmp_path):
    log = tmp_path / "trainer.log"
    log.write_bytes(
        b"\x1b[31mred\x1b[0m\n10%\r55%\r100%\r\n\x1b]0;title\x07bell\x07\n\xffbytes\n"
        + "left‮right\n".encode()
    )

    assert shown(log) == ["red", "100%", "bell�", "�bytes", "left�right"]


def test_secret_split_by_colours_is_still_recognised(tmp_path):
    log = tmp_path / "trainer.log"
    log.write_text("token the-job-\x1b[1mtoken\n")

    assert shown(log, secrets=("the-job-token",)) == ["token [removed]"]


# --- Finished artifacts ----------------------------------------------------------------------


@pytest.fixture
def output(tmp_path):
    root = tmp_path / "output"
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    (root / "sub" / "b.txt").write_text("bb")
    (tmp_path / "outside.txt").write_text("secret")
    (root / "link.txt").symlink_to(tmp_path / "outside.txt")
    (root / "folder").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    return root


def test_only_regular_files_are_listed(output):
    files = [(file.path, file.size_bytes) for file in local_folder.list_files(output)]

    assert files == [("a.txt", 1), ("sub/b.txt", 2)]


def test_files_are_opened_by_their_path(output):
    with local_folder.open_file(output, "sub/b.txt") as file:
        assert file.read() == b"bb"


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "missing.txt",
        "sub",
        "../outside.txt",
        "sub/../../outside.txt",
        "/etc/passwd",
        "link.txt",
        "folder/outside.txt",
        "pipe",
        "a.txt\0",
        "a.txt/b",
    ],
)
def test_nothing_else_can_be_opened(output, path):
    with pytest.raises(NotFound):
        local_folder.open_file(output, path)
