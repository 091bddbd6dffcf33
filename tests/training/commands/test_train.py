"""`manage.py train`: a job as asked for, watched to its end."""

import pytest
from django.contrib.auth.models import User

from tests.factories import end_job, make_dataset
from tests.training.commands.running import run, run_until_interrupted
from training.models import TrainingJob

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def admin():
    make_dataset()
    return User.objects.create_superuser("first", password="a-long-password")


def test_detached_job_is_as_asked_for(admin):
    result = run(
        "train", "--detach", "--json", "--dataset", "mine.jsonl", "--base-model", "tiny",
        "--steps", 7, "--name", "mine", "--max-seconds", 60,
        "--method", "lora", "--set", "learning_rate=0.001", "--set", "lora_rank=4",
        "--set", "lr_scheduler=linear", "--set", "packing=true",
    )  # fmt: skip

    job = TrainingJob.objects.get()
    assert result.code == 0
    assert result.json["id"] == job.pk
    assert result.json["status"] == "queued"
    assert (job.base_model, job.num_train_steps, job.name, job.max_seconds) == (
        "tiny", 7, "mine", 60,
    )  # fmt: skip
    assert (job.hyperparams["learning_rate"], job.hyperparams["lora_rank"]) == (0.001, 4)
    assert (job.hyperparams["lr_scheduler"], job.hyperparams["packing"]) == ("linear", True)
    assert job.requested_by == admin.pk


def test_detached_job_says_how_to_watch_it(admin):
    result = run("train", "--detach", "--dataset", "mine.jsonl", "--model-size", "tiny")

    job = TrainingJob.objects.get()
    assert f"manage.py follow {job.pk}" in result.out


def test_watches_the_job_of_the_same_key_to_its_end(admin):
    arguments = ("train", "--dataset", "mine.jsonl", "--idempotency-key", "k1")
    started = run(*arguments, "--detach", "--json").json
    end_job(TrainingJob.objects.get())

    result = run(*arguments)

    assert result.code == 0
    assert f"Job {started['id']} was started before" in result.out
    assert "completed" in result.out.splitlines()[-1]
    assert TrainingJob.objects.count() == 1


def test_json_is_events_and_nothing_else(admin):
    arguments = ("train", "--dataset", "mine.jsonl", "--idempotency-key", "k1", "--json")
    run(*arguments, "--detach")
    end_job(TrainingJob.objects.get(), status="cancelled")

    result = run(*arguments)

    assert [event["status"] for event in result.json_lines] == ["queued", "cancelled"]
    assert result.code == 1
    assert "cancelled" in result.error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--dataset", "other.jsonl"), "other.jsonl"),
        (("--base-model", "gpt-9"), "gpt-9"),
        (("--steps", "0"), "num_train_steps: 0 is out of range"),
        (("--set", "learning_rate=9"), "hyperparams.learning_rate: 9 is out of range"),
        (("--set", "seed=x"), "hyperparams.seed: Must be a whole number"),
        (("--set", "packing=yes"), "hyperparams.packing: Must be true or false."),
        (("--method", "magic"), "'magic' is not offered for smollm2-135m"),
        (("--method", "full", "--set", "lora_rank=8"), "hyperparams.lora_rank"),
        (("--set", "learning_rate"), "'learning_rate' is not NAME=VALUE"),
        (("--set", "learning_rate=NaN"), "hyperparams.learning_rate"),
        (("--user", "nobody"), "No active user 'nobody'"),
        (("--idempotency-key", "k" * 256), "1 to 255 characters"),
        (("--base-model", "tiny", "--model-size", "tiny"), "not allowed with"),
    ],
)
def test_refused_request_names_what_is_wrong(admin, arguments, words):
    result = run("train", "--detach", "--dataset=mine.jsonl", *arguments)

    assert (result.code, result.out) == (1, "")
    assert words in result.error
    assert not TrainingJob.objects.exists()


def test_without_an_admin_it_says_how_to_get_one():
    make_dataset()

    assert "manage.py up" in run("train", "--detach", "--dataset", "mine.jsonl").error


def test_other_user_by_name(admin):
    other = User.objects.create_user("other")

    run("train", "--detach", "--dataset", "mine.jsonl", "--user", "other")

    assert TrainingJob.objects.get().requested_by == other.pk


def test_ctrl_c_leaves_the_job_and_says_so(admin, tmp_path):
    """No worker runs here, which it says as well."""
    result = run_until_interrupted(
        ("train", "--dataset", "mine.jsonl"),
        folder=tmp_path,
        when_said="no worker seems to be running",
    )

    job = TrainingJob.objects.get()
    assert result.code == 130
    assert f"job {job.pk} goes on" in result.err
    assert f"manage.py stop {job.pk}" in result.err
    assert "Traceback" not in result.err
    assert (job.status, job.stop_requested_at) == ("queued", None)


def test_ctrl_c_in_follow_leaves_the_job(admin, tmp_path):
    job_id = run("train", "--detach", "--json", "--dataset", "mine.jsonl").json["id"]

    result = run_until_interrupted(
        ("follow", str(job_id), "--json"), folder=tmp_path, when_said="queued"
    )

    assert result.code == 130
    assert [event["status"] for event in result.json_lines] == ["queued"]
    assert f"manage.py stop {job_id}" in result.err
