"""Our leaner loss is TRL's."""

import torch
from in_process import CPU, chat_row, encode_rows, make_spec
from trl import SFTTrainer

from trainer.label_loss import loss_at_labels
from trainer.methods import load_for_training
from trainer.rendering import IGNORED
from trainer.sft import build_trainer
from trainer.totals import RunningTotals, Totals


def take_gradients(model):
    wanted = [p for p in model.parameters() if p.requires_grad]
    flat = torch.cat([p.grad.flatten() for p in wanted])
    model.zero_grad()
    return flat


def test_loss_and_gradients_are_those_of_trl(tiny_dir, tiny_tokenizer, tmp_path):
    spec = make_spec(tmp_path, num_train_steps=1)
    rows = [chat_row("A?", "Yes, of course."), chat_row("Where is the lamp?", "On the table.")]
    trainer = build_trainer(
        spec,
        load_for_training(spec, tiny_dir, CPU),
        tokenizer=tiny_tokenizer,
        examples=encode_rows(tiny_tokenizer, rows),
        device=CPU,
        totals=RunningTotals(Totals()),
    )
    batch = next(iter(trainer.get_train_dataloader()))
    num_items = (batch["labels"][:, 1:] != IGNORED).sum()

    ours, _ = loss_at_labels(trainer.model, dict(batch), num_items)
    ours.backward()
    our_gradients = take_gradients(trainer.model)
    trls = SFTTrainer.compute_loss(
        trainer, trainer.model, dict(batch), num_items_in_batch=num_items
    )
    trls.backward()

    assert abs(ours.item() - trls.item()) < 1e-4
    assert (our_gradients - take_gradients(trainer.model)).abs().max() < 1e-4
