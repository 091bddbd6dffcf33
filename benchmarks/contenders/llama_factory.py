"""The same work by LLaMA-Factory, in an environment of its own.

It imports torchaudio, of which a CPU build that matches torch is hard to find: an empty module
stands in for it. Text training never touches it.
"""

from __future__ import annotations

import importlib.machinery
import json
import sys
import types
from pathlib import Path


def _stand_in(name: str) -> None:
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    sys.modules[name] = module


_stand_in("torchaudio")

import torch  # noqa: E402
from llamafactory.train.sft.trainer import CustomSeq2SeqTrainer  # noqa: E402
from llamafactory.train.tuner import run_exp  # noqa: E402
from measure import Clock, answer, losses_of, read_work  # noqa: E402


def main() -> None:
    """Train and print the figures."""
    work = read_work()
    torch.set_num_threads(work["threads"])
    clock, finished = Clock(), []
    train = CustomSeq2SeqTrainer.train

    def timed(trainer, *args, **kwargs):  # noqa: ANN001, ANN002, ANN003, ANN202
        finished.append(trainer)
        return clock.time(lambda: train(trainer, *args, **kwargs))

    CustomSeq2SeqTrainer.train = timed
    run_exp(_arguments(work))
    answer(clock, losses_of(finished[0].state.log_history))


def _arguments(work: dict) -> dict:
    folder = Path(work["folder"])
    (folder / "dataset_info.json").write_text(json.dumps({"rows": _describe(work["messages"])}))
    return {
        "stage": "sft",
        "do_train": True,
        "model_name_or_path": work["model"],
        "finetuning_type": "lora",
        "lora_rank": work["lora_rank"],
        "lora_alpha": work["lora_alpha"],
        "lora_dropout": 0.0,
        "lora_target": "all",
        "dataset": "rows",
        "dataset_dir": str(folder),
        "template": "chatml",
        "cutoff_len": work["max_length"],
        "disable_shuffling": True,
        "output_dir": str(folder / "output"),
        "per_device_train_batch_size": work["batch_size"],
        "gradient_accumulation_steps": 1,
        "max_steps": work["num_steps"],
        "learning_rate": work["learning_rate"],
        "lr_scheduler_type": "cosine",
        "warmup_steps": work["warmup_steps"],
        "logging_steps": 1,
        "save_steps": work["save_steps"],
        "seed": work["seed"],
        "bf16": work["dtype"] == "bfloat16",
        "pure_bf16": False,
        "disable_gradient_checkpointing": True,
        "use_cpu": True,
        "preprocessing_num_workers": 1,
        "report_to": "none",
        "overwrite_cache": True,
        "disable_tqdm": True,
    }


def _describe(path: str) -> dict:
    return {
        "file_name": path,
        "formatting": "sharegpt",
        "columns": {"messages": "messages"},
        "tags": {
            "role_tag": "role",
            "content_tag": "content",
            "user_tag": "user",
            "assistant_tag": "assistant",
            "system_tag": "system",
        },
    }


if __name__ == "__main__":
    main()
