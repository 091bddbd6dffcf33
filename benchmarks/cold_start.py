"""Where the start of a trainer process goes: its imports, and the way to the first step.

Run: python benchmarks/cold_start.py [--runs 5]. Libraries are imported in the trainer's order, so
each figure is what that one adds. The job is one step of the tiny model. Prints two tables;
asserts nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from contenders.race import ROOT
from rich.console import Console
from rich.table import Table

TARGETS = r".*\.language_model\.layers\.\d+\.(?:self_attn|mlp)\.(?:q|k|v|o|gate|up|down)_proj"
IMPORTS = """
import json, time
from importlib import import_module
from trainer.device import prepare_environment
prepare_environment(offline=True)
seconds = {}
for name in ("torch", "transformers", "datasets", "peft", "trl", "trainer.sft"):
    start = time.perf_counter()
    module = import_module(name)
    if name == "transformers":
        module.AutoModelForCausalLM, module.AutoTokenizer, module.TrainerCallback
    if name == "trl":
        module.SFTTrainer, module.SFTConfig
    seconds[name] = time.perf_counter() - start
print(json.dumps(seconds))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "trainer_image"),
            "GLIGABAO_MODELS_DIR": str(Path(folder) / "models"),
        }
        (Path(folder) / "models").mkdir()
        imports = [_imports(environment, folder) for _ in range(options.runs)]
        jobs = [_job(environment, Path(folder) / f"job-{i}") for i in range(options.runs + 1)][1:]
    console = Console()
    console.print(_table("import", imports))
    console.print(_table("from the start of the process to", jobs))
    console.print(
        f"medians of {options.runs}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )


def _imports(environment: dict[str, str], folder: str) -> dict[str, float]:
    """Seconds that each library takes, after those before it."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", IMPORTS],
        env=environment, cwd=folder, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def _job(environment: dict[str, str], folder: Path) -> dict[str, float]:
    """Seconds from the start of a trainer to its milestones, by the times in its reports."""
    folder.mkdir()
    rows = folder / "rows.jsonl"
    messages = [{"role": "user", "content": "A?"}, {"role": "assistant", "content": "Yes, B."}]
    rows.write_text((json.dumps({"messages": messages}) + "\n") * 4)
    (folder / "spec.json").write_text(json.dumps(_spec(folder, rows)))
    start = time.time()
    subprocess.run(
        [sys.executable, "-P", "-m", "trainer", "--spec", "spec.json", "--unsigned"],
        env=environment, cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    end = time.time()
    seconds: dict[str, float] = {}
    for line in (folder / "events.jsonl").read_text().splitlines():
        report = json.loads(line)
        name = report["status"] if report["type"] == "status" else f"first {report['type']}"
        seconds.setdefault(name, report["timestamp"] - start)
    return seconds | {"end of the process": end - start}


def _spec(folder: Path, rows: Path) -> dict[str, object]:
    return {
        "contract": 1,
        "job_id": "benchmark",
        "model": "gligabao/tiny-gemma-4",
        "revision": "1",
        "model_id": "tiny",
        "model_source": "built",
        "method": "lora",
        "lora_target_pattern": TARGETS,
        "dataset_path": str(rows),
        "dataset_sha256": hashlib.sha256(rows.read_bytes()).hexdigest(),
        "dataset_format": "chat",
        "hyperparams": {
            "learning_rate": 0.01,
            "lora_rank": 8,
            "lora_alpha": 16,
            "batch_size": 4,
            "max_length": 256,
        },
        "num_train_steps": 1,
        "seed": 7,
        "max_seconds": 600,
        "checkpoint_dir": str(folder / "checkpoints"),
        "expires_at": "2099-01-01T00:00:00Z",
    }


def _table(title: str, runs: list[dict[str, float]]) -> Table:
    table = Table(title, "seconds", "lowest to highest")
    for name in runs[0]:
        values = [run[name] for run in runs if name in run]
        table.add_row(
            name, f"{statistics.median(values):.2f}", f"{min(values):.2f} to {max(values):.2f}"
        )
    return table


if __name__ == "__main__":
    main()
