"""The same work by a short TRL script. It gets the rows tokenised, so that the losses compare."""

from __future__ import annotations

import torch
from measure import Clock, answer, gpu_figures, losses_of, read_work
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed
from trl import SFTConfig, SFTTrainer

from datasets import load_dataset


def main() -> None:
    """Train and print the figures."""
    work = read_work()
    is_gpu = work["device"] == "cuda"
    torch.set_num_threads(work["threads"])
    set_seed(work["seed"])
    model = AutoModelForCausalLM.from_pretrained(work["model"], dtype=getattr(torch, work["dtype"]))
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
        train_sampling_strategy="sequential",  # the rows lie in the order of the other contender
        bf16=False,
        gradient_checkpointing=is_gpu,
        use_cpu=not is_gpu,
        disable_tqdm=True,
        report_to="none",
        max_length=work["max_length"],
        dataloader_pin_memory=is_gpu,
    )
    trainer = SFTTrainer(
        model=model,
        args=config,
        train_dataset=load_dataset("json", data_files=work["tokens"], split="train"),
        processing_class=AutoTokenizer.from_pretrained(work["model"]),
        peft_config=LoraConfig(
            r=work["lora_rank"],
            lora_alpha=work["lora_alpha"],
            target_modules=work["targets"],
            task_type="CAUSAL_LM",
        ),
    )
    clock = Clock()
    clock.time(trainer.train, wait=torch.cuda.synchronize if is_gpu else None)
    answer(clock, losses_of(trainer.state.log_history), **gpu_figures(torch))


if __name__ == "__main__":
    main()
