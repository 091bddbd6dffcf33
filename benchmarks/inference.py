"""The first token and the tokens per second of our answers, against plain transformers.

Run: python benchmarks/inference.py [--rounds 5] [--tokens 64]. Both have the same weights and the
same prompt; they are asked in turn in one process, without an adapter. Prints one table; asserts
nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from contenders.race import ROOT
from rich.console import Console
from rich.table import Table

PROMPT = "Tell me a long story about a lighthouse keeper and the ships that pass by."
INSIDE = "GLIGABAO_BENCHMARK_INSIDE"  # set where the trainer's libraries may be loaded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args()
    if INSIDE not in os.environ:
        sys.exit(_start_again())
    _print(_measure(options), options)


def _start_again() -> int:
    """In a process with a safe path: here `datasets` would be our app."""
    models = os.environ.get("GLIGABAO_MODELS_DIR") or str(ROOT / "data" / "models")
    path = f"{ROOT / 'trainer_image'}{os.pathsep}{Path(__file__).parent}"
    environment = {
        **os.environ, INSIDE: "1", "PYTHONPATH": path, "GLIGABAO_MODELS_DIR": models,
    }  # fmt: skip
    Path(models).mkdir(parents=True, exist_ok=True)
    return subprocess.call([sys.executable, "-P", __file__, *sys.argv[1:]], env=environment)


def _measure(options: argparse.Namespace) -> dict[str, list[tuple[float, float, int]]]:
    """By contender: seconds to the first token, seconds in all, and the number of tokens."""
    from trainer.device import prepare_environment

    prepare_environment(offline=True)
    from trainer.base_models import KNOWN, ensure, models_dir_from_environment
    from trainer.generation import Generator, Listener, Question

    base = KNOWN["smollm2-135m"]
    path = ensure(base, models_dir_from_environment())
    messages = [{"role": "user", "content": PROMPT}]
    generator = Generator(models_dir_from_environment())
    question = Question(base=base, messages=messages, max_tokens=options.tokens)

    def ours(note: Callable[[], None]) -> int:
        listener = Listener(on_text=lambda text: note(), on_note=lambda text: None)
        return generator.answer(question, listener).num_tokens

    contenders = {"ours": ours, "plain transformers": _plain(path, messages, options.tokens)}
    results: dict[str, list[tuple[float, float, int]]] = {name: [] for name in contenders}
    for number in range(options.rounds + 1):
        for name, ask in contenders.items():
            result = _timed(ask)
            if number:  # the first round warms up
                results[name].append(result)
    return results


def _plain(path: Path, messages: list[dict[str, str]], num_tokens: int) -> Callable[..., int]:
    """The way of the documentation: `generate` in a thread, a streamer to read from."""
    from threading import Thread

    from transformers import AutoModelForCausalLM, AutoTokenizer, TextIteratorStreamer

    from trainer.device import pick_device

    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=pick_device().dtype)

    def ask(note: Callable[[], None]) -> int:
        inputs: Any = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=True, return_tensors="pt"
        )
        streamer: Iterator[str] = TextIteratorStreamer(tokenizer, skip_prompt=True)
        outputs: list[Any] = []
        thread = Thread(
            target=lambda: outputs.append(
                model.generate(
                    **inputs, max_new_tokens=num_tokens, do_sample=False, streamer=streamer
                )
            )
        )
        thread.start()
        for text in streamer:
            if text:
                note()
        thread.join()
        return outputs[0].shape[1] - inputs["input_ids"].shape[1]

    return ask


def _timed(ask: Callable[[Callable[[], None]], int]) -> tuple[float, float, int]:
    firsts: list[float] = []
    start = time.perf_counter()
    num_tokens = ask(lambda: firsts.append(time.perf_counter()))
    return firsts[0] - start, time.perf_counter() - start, num_tokens


def _print(results: dict[str, list[tuple[float, float, int]]], options: argparse.Namespace) -> None:
    table = Table("", "first token ms", "tokens", "tokens per second", "ours / this, all seconds")
    ours = results["ours"]
    for name, runs in results.items():
        ratios = [mine[1] / other[1] for mine, other in zip(ours, runs, strict=True)]
        table.add_row(
            name,
            f"{1000 * statistics.median(first for first, _, _ in runs):.0f}",
            str(runs[0][2]),
            f"{statistics.median(number / seconds for _, seconds, number in runs):.1f}",
            "" if runs is ours else f"{statistics.median(ratios):.2f}",
        )
    console = Console()
    console.print(table)
    console.print(
        f"{options.rounds} rounds in turn; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
