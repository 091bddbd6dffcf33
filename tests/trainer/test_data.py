"""Reading a dataset file: its digest, its odd lines, and what is too long."""

from tests.trainer.jobs import CASES, chat_rows


def test_d13_examples_do_not_depend_on_the_order_of_rows(probe):
    one = probe("load", path=str(CASES / "D13-a.jsonl"))
    other = probe("load", path=str(CASES / "D13-b.jsonl"))

    assert one["num_examples"] == other["num_examples"] == 4
    assert sorted(one["examples"]) == sorted(other["examples"])


def test_d21_rows_that_are_too_long_are_dropped_and_counted(probe):
    report = probe("load", path=str(CASES / "D21.jsonl"), max_length=512)

    assert report["message"] == "1 of 3 examples dropped: longer than 512 tokens"
    assert (report["num_records"], report["num_examples"], report["num_dropped"]) == (3, 2, 1)
    assert 0 < report["num_trained_tokens"] < report["num_tokens"]
    assert report["sample"] == "Shelf seven, left side.<turn|>\n"


def test_d14_text_parts_are_joined(probe):
    report = probe("load", path=str(CASES / "D14.jsonl"))

    assert report["num_examples"] == 2
    assert report["sample"] == "Green.<turn|>\n"


def test_d01_d04_marks_and_line_ends_of_windows_do_no_harm(probe):
    assert probe("load", path=str(CASES / "D01.jsonl"))["num_records"] == 3
    assert probe("load", path=str(CASES / "D04.jsonl"))["num_records"] == 3


def test_other_bytes_than_the_job_was_made_for_are_refused(probe, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(chat_rows(("A?", "B.")))

    failure = probe("load", path=str(path), sha256="0" * 64)

    assert failure["reason"] == "dataset_invalid"
    assert "another digest" in failure["message"]


def test_bad_rows_are_named_by_their_line(probe, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(chat_rows(("A?", "B.")) + "\n" + '{"messages": "x"}\n')

    failure = probe("load", path=str(path))

    assert failure["reason"] == "dataset_invalid"
    assert failure["message"].startswith("Line 3 of the dataset: ")


def test_files_without_rows_are_refused(probe):
    failure = probe("load", path=str(CASES / "D29-blank.jsonl"))

    assert failure == {"reason": "dataset_invalid", "message": "The dataset has no rows."}


def test_files_that_are_not_there_are_refused(probe, tmp_path):
    failure = probe("load", path=str(tmp_path / "gone.jsonl"), sha256="0" * 64)

    assert failure["reason"] == "dataset_invalid"


def test_rows_without_anything_to_learn_are_refused(probe, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "The glue is dry."}\n{"text": ""}\n')

    failure = probe("load", path=str(path), row_format="text")

    assert failure["message"] == "Line 2 of the dataset is empty."
