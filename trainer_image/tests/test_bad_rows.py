"""What the trainer says of files that the control plane should have refused, and of odd ones.

None of them ends as a success that learnt nothing: a bad row fails the job with its line, and
whatever is trained on has labels.
"""

import json
from pathlib import Path

import pytest
from chat_templates import tokenizer_of
from in_process import CASES, ROWS, chat_row, fine_tune, load_file, write_rows

from trainer.errors import JobFailed

CONTRACT = Path(__file__).resolve().parents[1] / "contract"
FILES = [json.loads(line) for line in (CONTRACT / "bad_rows.v1.jsonl").read_text().splitlines()]


def failure_of(path, tokenizer, **changed) -> str:
    with pytest.raises(JobFailed) as caught:
        load_file(path, tokenizer, **changed)
    assert caught.value.reason == "dataset_invalid"
    return caught.value.message


@pytest.mark.parametrize("file", FILES, ids=lambda file: file["name"])
def test_file_that_gets_through_fails_the_job_or_is_trained_on(file, tiny_tokenizer, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(bytes.fromhex(file["hex"]) if "hex" in file else file["text"].encode())

    if file["trainer"]:
        assert failure_of(path, tiny_tokenizer, row_format="").startswith(file["trainer"])
    else:
        examples = load_file(path, tiny_tokenizer, row_format="")
        assert examples.encoded
        assert all(example.num_labels > 1 for example in examples.encoded)
        assert examples.warnings == []


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("D12-badargs", "Line 1 of the dataset: arguments is not JSON"),
        ("D14-image", "Line 2 of the dataset: image_url parts are not supported"),
        ("D16-vertex", "Line 1 of the dataset: no known format has the fields contents"),
        ("D18", "Line 4 of the dataset: a system message may only come first"),
        ("D19", "Line 2 of the dataset: there is no assistant message"),
    ],
)
def test_cases_that_are_refused_at_upload_fail_here_too(case, words, tiny_tokenizer):
    assert failure_of(CASES / f"{case}.jsonl", tiny_tokenizer, row_format="").startswith(words)


SYSTEM = {"role": "system", "content": "Be brief."}
USER, ANSWER = ROWS[0]["messages"]


@pytest.mark.parametrize(
    ("template", "messages", "words"),
    [
        ("gemma", [SYSTEM, USER, ANSWER], "System role not supported"),
        ("gemma3", [USER, USER, ANSWER], "roles must alternate"),
        ("gemma3", [ANSWER, USER, ANSWER], "roles must alternate"),
        ("qwen3_5_think", [SYSTEM, ANSWER], "No user query found"),
    ],
)
def test_rows_that_only_some_templates_refuse_fail_the_job_by_line(
    template, messages, words, tmp_path
):
    path = write_rows(tmp_path / "rows.jsonl", [ROWS[1], {"messages": messages}])

    message = failure_of(path, tokenizer_of(template))

    assert message.startswith("Line 2 of the dataset: the chat template refuses the messages: ")
    assert words in message


@pytest.mark.parametrize("packing", [False, True])
def test_rows_that_are_too_long_leave_the_rest_with_a_loss(
    tiny_dir, tiny_tokenizer, tmp_path, packing
):
    rows = [*ROWS, chat_row("Which of these? " + "copper bolt, " * 200, "None.")]
    examples = load_file(write_rows(tmp_path / "rows.jsonl", rows), tiny_tokenizer, max_length=64)

    tuned = fine_tune(tiny_dir, tmp_path, examples=examples, packing=packing, max_length=64)

    assert examples.num_dropped == 1
    assert all(loss > 0 for loss in tuned.reports.losses().values())


@pytest.mark.parametrize("packing", [False, True])
def test_one_row_is_trained_on(tiny_dir, tmp_path, packing):
    tuned = fine_tune(tiny_dir, tmp_path, ROWS[:1], packing=packing, num_train_steps=3)

    losses = tuned.reports.losses()
    assert losses[3] < losses[1]
