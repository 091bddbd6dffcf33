"""The learning rate of each step."""

import pytest
import torch
from transformers import get_scheduler

from trainer.schedule import make_schedule

NUM_STEPS = 20


def learning_rates(make, num_steps=NUM_STEPS):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.01)
    schedule = make(optimizer)
    found = []
    for _ in range(num_steps):
        found.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return found


def ours(scheduler, num_warmup_steps, num_steps=NUM_STEPS):
    return learning_rates(
        lambda optimizer: make_schedule(
            optimizer,
            scheduler=scheduler,
            num_steps=num_steps,
            num_warmup_steps=num_warmup_steps,
        ),
        num_steps,
    )


@pytest.mark.parametrize("scheduler", ["cosine", "linear", "constant"])
@pytest.mark.parametrize("num_warmup_steps", [0, 4])
def test_after_the_warm_up_it_is_that_of_transformers(scheduler, num_warmup_steps):
    name = "constant_with_warmup" if scheduler == "constant" else scheduler
    theirs = learning_rates(
        lambda optimizer: get_scheduler(
            name, optimizer, num_warmup_steps=num_warmup_steps, num_training_steps=NUM_STEPS
        )
    )

    assert ours(scheduler, num_warmup_steps)[num_warmup_steps:] == theirs[num_warmup_steps:]


@pytest.mark.parametrize("scheduler", ["cosine", "linear", "constant"])
def test_the_first_step_learns_and_the_warm_up_rises_evenly(scheduler):
    found = ours(scheduler, 4)

    assert found[:5] == pytest.approx([0.002, 0.004, 0.006, 0.008, 0.01])
    assert min(found) > 0


def test_a_warm_up_over_all_steps_only_rises():
    found = ours("cosine", 5, num_steps=5)

    assert found == sorted(found)
    assert found[0] > 0
