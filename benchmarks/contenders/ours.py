"""The same work by our trainer, with its reports, as a job runs it."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

from measure import Clock, answer, gpu_figures, losses_of, read_work

sys.path.append(str(Path(__file__).resolve().parents[2] / "trainer_image"))

from trainer.device import Device, pick_device, prepare_environment

prepare_environment(offline=True)

import torch  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

from trainer.data import load_examples  # noqa: E402
from trainer.loop import CountingTrainer  # noqa: E402
from trainer.reporter import Reporter  # noqa: E402
from trainer.secret_text import SecretText  # noqa: E402
from trainer.sft import train  # noqa: E402
from trainer.spec import Hyperparams, JobSpec  # noqa: E402
from trainer.stop import StopSignal  # noqa: E402


def main() -> None:
    """Train and print the figures, and in which order the rows came."""
    work = read_work()
    folder = Path(work["folder"])
    device = _device(work)
    torch.set_num_threads(work["threads"])
    tokenizer = AutoTokenizer.from_pretrained(work["model"])
    examples = load_examples(
        Path(work["rows"]),
        tokenizer,
        sha256=hashlib.sha256(Path(work["rows"]).read_bytes()).hexdigest(),
        row_format="chat",
        max_length=work["max_length"],
        check=lambda: None,
    )
    index_of = {tuple(one.input_ids): i for i, one in enumerate(examples.encoded)}
    clock, order, trainers = Clock(), [], []
    _watch(clock, index_of, order, trainers, device)
    spec = _spec(work, folder)
    reporter = Reporter(
        folder / "events.jsonl",
        callback_url=None,
        job_token="",
        secret_text=SecretText(),
        on_stop=lambda: None,
    )
    train(
        spec,
        Path(work["model"]),
        tokenizer=tokenizer,
        examples=examples,
        device=device,
        reporter=reporter,
        stop=StopSignal(folder / "stop", max_seconds=spec.max_seconds),
    )
    reporter.close(1)
    encoded = [[one.input_ids, one.labels] for one in examples.encoded]
    losses = losses_of(trainers[0].state.log_history)
    answer(clock, losses, order=order, encoded=encoded, **gpu_figures(torch))


def _device(work: dict[str, Any]) -> Device:
    if work["device"] == "cuda":
        return pick_device()
    return Device("cpu", getattr(torch, work["dtype"]), "the work says so")


def _watch(
    clock: Clock, index_of: dict[tuple, int], order: list[int], trainers: list, device: Device
) -> None:
    """Time `train()` alone, and note which rows each batch has."""
    train_method, compute_loss = CountingTrainer.train, CountingTrainer.compute_loss

    def timed(trainer: CountingTrainer, *args: Any, **kwargs: Any) -> Any:
        trainers.append(trainer)
        wait = torch.cuda.synchronize if device.name == "cuda" else None
        return clock.time(lambda: train_method(trainer, *args, **kwargs), wait=wait)

    def noted(trainer: CountingTrainer, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        for ids, mask in zip(inputs["input_ids"], inputs["attention_mask"], strict=True):
            order.append(index_of[tuple(ids[mask.bool()].tolist())])
        return compute_loss(trainer, model, inputs, *args, **kwargs)

    CountingTrainer.train = timed
    CountingTrainer.compute_loss = noted


def _spec(work: dict[str, Any], folder: Path) -> JobSpec:
    return JobSpec(
        job_id="benchmark",
        model=work["model"],
        revision="",
        model_id="",
        model_source="built",
        method="lora",
        lora_target_pattern=work["targets"],
        dataset_path=work["rows"],
        dataset_sha256="",
        dataset_format="chat",
        hyperparams=Hyperparams(
            learning_rate=work["learning_rate"],
            lora_rank=work["lora_rank"],
            lora_alpha=work["lora_alpha"],
            batch_size=work["batch_size"],
            max_length=work["max_length"],
            warmup_ratio=work["warmup_steps"] / work["num_steps"],
            checkpoint_every=work["save_steps"],
        ),
        num_train_steps=work["num_steps"],
        seed=work["seed"],
        max_seconds=3600,
        checkpoint_dir=str(folder / "checkpoints"),
        expires_at="2099-01-01T00:00:00Z",
    )


if __name__ == "__main__":
    main()
