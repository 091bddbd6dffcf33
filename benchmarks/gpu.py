"""Our trainer on a GPU against plain TRL and, where installed, Unsloth and torchtune.

Run: python benchmarks/gpu.py --model FOLDER [--steps 20] [--batch-size 4] [--length 2048]
     [--rounds 3] [--unsloth PYTHON] [--torchtune PYTHON --torchtune-config NAME]

FOLDER is a checkpoint with its tokenizer. Unsloth and torchtune want versions of their own, so
PYTHON names the interpreter of an environment that has them. All do the same work: LoRA on the
language model's projections, bfloat16, checkpointing of activations, rows of up to `--length`
tokens with a loss on the answers, in the same order. Prints tokens per second of `train()` and the
most memory that the GPU held; asserts nothing, and does nothing without a GPU.

On a GPU the loss is TRL's: with Triton it picks the labelled positions in front of its fused head
itself (`compact` in trl/trainer/utils.py, 1.16), as `label_loss.py` does on a CPU.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from contenders import race
from rich.table import Table

WORDS = ("bolt", "shelf", "glue", "lamp", "crate", "label", "paint", "wheel", "motor", "drawer")
TARGETS = (
    r"(?:.*\.language_model|model|.*\.model)\.layers\.\d+\.(?:self_attn|mlp)\."
    r"(?:q|k|v|o|gate|up|down)_proj"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="a folder with a checkpoint and its tokenizer")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=2048, help="tokens of the longest row, about")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--unsloth", metavar="PYTHON")
    parser.add_argument("--torchtune", metavar="PYTHON")
    parser.add_argument("--torchtune-config", default="llama3_2/1B_lora_single_device")
    parser.add_argument("--on-cpu", action="store_true", help="the same on a CPU, to try this out")
    options = parser.parse_args()
    if not options.on_cpu and not shutil.which("nvidia-smi"):
        print("No NVIDIA GPU here: nothing was measured.")
        return
    if options.model is None:
        parser.error("--model is needed")
    pythons = {"ours": sys.executable, "plain_trl": sys.executable}
    pythons |= {"unsloth_sft": options.unsloth} if options.unsloth else {}
    pythons |= {"torchtune_lora": options.torchtune} if options.torchtune else {}
    with tempfile.TemporaryDirectory() as folder:
        work, results = _measure(pythons, Path(folder), options)
    _print(work, results, options)


def _measure(
    pythons: dict[str, str], folder: Path, options: argparse.Namespace
) -> tuple[dict[str, Any], dict[str, list[race.Result]]]:
    work = _work(folder, options)
    rehearsal = race.run("ours", sys.executable, work, folder / "rehearsal")
    work["num_tokens"] = race.write_rows_in_order(work, rehearsal)
    return work, race.run_in_turn(pythons, work, folder, options.rounds)


def _work(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    chance = random.Random(7)
    rows = folder / "rows.jsonl"
    with rows.open("w") as file:
        for _ in range(options.steps * options.batch_size):
            file.write(json.dumps(_row(chance, options.length)) + "\n")
    return {
        "model": str(options.model.resolve()),
        "rows": str(rows),
        "tokens": str(folder / "tokens.jsonl"),
        "messages": str(folder / "messages.json"),
        "targets": TARGETS,
        "torchtune_config": options.torchtune_config,
        "device": "cpu" if options.on_cpu else "cuda",
        "dtype": "bfloat16",
        "threads": 1 if options.on_cpu else 8,
        "seed": 7,
        "num_steps": options.steps,
        "batch_size": options.batch_size,
        "learning_rate": 2e-4,
        "warmup_steps": options.steps // 10,
        "lora_rank": 16,
        "lora_alpha": 32,
        "max_length": 2 * options.length,
        "save_steps": options.steps,
    }


def _row(chance: random.Random, length: int) -> dict[str, Any]:
    """Half to all of the length, about a quarter of it the answer. A word is about 1.5 tokens."""
    num_words = int(length / 1.5 * chance.uniform(0.5, 1.0))
    words = chance.choices(WORDS, k=num_words)
    start = 3 * num_words // 4
    return {
        "messages": [
            {"role": "user", "content": " ".join(words[:start])},
            {"role": "assistant", "content": " ".join(words[start:])},
        ]
    }


def _print(
    work: dict[str, Any], results: dict[str, list[race.Result]], options: argparse.Namespace
) -> None:
    table = Table(
        "trainer", "tokens per second", "train() s", "lowest to highest", "GPU GiB", "mean loss",
        "ours / this, wall",
    )  # fmt: skip
    for name, runs in results.items():
        memory = [one["peak_gpu_gib"] for one in runs if "peak_gpu_gib" in one]
        table.add_row(
            race.NAMES[name],
            f"{work['num_tokens'] / race.median(runs, 'wall'):,.0f}",
            f"{race.median(runs, 'wall'):.1f}",
            race.spread(runs, "wall"),
            f"{max(memory):.1f}" if memory else "",
            f"{runs[0]['mean_loss']:.4f}",
            race.ratio(results["ours"], runs, "wall"),
        )
    where = results["ours"][0].get("gpu", "a CPU")
    race.print_all(
        table,
        results,
        f"{options.model.name} on {where}: {options.rounds} rounds in turn, {options.steps} steps "
        f"of {options.batch_size} rows, {work['num_tokens']:,} tokens",
    )


if __name__ == "__main__":
    main()
