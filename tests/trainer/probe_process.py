"""Runs functions of the trainer where its libraries are; started by the fixture `probe`.

Reads `[function, arguments]` as JSON lines and answers with JSON lines.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from trainer.base_models import KNOWN, ensure, models_dir_from_environment
from trainer.device import prepare_environment
from trainer.errors import JobFailed

prepare_environment(offline=True)

from transformers import AutoTokenizer  # noqa: E402

from trainer import data, rendering, text_stream  # noqa: E402
from trainer.rows import normalise_row  # noqa: E402

TINY = ensure(KNOWN["tiny"], models_dir_from_environment())
TOKENIZER = AutoTokenizer.from_pretrained(TINY)


def encode(row, row_format="chat"):
    """Ids, labels and the text that carries loss, of one row."""
    normal = normalise_row(row, row_format)
    if normal.text is not None:
        encoded = rendering.encode_text(TOKENIZER, normal.text)
    else:
        encoded = rendering.encode_chat(TOKENIZER, normal.messages, tools=normal.tools)
    spans, span = [], []
    for label in [*encoded.labels, rendering.IGNORED]:
        if label != rendering.IGNORED:
            span.append(label)
        elif span:
            spans.append(TOKENIZER.decode(span))
            span = []
    return {"input_ids": encoded.input_ids, "labels": encoded.labels, "spans": spans}


def render(messages, add_generation_prompt=False):
    return rendering.render_chat(TOKENIZER, messages, add_generation_prompt=add_generation_prompt)


def prompt_ids(messages):
    from trainer.generation import encode_prompt

    return encode_prompt(TOKENIZER, messages)


def end_of_turn():
    return sorted(TOKENIZER.decode([i]) for i in rendering.end_of_turn_ids(TOKENIZER))


def encode_with_template(template, messages):
    """What a tokenizer with this chat template makes of it, or the refusal."""
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    tokenizer.chat_template = template
    try:
        return rendering.encode_chat(tokenizer, messages).input_ids
    except rendering.TemplateProblem as error:
        return str(error)


def load(path, max_length=256, sha256=None, row_format="chat"):
    """Examples of a file, or the reason and sentence of the failure."""
    import hashlib

    digest = sha256 or hashlib.sha256(Path(path).read_bytes()).hexdigest()
    try:
        examples = data.load_examples(
            Path(path),
            TOKENIZER,
            sha256=digest,
            row_format=row_format,
            max_length=max_length,
            check=lambda: None,
        )
    except JobFailed as error:
        return {"reason": error.reason, "message": error.message}
    return examples.report() | {"examples": [e.input_ids for e in examples.encoded]}


def stream(data_hex):
    """The pieces that a stream of single bytes gives, and the whole text."""
    from tokenizers.pre_tokenizers import ByteLevel

    decoded = ByteLevel(add_prefix_space=False)
    pieces, stream = [], text_stream.TextStream(TOKENIZER)
    for byte in bytes.fromhex(data_hex):
        pieces.append(stream.push(_byte_token(decoded, byte)))
    pieces.append(stream.finish())
    return {"pieces": pieces, "text": stream.text}


def _byte_token(byte_level, byte):
    # The byte-level alphabet: printable bytes are themselves, the others moved up from 256.
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = [b for b in range(256) if b not in kept]
    character = chr(byte) if byte in kept else chr(256 + moved.index(byte))
    return TOKENIZER.convert_tokens_to_ids(character)


def main() -> None:
    answers = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is no answer
    for line in sys.stdin:
        function, arguments = json.loads(line)
        try:
            answer = {"result": globals()[function](**arguments)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
