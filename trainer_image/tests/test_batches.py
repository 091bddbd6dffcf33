"""The order of the examples: the longest first, each once, and the same after a resume."""

import itertools

import torch
from in_process import CPU, chat_row, encode_rows, make_spec

from trainer.batches import LongestFirst
from trainer.methods import load_for_training
from trainer.sft import build_trainer
from trainer.totals import RunningTotals, Totals

WORDS_OF_ROWS = (3, 9, 1, 20, 12, 5, 7)
LENGTHS = [5, 40, 7, 7, 90, 3, 41, 12]


def orders(sampler, epochs):
    found = []
    for epoch in epochs:
        sampler.set_epoch(epoch)
        found.append(list(sampler))
    return found


def test_first_epoch_begins_with_the_longest_and_has_each_once():
    (order,) = orders(LongestFirst(LENGTHS, num_first=3, seed=1), [0])

    assert order[:3] == [4, 6, 1]
    assert sorted(order) == list(range(len(LENGTHS)))


def test_order_depends_on_seed_and_epoch_only():
    whole = orders(LongestFirst(LENGTHS, num_first=2, seed=1), range(4))
    torch.manual_seed(99)

    assert orders(LongestFirst(LENGTHS, num_first=2, seed=1), [2, 3]) == whole[2:]
    assert len({tuple(order) for order in whole}) == 4
    assert orders(LongestFirst(LENGTHS, num_first=2, seed=2), range(4)) != whole
    assert all(sorted(order) == sorted(whole[0]) for order in whole)


def test_first_step_of_a_job_is_larger_than_the_dataset_if_need_be():
    (order,) = orders(LongestFirst([3, 9], num_first=8, seed=1), [0])

    assert order == [1, 0]


def make_trainer(tiny_dir, tokenizer, folder, **changed):
    spec = make_spec(folder, batch_size=2, gradient_accumulation_steps=2, **changed)
    rows = [chat_row("A?", "word " * number) for number in WORDS_OF_ROWS]
    return build_trainer(
        spec,
        load_for_training(spec, tiny_dir, CPU),
        tokenizer=tokenizer,
        examples=encode_rows(tokenizer, rows),
        device=CPU,
        totals=RunningTotals(Totals()),
    )


def lengths_of_batches(trainer):
    return [batch["attention_mask"].sum(1).tolist() for batch in trainer.get_train_dataloader()]


def test_first_step_of_a_job_trains_the_longest_examples(tiny_dir, tiny_tokenizer, tmp_path):
    trainer = make_trainer(tiny_dir, tiny_tokenizer, tmp_path)
    every = [len(input_ids) for input_ids in trainer.train_dataset["input_ids"]]

    batches = lengths_of_batches(trainer)

    assert list(itertools.chain(*batches[:2])) == sorted(every, reverse=True)[:4]
    assert sorted(itertools.chain(*batches)) == sorted(every)


def test_longest_packs_come_first_where_examples_are_packed(tiny_dir, tiny_tokenizer, tmp_path):
    trainer = make_trainer(tiny_dir, tiny_tokenizer, tmp_path, packing=True, max_length=64)
    every = [len(input_ids) for input_ids in trainer.train_dataset["input_ids"]]

    first, *_ = trainer.get_train_dataloader()

    assert len(every) < len(WORDS_OF_ROWS)
    assert first["input_ids"].numel() == sum(sorted(every)[-2:])
