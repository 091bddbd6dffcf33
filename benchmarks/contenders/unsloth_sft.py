"""The same work by Unsloth, in an environment of its own with a GPU. It must be imported first."""

from __future__ import annotations

from unsloth import FastModel  # isort: skip - it changes the libraries below

import torch
from measure import Clock, answer, gpu_figures, losses_of, read_work
from trl import SFTConfig, SFTTrainer

from datasets import load_dataset

PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def main() -> None:
    """Train and print the figures."""
    work = read_work()
    model, tokenizer = FastModel.from_pretrained(
        model_name=work["model"],
        max_seq_length=work["max_length"],
        dtype=getattr(torch, work["dtype"]),
        load_in_4bit=False,
    )
    model = FastModel.get_peft_model(
        model,
        r=work["lora_rank"],
        lora_alpha=work["lora_alpha"],
        lora_dropout=0,
        target_modules=PROJECTIONS,
        use_gradient_checkpointing="unsloth",
        random_state=work["seed"],
    )
    config = SFTConfig(
        output_dir=work["folder"],
        max_steps=work["num_steps"],
        per_device_train_batch_size=work["batch_size"],
        learning_rate=work["learning_rate"],
        lr_scheduler_type="cosine",
        warmup_steps=work["warmup_steps"],
        logging_steps=1,
        save_steps=work["save_steps"],
        seed=work["seed"],
        bf16=True,
        disable_tqdm=True,
        report_to="none",
        max_length=work["max_length"],
    )
    trainer = SFTTrainer(
        model=model,
        args=config,
        train_dataset=load_dataset("json", data_files=work["tokens"], split="train"),
        processing_class=tokenizer,
    )
    clock = Clock()
    clock.time(trainer.train, wait=torch.cuda.synchronize)
    answer(clock, losses_of(trainer.state.log_history), **gpu_figures(torch))


if __name__ == "__main__":
    main()
