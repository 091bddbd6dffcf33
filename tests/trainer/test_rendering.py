"""What carries loss, and that a prompt has the same tokens in training and in inference."""

import json

from tests.trainer.jobs import CASES
from trainer.rendering import IGNORED

ROW = {
    "messages": [
        {"role": "user", "content": "Which shelf holds the copper bolts?"},
        {"role": "assistant", "content": "Shelf seven, left side."},
    ]
}
TURNS = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Door open?"},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "Lamp on?"},
        {"role": "assistant", "content": "No."},
    ]
}


def test_e01_end_of_turn_carries_loss_and_the_prompt_does_not(probe):
    encoded = probe("encode", row=ROW)

    assert encoded["spans"] == ["Shelf seven, left side.<turn|>\n"]
    prompt = probe("prompt_ids", messages=ROW["messages"][:1])
    assert encoded["input_ids"][: len(prompt)] == prompt
    assert set(encoded["labels"][: len(prompt)]) == {IGNORED}
    assert IGNORED not in encoded["labels"][len(prompt) :]


def test_every_assistant_turn_carries_loss(probe):
    encoded = probe("encode", row=TURNS)

    assert encoded["spans"] == ["Yes.<turn|>\n", "No.<turn|>\n"]


def test_e03_prompts_of_training_and_inference_have_the_same_tokens(probe):
    encoded = probe("encode", row=TURNS)["input_ids"]

    for end in (2, 4):
        prompt = probe("prompt_ids", messages=TURNS["messages"][:end])
        assert encoded[: len(prompt)] == prompt


def test_e03_prompt_is_the_text_before_the_answer(probe):
    full = probe("render", messages=TURNS["messages"])
    prompt = probe("render", messages=TURNS["messages"][:2], add_generation_prompt=True)

    assert full.startswith(prompt + "Yes.")
    assert prompt == (
        "<bos><|turn>system\nBe brief.<turn|>\n<|turn>user\nDoor open?<turn|>\n<|turn>model\n"
    )


def test_answers_that_begin_with_a_line_break_keep_the_tokens_of_the_prompt(probe):
    row = {"messages": [ROW["messages"][0], {"role": "assistant", "content": "\n\n Yes."}]}

    encoded = probe("encode", row=row)

    prompt = probe("prompt_ids", messages=row["messages"][:1])
    assert encoded["input_ids"][: len(prompt)] == prompt
    assert encoded["spans"] == ["\n\n Yes.<turn|>\n"]


def test_plain_text_trains_on_everything_and_the_end_of_text(probe):
    encoded = probe("encode", row={"text": "The glue is dry."}, row_format="text")

    assert encoded["labels"][0] == IGNORED
    assert encoded["labels"][1:] == encoded["input_ids"][1:]
    assert encoded["spans"][0].endswith("glue is dry.<eos>")


def test_d12_tool_calls_render_in_one_style(probe):
    rows = [json.loads(line) for line in (CASES / "D12.jsonl").read_text().splitlines()]

    spans = [probe("encode", row=row)["spans"][0] for row in rows]

    assert spans[0] == (
        '<|tool_call>call:find_bin{"part": "washer", "qty": 4}<tool_call|><turn|>\n'
    )
    assert all(span.startswith('<|tool_call>call:find_bin{"part": ') for span in spans)
    assert not any("\\" in span or "null" in span for span in spans)


def test_answers_end_at_end_of_turn_and_end_of_text(probe):
    assert probe("end_of_turn") == ["<eos>", "<turn|>"]


def test_templates_that_change_earlier_turns_are_refused(probe):
    template = "{% for m in messages %}{{ '[' if loop.last else '(' }}{{ m.content }}{% endfor %}"

    answer = probe("encode_with_template", template=template, messages=TURNS["messages"])

    assert "renders a turn differently" in answer


def test_templates_that_refuse_messages_give_a_sentence(probe):
    template = "{{ raise_exception('no system turns') }}"

    answer = probe("encode_with_template", template=template, messages=TURNS["messages"])

    assert "no system turns" in answer
