"""Runs functions of the trainer where its libraries are; started by the fixture `probe`.

Reads `[function, arguments]` as JSON lines and answers with JSON lines.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

from trainer.base_models import KNOWN, ensure, models_dir_from_environment
from trainer.device import prepare_environment
from trainer.errors import JobFailed

prepare_environment(offline=True)

import torch  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from trainer import data, rendering, sft, text_stream  # noqa: E402
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


def lora_layers(pattern, model="tiny"):
    """Names of the modules that get a LoRA layer, or the refusal."""
    from peft import LoraConfig, get_peft_model

    plain = _tiny_model() if model == "tiny" else _e4b_without_weights()
    try:
        sft.check_targets(plain, pattern)
    except JobFailed as error:
        return error.message
    peft = get_peft_model(plain, LoraConfig(r=4, target_modules=pattern, task_type="CAUSAL_LM"))
    return sorted(name for name, module in peft.named_modules() if hasattr(module, "lora_A"))


def _tiny_model():
    return AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)


def _e4b_without_weights():
    """The shape of google/gemma-4-E4B-it in its layer types, with fewer layers and no memory."""
    from transformers import (
        Gemma4AudioConfig,
        Gemma4Config,
        Gemma4ForConditionalGeneration,
        Gemma4TextConfig,
        Gemma4VisionConfig,
    )

    text = Gemma4TextConfig(num_hidden_layers=12, num_kv_shared_layers=6)
    with torch.device("meta"):
        return Gemma4ForConditionalGeneration(
            Gemma4Config(
                text_config=text,
                vision_config=Gemma4VisionConfig(num_hidden_layers=2),
                audio_config=Gemma4AudioConfig(num_hidden_layers=2),
            )
        )


def merged_difference(adapter):
    """The largest difference of logits between an adapter and its merged weights."""
    from peft import PeftModel

    input_ids = torch.tensor([TOKENIZER("Which shelf holds the copper bolts?")["input_ids"]])
    with torch.inference_mode():
        base = _tiny_model()(input_ids).logits
        peft = PeftModel.from_pretrained(_tiny_model(), adapter)
        tuned = peft(input_ids).logits
        merged = peft.merge_and_unload(safe_merge=True)(input_ids).logits
    return {
        "merged": (merged - tuned).abs().max().item(),
        "tuned": (tuned - base).abs().max().item(),
    }


def losses(rows):
    """The loss of one batch by our function and by TRL's, and the largest gradient gap."""
    folder = tempfile.mkdtemp()
    values = SimpleNamespace(
        lora_rank=4, lora_alpha=8, batch_size=4, learning_rate=1e-3, logging_steps=1
    )
    values.checkpoint_every = 10
    spec = SimpleNamespace(
        hyperparams=values,
        lora_target_pattern=r".*\.language_model\.layers\.\d+\.(?:self_attn|mlp)\.(?:q|down)_proj",
        checkpoint_dir=folder,
        num_train_steps=1,
        seed=1,
    )
    device = SimpleNamespace(name="cpu", dtype=torch.float32)
    encoded = [rendering.encode_chat(TOKENIZER, normalise_row(r, "chat").messages) for r in rows]
    trainer = sft._build_trainer(
        spec,
        sft.load_with_lora(spec, TINY, device),
        tokenizer=TOKENIZER,
        examples=data.Examples(encoded, len(encoded), "", 256),
        device=device,
        totals=sft.RunningTotals(sft.Totals()),
    )
    batch = next(iter(trainer.get_train_dataloader()))
    num_items = (batch["labels"][:, 1:] != -100).sum()
    ours, _ = sft.loss_at_labels(trainer.model, dict(batch), num_items)
    ours.backward()
    gradients = _take_gradients(trainer.model)
    trls = sft.SFTTrainer.compute_loss(
        trainer, trainer.model, dict(batch), num_items_in_batch=num_items
    )
    trls.backward()
    gap = (gradients - _take_gradients(trainer.model)).abs().max().item()
    return {"ours": ours.item(), "trl": trls.item(), "gradient_gap": gap}


def _take_gradients(model):
    wanted = [p for p in model.parameters() if p.requires_grad]
    flat = torch.cat([p.grad.flatten() for p in wanted])
    model.zero_grad()
    return flat


def libraries():
    import datasets

    return {"datasets": datasets.__file__, "path": sys.path}


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
