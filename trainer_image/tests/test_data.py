"""Reading a dataset file: its digest, its odd lines, what is too long, and what is counted."""

import pytest
from chat_templates import tokenizer_of
from in_process import CASES, chat_row, load_file, write_rows

from trainer.errors import JobFailed


@pytest.fixture
def load(tiny_tokenizer):
    """The `dataset` report of a file, or of rows."""

    def load(path, **changed):
        return load_file(path, tiny_tokenizer, **changed).report()

    return load


def failure_of(load, path, **changed) -> str:
    with pytest.raises(JobFailed) as caught:
        load(path, **changed)
    assert caught.value.reason == "dataset_invalid"
    return caught.value.message


def test_d13_examples_do_not_depend_on_the_order_of_rows(tiny_tokenizer):
    one, other = (
        load_file(CASES / name, tiny_tokenizer).encoded for name in ("D13-a.jsonl", "D13-b.jsonl")
    )

    assert len(one) == len(other) == 4
    assert sorted(e.input_ids for e in one) == sorted(e.input_ids for e in other)


def test_d21_rows_that_are_too_long_are_dropped_and_counted(tiny_tokenizer):
    examples = load_file(CASES / "D21.jsonl", tiny_tokenizer, max_length=512)

    report = examples.report()
    message = "1 of 3 examples dropped: longer than 512 tokens"
    assert report["message"] == message
    assert examples.warnings == [("examples_dropped", message)]
    assert (report["num_records"], report["num_examples"], report["num_dropped"]) == (3, 2, 1)
    assert report["num_truncated"] == report["num_without_label"] == report["num_held_out"] == 0
    assert 0 < report["num_trained_tokens"] < report["num_tokens"]
    assert report["length_p50"] <= report["longest"] <= 512 < report["length_p95"]
    assert report["length_p95"] == report["length_max"]
    assert report["sample"] == "Shelf seven, left side.<turn|>"


def test_d21_job_without_any_row_that_fits_fails(load):
    assert failure_of(load, CASES / "D21-all.jsonl", max_length=512).startswith("All 4 examples")


def test_d14_text_parts_are_joined(load):
    report = load(CASES / "D14.jsonl")

    assert report["num_examples"] == 2
    assert report["sample"] == "Green.<turn|>"


def test_d16_turns_of_other_names_are_mapped(load):
    assert load(CASES / "D16.jsonl", row_format="sharegpt")["num_examples"] == 2


def test_d01_d04_marks_and_line_ends_of_windows_do_no_harm(load):
    assert load(CASES / "D01.jsonl")["num_records"] == 3
    assert load(CASES / "D04.jsonl")["num_records"] == 3


def test_other_bytes_than_the_job_was_made_for_are_refused(load, tmp_path):
    path = write_rows(tmp_path / "rows.jsonl", [chat_row("A?", "B.")])

    assert "another digest" in failure_of(load, path, sha256="0" * 64)


def test_files_that_are_not_there_are_refused(load, tmp_path):
    assert "cannot be read" in failure_of(load, tmp_path / "gone.jsonl")


def test_first_row_tells_the_format_and_all_must_have_it(load, tmp_path):
    path = write_rows(tmp_path / "rows.jsonl", [chat_row("A?", "B."), {"text": "C"}])

    assert failure_of(load, path, row_format="").startswith("Line 2 of the dataset: messages is")


def test_format_of_the_job_holds_for_every_row(load):
    message = failure_of(load, CASES / "D16.jsonl", row_format="chat")

    assert message == "Line 1 of the dataset: messages is not a list with entries."


def test_rows_without_an_answer_are_left_out_and_counted(tiny_tokenizer, tmp_path):
    opener = {"messages": [{"role": "assistant", "content": "I start."}]}
    path = write_rows(tmp_path / "rows.jsonl", [chat_row("A?", "B."), opener])

    examples = load_file(path, tiny_tokenizer)

    assert len(examples.encoded) == examples.num_without_label == 1
    assert examples.num_dropped == 0
    assert examples.warnings == [
        ("examples_without_label", "1 of 2 examples left out: they hold no answer to learn")
    ]


def test_job_without_any_answer_fails(load, tmp_path):
    opener = {"messages": [{"role": "assistant", "content": "I start."}]}
    path = write_rows(tmp_path / "rows.jsonl", [opener])

    assert failure_of(load, path) == "No row of the dataset holds an answer to learn."


def test_rows_with_control_tokens_and_lost_thoughts_are_counted(tiny_tokenizer, tmp_path):
    thinking = chat_row("A?", "B.")
    thinking["messages"][1]["reasoning_content"] = "Hm."
    rows = [chat_row("What is <turn|>?", "A token."), thinking, chat_row("A?", "C.")]

    examples = load_file(write_rows(tmp_path / "rows.jsonl", rows), tiny_tokenizer)

    assert examples.report()["num_control_tokens"] == 1
    assert [code for code, _ in examples.warnings] == ["thoughts_left_out"]


def test_each_answer_is_an_example_where_the_template_changes_earlier_turns(tmp_path):
    row = {"messages": [*chat_row("A?", "B.")["messages"], *chat_row("C?", "D.")["messages"]]}

    path = write_rows(tmp_path / "rows.jsonl", [row])

    report = load_file(path, tokenizer_of("qwen3_5_think")).report()
    assert (report["num_records"], report["num_examples"]) == (1, 2)


def test_stop_is_looked_for_between_rows(load, tmp_path):
    def check():
        raise KeyboardInterrupt

    path = write_rows(tmp_path / "rows.jsonl", [chat_row("A?", "B.")])

    with pytest.raises(KeyboardInterrupt):
        load(path, check=check)


def held_out(tokenizer, path, **changed):
    examples = load_file(path, tokenizer, **{"eval_fraction": 0.25} | changed)
    trained, held_out = (
        [tuple(one.input_ids) for one in part] for part in (examples.encoded, examples.held_out)
    )
    assert set(trained).isdisjoint(held_out)
    assert len(trained) + len(held_out) == len(examples.lengths)
    assert len(held_out) == examples.report()["num_held_out"]
    return held_out


def test_held_out_rows_are_the_same_for_the_same_seed_in_any_order(tiny_tokenizer, tmp_path):
    rows = [chat_row(f"What is {n}?", f"It is {n}.") for n in range(20)]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    turned = write_rows(tmp_path / "turned.jsonl", rows[::-1])

    first = held_out(tiny_tokenizer, path, seed=3)

    assert len(first) == 5
    assert held_out(tiny_tokenizer, path, seed=3) == first
    assert sorted(held_out(tiny_tokenizer, turned, seed=3)) == sorted(first)
    assert held_out(tiny_tokenizer, path, seed=4) != first


@pytest.mark.parametrize("seed", range(6))
def test_equal_rows_are_never_on_both_sides(tiny_tokenizer, tmp_path, seed):
    rows = [chat_row("A?", "B.")] * 9 + [chat_row("C?", "D.")] * 2

    path = write_rows(tmp_path / "rows.jsonl", rows)

    assert len(held_out(tiny_tokenizer, path, seed=seed)) == 2


@pytest.mark.parametrize("fraction", [0.001, 0.999])
def test_one_row_at_least_is_held_out_and_one_is_trained_on(tiny_tokenizer, tmp_path, fraction):
    rows = [chat_row(f"What is {n}?", "That.") for n in range(3)]
    path = write_rows(tmp_path / "rows.jsonl", rows)

    count = len(held_out(tiny_tokenizer, path, eval_fraction=fraction))

    assert count == (1 if fraction < 0.5 else 2)


@pytest.mark.parametrize(("num_rows", "words"), [(1, "only one row"), (3, "are the same")])
def test_nothing_can_be_held_out_of_rows_that_are_all_the_same(load, tmp_path, num_rows, words):
    path = write_rows(tmp_path / "rows.jsonl", [chat_row("A?", "B.")] * num_rows)

    assert words in failure_of(load, path, eval_fraction=0.5)
