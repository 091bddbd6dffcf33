"""Runs contenders in turn and prints what they said, side by side."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NAMES = {
    "ours": "ours",
    "plain_trl": "plain TRL",
    "llama_factory": "LLaMA-Factory",
    "unsloth_sft": "Unsloth",
    "torchtune_lora": "torchtune",
}
# A process starts with these alone; a GPU's libraries are found by the last two.
PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
Result = dict[str, Any]


class ContenderFailed(Exception):
    """A contender ended with an error; the message holds the end of what it printed."""


def run(name: str, python: str, work: Mapping[str, Any], folder: Path) -> Result:
    """The figures of one run of a contender in a folder of its own."""
    folder.mkdir()
    file = folder / "work.json"
    file.write_text(json.dumps({**work, "folder": str(folder)}), encoding="utf-8")
    environment = {key: os.environ[key] for key in PASSED_ON if key in os.environ} | {
        "HOME": str(folder),
        "OMP_NUM_THREADS": str(work["threads"]),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
    }
    done = subprocess.run(
        [python, "-W", "ignore", str(HERE / f"{name}.py"), str(file)],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise ContenderFailed(f"{NAMES[name]} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def run_in_turn(
    pythons: Mapping[str, str], work: Mapping[str, Any], folder: Path, rounds: int
) -> dict[str, list[Result]]:
    """`rounds` runs of each contender, one after the other, so that they share the weather."""
    results: dict[str, list[Result]] = {name: [] for name in pythons}
    for number in range(rounds):
        for name, python in pythons.items():
            result = run(name, python, work, folder / f"{name}-{number}")
            results[name].append(result)
            print(f"{NAMES[name]}: {result['wall']:.1f} s", file=sys.stderr, flush=True)
    return results


def write_rows_in_order(work: Mapping[str, Any], rehearsal: Result) -> int:
    """Files of all rows in the order of our batches, for the others. Returns their tokens."""
    rows = [json.loads(line) for line in Path(work["rows"]).read_text().splitlines()]
    tokens = [dict(zip(("input_ids", "labels"), one, strict=True)) for one in rehearsal["encoded"]]
    order = rehearsal["order"]
    with Path(work["tokens"]).open("w") as file:
        file.writelines(json.dumps(tokens[index]) + "\n" for index in order)
    Path(work["messages"]).write_text(json.dumps([rows[index] for index in order]))
    return sum(len(tokens[index]["input_ids"]) for index in order)


def median(runs: Sequence[Result], key: str) -> float:
    """The median of one figure."""
    return statistics.median(one[key] for one in runs)


def ratio(ours: Sequence[Result], others: Sequence[Result], key: str) -> str:
    """The median of the ratios of the pairs; nothing for ourselves."""
    if ours is others:
        return ""
    return f"{statistics.median(a[key] / b[key] for a, b in zip(ours, others, strict=True)):.2f}"


def spread(runs: Sequence[Result], key: str) -> str:
    """The lowest and the highest of one figure."""
    values = [one[key] for one in runs]
    return f"{min(values):.1f} to {max(values):.1f}"


def print_all(table: Table, results: Mapping[str, Sequence[Result]], remark: str) -> None:
    """The table, what was run where, and which versions each contender had."""
    console = Console(width=130)
    console.print(table)
    console.print(f"{remark}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for name, runs in results.items():
        versions = ", ".join(f"{k} {v}" for k, v in runs[0]["versions"].items() if v)
        console.print(f"{NAMES[name]}: {versions}")
