"""The same work by a torchtune recipe, in an environment of its own with a GPU.

torchtune knows models by a configuration of theirs (`work["torchtune_config"]`, for example
`llama3_2/1B_lora_single_device`), and none of Gemma 4. It says its speed and memory step by step.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
from pathlib import Path

import torch
from measure import Clock, answer, gpu_figures, read_work

FIGURE = re.compile(r"(\w+):(\S+)")
WARM_UP = 2  # steps that are not counted


def main() -> None:
    """Train and print the figures."""
    work = read_work()
    model, folder = Path(work["model"]), Path(work["folder"])
    settings = {
        "output_dir": folder / "output",
        "tokenizer.path": model / "original" / "tokenizer.model",
        "checkpointer.checkpoint_dir": model,
        "model.lora_attn_modules": "['q_proj','k_proj','v_proj','output_proj']",
        "model.lora_rank": work["lora_rank"],
        "model.lora_alpha": work["lora_alpha"],
        "dataset._component_": "torchtune.datasets.chat_dataset",
        "dataset.source": "json",
        "dataset.data_files": work["messages"],
        "dataset.conversation_column": "messages",
        "dataset.conversation_style": "openai",
        "dataset.split": "train",
        "shuffle": False,
        "seed": work["seed"],
        "batch_size": work["batch_size"],
        "gradient_accumulation_steps": 1,
        "max_steps_per_epoch": work["num_steps"],
        "optimizer.lr": work["learning_rate"],
        "lr_scheduler.num_warmup_steps": work["warmup_steps"],
        "enable_activation_checkpointing": True,
        "log_peak_memory_stats": True,
    }
    arguments = [f"{name}={value}" for name, value in settings.items()]
    recipe = ["lora_finetune_single_device", "--config", work["torchtune_config"]]
    tune = Path(sys.executable).with_name("tune")
    clock = Clock()
    clock.time(lambda: subprocess.run([tune, "run", *recipe, *arguments], check=True))
    (log,) = (folder / "output" / "logs").glob("log_*.txt")
    steps = [dict(FIGURE.findall(line)) for line in log.read_text().splitlines()]
    speed = statistics.median(float(s["tokens_per_second_per_gpu"]) for s in steps[WARM_UP:])
    clock.wall = work["num_tokens"] / speed  # the call also loads the model and saves it
    peak = max(float(step["peak_memory_active"]) for step in steps)
    figures = {**gpu_figures(torch), "peak_gpu_gib": peak}
    answer(clock, [float(step["loss"]) for step in steps], **figures)


if __name__ == "__main__":
    main()
