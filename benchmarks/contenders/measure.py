"""What all contenders print, so that one can be held against another. No imports but Python's own.

A contender is a process: `python CONTENDER WORK.json` reads the work, trains, and prints one
JSON line. Only the call of `train()` is timed; loading, tokenising and saving are outside.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate")
OTHERS = ("llamafactory", "unsloth", "torchtune", "bitsandbytes")


def read_work() -> dict[str, Any]:
    """The work to do: see `work_of` in benchmarks/trainer.py."""
    return json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))


class Clock:
    """Wall and CPU seconds of one call, and the memory that the process held at most."""

    def time(self, call: Callable[[], Any], *, wait: Callable[[], None] | None = None) -> Any:
        """Call, and `wait` for a GPU that is still busy."""
        wall, cpu = time.perf_counter(), time.process_time()
        result = call()
        if wait is not None:
            wait()
        self.wall = time.perf_counter() - wall
        self.cpu = time.process_time() - cpu
        return result


def answer(clock: Clock, losses: Sequence[float], **more: Any) -> None:
    """Print the line that the benchmark reads."""
    result = {
        "wall": clock.wall,
        "cpu": clock.cpu,
        "losses": losses,
        "mean_loss": sum(losses) / len(losses),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "versions": {name: _version(name) for name in PACKAGES + OTHERS},
    }
    print("\n" + json.dumps(result | more), flush=True)


def gpu_figures(torch: Any) -> dict[str, Any]:
    """Which GPU, and the memory that it held at most; nothing without one."""
    if not torch.cuda.is_available():
        return {}
    return {
        "gpu": torch.cuda.get_device_name(),
        "peak_gpu_gib": torch.cuda.max_memory_allocated() / 2**30,
    }


def losses_of(log_history: Sequence[dict[str, float]]) -> list[float]:
    """The loss of each step from the log of a transformers Trainer."""
    return [entry["loss"] for entry in log_history if "loss" in entry]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
