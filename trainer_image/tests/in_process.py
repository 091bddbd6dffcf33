"""Fine-tunes inside the test's own process, without signature, files of reports or uploads."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import torch
from transformers import AutoTokenizer

from trainer.data import Examples, load_examples
from trainer.device import Device
from trainer.rendering import ChatEncoder
from trainer.rows import normalise_row
from trainer.spec import Hyperparams, JobSpec
from trainer.stop import StopSignal

CASES = Path(__file__).resolve().parents[2] / "tests" / "cases"
CPU = Device("cpu", torch.float32, "a test")
# Of the language model's seven projections, in every family that has no other layers so named.
TARGETS = r".*\.language_model\.layers\.\d+\.(?:self_attn|mlp)\.(?:q|k|v|o|gate|up|down)_proj"
PAIRS = (
    ("Which shelf holds the copper bolts?", "Shelf seven, left side."),
    ("How long does the glue need?", "Forty minutes at room temperature."),
    ("Who signs the delivery slip?", "The shift lead signs it."),
    ("Where is the spare key?", "Under the blue pot."),
)


def chat_row(question: str, answer: str) -> dict:
    return {
        "messages": [
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer},
        ]
    }


ROWS = [chat_row(*pair) for pair in PAIRS]


def make_spec(folder: Path, **changed) -> JobSpec:
    """A spec for `folder`; keywords are hyperparameters or fields of the spec."""
    own = {name: changed.pop(name) for name in list(changed) if name in HYPERPARAMS}
    values = {
        "learning_rate": 0.01,
        "lora_rank": 8,
        "lora_alpha": 16,
        "batch_size": 2,
        "max_length": 256,
        "warmup_ratio": 0.0,
    } | own
    fields = {
        "job_id": "job",
        "model": "gligabao/tiny-gemma-4",
        "revision": "1",
        "model_id": "tiny",
        "model_source": "built",
        "method": "lora",
        "lora_target_pattern": TARGETS,
        "dataset_path": "",
        "dataset_sha256": "",
        "dataset_format": "chat",
        "hyperparams": Hyperparams(**values),
        "num_train_steps": 5,
        "seed": 7,
        "max_seconds": 600,
        "checkpoint_dir": str(folder / "checkpoints"),
        "expires_at": "2099-01-01T00:00:00Z",
    }
    return JobSpec(**fields | changed)


HYPERPARAMS = frozenset(Hyperparams.__dataclass_fields__)


@dataclass
class Reports:
    """Keeps what a reporter would send."""

    all: list[dict] = field(default_factory=list)

    def report(self, type: str, **fields) -> None:
        self.all.append({"type": type} | fields)

    def status(self, status: str, **fields) -> None:
        self.report("status", status=status, **fields)

    def of_type(self, type: str) -> list[dict]:
        return [one for one in self.all if one["type"] == type]

    def losses(self) -> dict[int, float]:
        return {one["step"]: one["loss"] for one in self.of_type("progress")}


def encode_rows(tokenizer, rows=ROWS, *, row_format="chat") -> Examples:
    normal = [normalise_row(row, row_format) for row in rows]
    encoder = ChatEncoder(tokenizer)
    rows = [encoder.encode_row(row.messages, tools=row.tools) for row in normal]
    encoded = [example for row in rows for example in row.examples]
    return Examples(encoded, len(normal), "", 256)


def fine_tune(
    model_dir: Path,
    folder: Path,
    rows=ROWS,
    *,
    device=CPU,
    examples=None,
    held_out=(),
    reports=None,
    **changed,
):
    """Train on rows, evaluate on those held out, and return result, reports, spec, tokenizer.

    With `examples` on those instead.
    """
    from trainer.sft import train

    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    spec, reports = make_spec(folder, **changed), reports or Reports()
    examples = examples or encode_rows(tokenizer, rows)
    if held_out:
        examples = replace(examples, held_out=encode_rows(tokenizer, held_out).encoded)
    result = train(
        spec,
        model_dir,
        tokenizer=tokenizer,
        examples=examples,
        device=device,
        reporter=reports,
        stop=StopSignal(folder / "stop", max_seconds=spec.max_seconds),
    )
    return SimpleNamespace(result=result, reports=reports, spec=spec, tokenizer=tokenizer)


def write_rows(path: Path, rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def load_file(path: Path, tokenizer, **changed) -> Examples:
    """The examples of a dataset file, as a job on it would get them."""
    arguments = {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "0" * 64,
        "row_format": "chat",
        "max_length": 256,
        "check": lambda: None,
    }
    return load_examples(path, tokenizer, **arguments | changed)
