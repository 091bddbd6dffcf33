"""With the template of the tiny model: what carries loss, and what ends an answer."""

import json

import pytest
from chat_templates import trained_spans
from in_process import CASES, chat_row
from transformers import AutoTokenizer

from trainer.control_tokens import FIRST_MARK, ControlTokens
from trainer.generation import encode_prompt
from trainer.rendering import IGNORED, ChatEncoder, TemplateProblem
from trainer.rows import normalise_row

MESSAGES = chat_row("Which shelf holds the copper bolts?", "Shelf seven, left side.")["messages"]
TURNS = [
    {"role": "system", "content": "Be brief."},
    *chat_row("Door open?", "Yes.")["messages"],
    *chat_row("Lamp on?", "No.")["messages"],
]


@pytest.fixture
def encoder(tiny_tokenizer):
    return ChatEncoder(tiny_tokenizer)


@pytest.fixture
def encoder_with(tiny_dir):
    """Makes an encoder with another chat template."""

    def make(template):
        tokenizer = AutoTokenizer.from_pretrained(tiny_dir)
        tokenizer.chat_template = template
        return ChatEncoder(tokenizer)

    return make


def test_e01_end_of_turn_carries_loss_and_the_prompt_does_not(encoder, tiny_tokenizer):
    row = json.loads((CASES / "E01.json").read_text())["row"]

    (example,) = encoder.encode_row(normalise_row(row, "chat").messages).examples

    assert trained_spans(tiny_tokenizer, example) == ["Shelf seven, left side.<turn|>"]
    prompt = encoder.prompt_ids(row["messages"][:1])
    assert example.input_ids[: len(prompt)] == prompt
    assert set(example.labels[: len(prompt)]) == {IGNORED}
    assert IGNORED not in example.labels[len(prompt) : -1]
    assert tiny_tokenizer.decode(example.input_ids[-1:]) == "\n"  # what the template adds
    assert example.labels[-1] == IGNORED


def test_every_assistant_turn_carries_loss(encoder, tiny_tokenizer):
    (example,) = encoder.encode_row(TURNS).examples

    assert trained_spans(tiny_tokenizer, example) == ["Yes.<turn|>", "No.<turn|>"]


def test_e03_one_function_renders_for_training_and_inference(encoder, tiny_tokenizer):
    asked = json.loads((CASES / "E03.json").read_text())["messages"]
    trained = encoder.encode_row([*asked, {"role": "assistant", "content": "Yes."}])

    prompt = encode_prompt(encoder, asked)

    assert tiny_tokenizer.decode(prompt) == (
        "<bos><|turn>system\nBe brief.<turn|>\n<|turn>user\nDoor open?<turn|>\n<|turn>model\n"
    )
    assert trained.examples[0].input_ids[: len(prompt)] == prompt


def test_answers_that_begin_with_a_line_break_keep_the_tokens_of_the_prompt(
    encoder, tiny_tokenizer
):
    messages = [MESSAGES[0], {"role": "assistant", "content": "\n\n Yes."}]

    (example,) = encoder.encode_row(messages).examples

    prompt = encoder.prompt_ids(messages[:1])
    assert example.input_ids[: len(prompt)] == prompt
    assert trained_spans(tiny_tokenizer, example) == ["\n\n Yes.<turn|>"]


def test_turns_that_nobody_asked_for_carry_no_loss(encoder, tiny_tokenizer):
    opener = {"role": "assistant", "content": "I start."}

    (example,) = encoder.encode_row([opener, *TURNS[1:3]]).examples

    assert "I start." in tiny_tokenizer.decode(example.input_ids)
    assert trained_spans(tiny_tokenizer, example) == ["Yes.<turn|>"]


def test_plain_text_trains_on_everything_and_the_end_of_text(encoder, tiny_tokenizer):
    (example,) = encoder.encode_text("The glue is dry.").examples

    assert example.labels == [IGNORED, *example.input_ids[1:]]
    assert trained_spans(tiny_tokenizer, example)[0].endswith("glue is dry.<eos>")


def test_plain_text_with_its_own_markup_keeps_it_and_gets_nothing_twice(encoder, tiny_tokenizer):
    row = encoder.encode_text("<bos><|turn>user\nHi<turn|>\n<eos>")

    (example,) = row.examples
    assert tiny_tokenizer.convert_tokens_to_ids(["<bos>", "<|turn>"]) == example.input_ids[:2]
    assert example.input_ids.count(tiny_tokenizer.eos_token_id) == 1
    assert row.has_control_tokens


def test_d12_tool_calls_render_in_one_style(encoder, tiny_tokenizer):
    rows = [json.loads(line) for line in (CASES / "D12.jsonl").read_text().splitlines()]

    encoded = [encoder.encode_row(normalise_row(row, "chat").messages) for row in rows]

    spans = [trained_spans(tiny_tokenizer, row.examples[0])[0] for row in encoded]
    assert spans[0] == '<|tool_call>call:find_bin{"part": "washer", "qty": 4}<tool_call|><turn|>'
    assert all(span.startswith('<|tool_call>call:find_bin{"part": ') for span in spans)
    assert not any("\\" in span or "null" in span for span in spans)


def test_answers_end_at_end_of_turn_and_end_of_text(encoder, tiny_tokenizer):
    assert {tiny_tokenizer.decode([i]) for i in encoder.stop_ids} == {"<eos>", "<turn|>"}


def test_added_words_that_no_template_writes_stay_words(tiny_dir):
    tokenizer = AutoTokenizer.from_pretrained(tiny_dir)
    tokenizer.add_tokens(["copper bolts", "\n\n"])

    row = ChatEncoder(tokenizer).encode_row(chat_row("A copper bolts\n\nB", "<eos>")["messages"])

    tokens = tokenizer.convert_ids_to_tokens(row.examples[0].input_ids)
    assert {"copper bolts", "\n\n"} <= {*tokens}
    assert "<eos>" not in tokens
    assert row.has_control_tokens


def test_marks_are_letters_that_the_messages_do_not_have(tiny_tokenizer):
    control = ControlTokens(tiny_tokenizer)
    text = chr(FIRST_MARK) + "<turn|> " + chr(FIRST_MARK + 1)

    fenced, mark = control.fence({"<eos>": [text, 1, None]})

    assert mark == chr(FIRST_MARK + 2)
    assert tiny_tokenizer.decode(control.encode(fenced.pop(f"<{mark}eos>")[0], mark)) == text
    assert control.fence(["no such token"]) == (["no such token"], "")


def test_templates_that_change_earlier_turns_give_an_example_for_each_answer(
    encoder_with, tiny_tokenizer
):
    encoder = encoder_with(
        "{% for m in messages %}{% if m.role == 'assistant' %}{{ '>' if loop.last else '+' }}"
        "{% endif %}{{ m.content }}<turn|>{% endfor %}{% if add_generation_prompt %}>{% endif %}"
    )
    question, answer = TURNS[1:3]

    row = encoder.encode_row([question, answer, question, answer])

    texts = [tiny_tokenizer.decode(example.input_ids) for example in row.examples]
    first = "Door open?<turn|>>Yes.<turn|>"
    assert texts == [first, first.replace(">Yes", "+Yes") + first]
    assert {*trained_spans(tiny_tokenizer, row.examples[1])} == {"Yes.<turn|>"}


def test_templates_that_refuse_messages_give_a_sentence(encoder_with):
    encoder = encoder_with("{{ raise_exception('no system turns') }}")

    with pytest.raises(TemplateProblem, match="no system turns"):
        encoder.encode_row(TURNS)
