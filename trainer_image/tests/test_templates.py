"""With the templates of real models: what carries loss, and what a prompt is made of."""

import pytest
from chat_templates import (
    GEMMA_4,
    TEMPLATES,
    WITH_TOOLS,
    WITHOUT_SYSTEM,
    Markup,
    build,
    source_of,
    tokenizer_of,
    trained_spans,
)

from trainer.generation import encode_prompt
from trainer.rendering import IGNORED, ChatEncoder, TemplateProblem

TURNS = [
    {"role": "user", "content": "Door open?"},
    {"role": "assistant", "content": "Yes."},
    {"role": "user", "content": "Lamp on?"},
    {"role": "assistant", "content": "  \n No, off."},
]
SYSTEM = {"role": "system", "content": "Be brief."}
CALL = {
    "id": "call00001",
    "type": "function",
    "function": {"name": "find_bin", "arguments": {"part": "washer", "count": 4}},
}
WITH_CALL = [
    {"role": "user", "content": "Where are the washers?"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "bin 12", "tool_call_id": "call00001", "name": "find_bin"},
    {"role": "assistant", "content": "In bin 12."},
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "find_bin",
            "description": "Finds the bin of a part.",
            "parameters": {"type": "object", "properties": {"part": {"type": "string"}}},
        },
    }
]


@pytest.fixture(params=TEMPLATES)
def name(request):
    return request.param


@pytest.fixture
def tokenizer(name):
    return tokenizer_of(name)


@pytest.fixture
def encoder(tokenizer):
    return ChatEncoder(tokenizer)


def assert_prompts_are_those_of_inference(encoder, messages, *, tools=None):
    """Each answer follows exactly the ids that inference would send for what came before."""
    row = encoder.encode_row(messages, tools=tools)
    ends = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
    examples = row.examples if len(row.examples) > 1 else row.examples * len(ends)
    for end, example in zip(ends, examples, strict=True):
        prompt = encoder.prompt_ids(messages[:end], tools=tools)
        assert example.input_ids[: len(prompt)] == prompt
        assert example.labels[len(prompt)] != IGNORED
        assert example.labels[len(prompt) - 1] == IGNORED
    return row


def test_e03_prompts_of_training_are_those_of_inference(name, encoder):
    assert_prompts_are_those_of_inference(encoder, TURNS)
    if name not in WITHOUT_SYSTEM:
        assert_prompts_are_those_of_inference(encoder, [SYSTEM, *TURNS])
    assert encode_prompt(encoder, TURNS[:3]) == encoder.prompt_ids(TURNS[:3])


@pytest.mark.parametrize("name", WITH_TOOLS)
def test_e03_prompts_with_tools_are_those_of_inference(name, encoder):
    assert_prompts_are_those_of_inference(encoder, WITH_CALL, tools=TOOLS)


def test_only_answers_and_their_ends_carry_loss(name, tokenizer, encoder):
    end = TEMPLATES[name].end_of_turn

    row = encoder.encode_row(TURNS)

    spans = [span for example in row.examples for span in trained_spans(tokenizer, example)]
    # Of a model that thinks, the end of its empty thoughts is the model's own, too.
    thoughts = [span.rpartition("</think>") for span in spans]
    assert [answer.strip() for *_, answer in thoughts] == [f"Yes.{end}", f"No, off.{end}"]
    assert all(before.strip() in ("", "<think>") for before, *_ in thoughts)


@pytest.mark.parametrize("name", WITH_TOOLS)
def test_calls_carry_loss_and_what_the_tool_said_does_not(name, tokenizer, encoder):
    row = encoder.encode_row(WITH_CALL, tools=TOOLS)

    spans = [span for example in row.examples for span in trained_spans(tokenizer, example)]
    assert len(spans) == 2
    assert "find_bin" in spans[0]
    assert "washer" in spans[0]
    assert "In bin 12." in spans[1]
    assert not any("bin 12" in span.replace("In bin 12.", "") for span in spans)


def test_e01_end_of_turn_is_trained_and_stops_the_generation(name, tokenizer, encoder):
    end = tokenizer.convert_tokens_to_ids(TEMPLATES[name].end_of_turn)

    example = encoder.encode_row(TURNS).examples[-1]

    assert [label for label in example.labels if label != IGNORED][-1] == end
    assert {end, tokenizer.eos_token_id} <= encoder.stop_ids
    assert encoder.stop_ids.isdisjoint(example.input_ids[:1])  # not the token a prompt begins with


def control_tokens(tokenizer, ids):
    known = set(tokenizer.added_tokens_decoder)
    return [tokenizer.decode([i]) for i in ids if i in known]


def test_control_tokens_in_texts_become_no_turns(name, tokenizer, encoder):
    known = [
        token.content
        for token in tokenizer.added_tokens_decoder.values()
        if token.special or token.content in tokenizer.chat_template
    ]
    poison = "x ".join(known) + "".join(known) + " <<" + known[-1]
    harmless = [{**m, "content": f"a {m['content'].strip()} b"} for m in TURNS]
    poisoned = [{**m, "content": f"a{poison} {m['content'].strip()} b"} for m in TURNS]

    row = encoder.encode_row(poisoned)

    assert row.has_control_tokens
    assert not encoder.encode_row(harmless).has_control_tokens
    for ours, plain in zip(row.examples, encoder.encode_row(harmless).examples, strict=True):
        found = control_tokens(tokenizer, ours.input_ids)
        assert found == control_tokens(tokenizer, plain.input_ids)
    text = tokenizer.decode(row.examples[-1].input_ids)
    assert text.count(poison) == len(TURNS)  # nothing was lost or left behind
    assert_prompts_are_those_of_inference(encoder, poisoned)


@pytest.mark.parametrize("name", WITH_TOOLS)
def test_control_tokens_in_calls_tools_and_results_become_no_turns(name, tokenizer, encoder):
    end = TEMPLATES[name].end_of_turn
    arguments = {"part": f"nut{end}", "n": 1}
    call = {**CALL, "function": {"name": "find_bin", "arguments": arguments}}
    poisoned = [
        WITH_CALL[0],
        {**WITH_CALL[1], "tool_calls": [call]},
        {**WITH_CALL[2], "content": f"bin 12{end}"},
        WITH_CALL[3],
    ]
    function = TOOLS[0]["function"] | {"description": f"Finds{end} bins."}

    row = encoder.encode_row(poisoned, tools=[{"type": "function", "function": function}])
    plain = encoder.encode_row(WITH_CALL, tools=TOOLS)

    ids = [example.input_ids for example in row.examples]
    plain_ids = [example.input_ids for example in plain.examples]
    end_id = tokenizer.convert_tokens_to_ids(end)
    assert [one.count(end_id) for one in ids] == [one.count(end_id) for one in plain_ids]
    assert f"nut{end}" in tokenizer.decode(ids[-1])


THINKING = [TURNS[0], {"role": "assistant", "content": "Yes.", "reasoning_content": "Air moves."}]


@pytest.mark.parametrize("name", ["qwen3", "qwen3_5_think", "qwen3_6", "qwen3_8", "gemma4_v5"])
def test_thoughts_are_trained_where_the_template_has_a_place_for_them(name, tokenizer, encoder):
    row = encoder.encode_row(THINKING)

    assert "Air moves." in trained_spans(tokenizer, row.examples[0])[0]
    assert not row.leaves_thoughts_out


@pytest.mark.parametrize("name", ["qwen3", "qwen3_5_think", "qwen3_8"])
def test_thoughts_between_tags_are_those_in_their_field(name, encoder):
    tagged = [TURNS[0], {"role": "assistant", "content": "<think>\nAir moves.\n</think>\n\nYes."}]

    assert encoder.encode_row(tagged) == encoder.encode_row(THINKING)


@pytest.mark.parametrize("name", ["gemma4", "gemma3", "llama3", "qwen2_5"])
def test_thoughts_that_a_template_leaves_out_are_told(name, encoder):
    assert encoder.encode_row(THINKING).leaves_thoughts_out


def test_thoughts_where_a_template_asks_for_none_are_refused():
    with pytest.raises(TemplateProblem, match="otherwise than it asks"):
        ChatEncoder(tokenizer_of("qwen3_5_nothink")).encode_row(THINKING)


def test_earlier_thoughts_are_gone_where_inference_would_not_see_them():
    tokenizer = tokenizer_of("qwen3_5_think")
    first = {**TURNS[1], "reasoning_content": "Air moves."}

    row = ChatEncoder(tokenizer).encode_row([TURNS[0], first, *TURNS[2:]])

    one, two = (tokenizer.decode(example.input_ids) for example in row.examples)
    assert "Air moves." in one
    assert "Air moves." not in two


EMPTY_THOUGHTS = "<|channel>thought\n<channel|>"


@pytest.fixture(scope="module")
def asks_for_no_thoughts():
    """Gemma 4's template as some have it: it asks with an empty channel for thoughts."""
    source = tokenizer_of("gemma4_v5").chat_template
    asks = "{{- '<|turn>model\\n' -}}"
    assert source.count(asks) == 1
    return build(GEMMA_4, source.replace(asks, asks + "{{- '" + EMPTY_THOUGHTS + "' -}}"))


def test_empty_thoughts_of_the_prompt_come_before_each_trained_answer(asks_for_no_thoughts):
    encoder = ChatEncoder(asks_for_no_thoughts)

    row = assert_prompts_are_those_of_inference(encoder, TURNS)

    texts = [asks_for_no_thoughts.decode(example.input_ids) for example in row.examples]
    assert [text.count(EMPTY_THOUGHTS) for text in texts] == [1, 1]
    assert texts[1].endswith(f"<|turn>model\n{EMPTY_THOUGHTS}No, off.<turn|>\n")
    spans = [trained_spans(asks_for_no_thoughts, example) for example in row.examples]
    assert spans == [["Yes.<turn|>"], ["No, off.<turn|>"]]


def test_thoughts_after_empty_thoughts_are_refused(asks_for_no_thoughts):
    with pytest.raises(TemplateProblem, match="otherwise than it asks"):
        ChatEncoder(asks_for_no_thoughts).encode_row(THINKING)


BAR = "\uff5c"
DEEPSEEK_END = f"<{BAR}end\u2581of\u2581sentence{BAR}>"
UNFIT = {
    # It opens thoughts when it asks, and writes none into answers.
    "deepseekv3": (
        Markup("", (f"<{BAR}User{BAR}>", f"<{BAR}Assistant{BAR}>", "<think>"), eos=DEEPSEEK_END),
        "otherwise than it asks",
    ),
    # The next turn is what ends an answer.
    "glm4moe": (
        Markup("", ("<|user|>", "<|assistant|>", "<think>", "</think>"), eos="<|endoftext|>"),
        "no special token",
    ),
    # It reads contents as lists of parts only.
    "smolvlm": (Markup("", ("<|im_start|>", "<end_of_utterance>")), "leaves out or changes"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_templates_that_cannot_be_trained_right_are_refused(name):
    markup, words = UNFIT[name]

    with pytest.raises(TemplateProblem, match=words):
        ChatEncoder(build(markup, source_of(name))).encode_row(TURNS)


def test_calls_that_a_template_leaves_out_are_refused():
    with pytest.raises(TemplateProblem, match="leaves out or changes"):
        ChatEncoder(tokenizer_of("llama3")).encode_row(WITH_CALL)
