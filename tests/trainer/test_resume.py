"""A job that was killed goes on where its last complete checkpoint is, as if nothing had been."""

from tests.trainer.jobs import JOB_SECONDS, chat_rows
from tests.trainer.shared import FACTS, STEPS
from tests.waiting import eventually

CHECKPOINT_EVERY = 40


def test_resumed_losses_are_those_of_the_uninterrupted_run(make_job, finished):
    whole, _ = finished
    job = make_job(chat_rows(*FACTS), num_train_steps=STEPS, hyperparams=whole.spec["hyperparams"])
    process = job.start()
    eventually(
        lambda: any(event["step"] > CHECKPOINT_EVERY for event in job.of_type("progress")),
        seconds=JOB_SECONDS,
    )
    process.kill()
    process.wait()
    boots = {event["boot"] for event in job.events}

    assert job.run() == 0

    resumed = [event for event in job.events if event["boot"] not in boots]
    start = next(e for e in resumed if e.get("status") == "training")["resumed_from_step"]
    losses = {e["step"]: e["loss"] for e in resumed if e["type"] == "progress"}
    assert start in (CHECKPOINT_EVERY, 2 * CHECKPOINT_EVERY)
    assert losses == {step: whole.losses()[step] for step in range(start + 1, STEPS + 1)}
    for total in ("final_loss", "last_loss", "steps", "tokens"):
        assert resumed[-1][total] == whole.events[-1][total]


def test_new_job_can_go_on_from_the_checkpoints_of_another(make_job, finished):
    whole, _ = finished
    job = make_job(
        chat_rows(*FACTS),
        num_train_steps=STEPS + 2,
        hyperparams=whole.spec["hyperparams"],
        resume_from=str(whole.folder / "checkpoints"),
    )

    assert job.run() == 0

    assert [event["step"] for event in job.of_type("progress")] == [STEPS + 1, STEPS + 2]
    training = next(event for event in job.events if event.get("status") == "training")
    assert training["resumed_from_step"] == STEPS
    assert (whole.folder / "checkpoints" / f"checkpoint-{STEPS}").is_dir()
