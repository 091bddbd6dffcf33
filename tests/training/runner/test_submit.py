"""From a queued job to one provider run."""

import threading

import pytest
import time_machine
from django.db import connections
from django.utils import timezone

from gligabao.errors import ProviderRejected, ProviderUnreachable
from tests.factories import end_job
from tests.training.runner.conftest import status
from training.events import append_server_event
from training.models import TrainingJob
from training.providers.base import ProviderBusy
from training.runner import submit

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


def test_submitting_twice_starts_one_run(play, fake_provider):
    one = play()

    one.submit()
    one.submit()

    assert [spec.job_id for spec in fake_provider.submitted] == [one.job.job_id]
    assert one.job.status == "started"
    assert one.job.submitted_at is not None


def test_the_spec_is_the_same_text_every_time(play, any_db):
    one = play()

    first = submit.build_spec(one.job, any_db)
    second = submit.build_spec(TrainingJob.objects.using(any_db).get(pk=one.job.pk), any_db)

    assert first.to_text() == second.to_text()
    assert first.job_token not in str(first.callback_url)


def test_l03_parallel_and_redelivered_tasks_call_the_provider_once(play, fake_provider, any_db):
    one = play()
    inside = threading.Barrier(2, timeout=10)
    second = threading.Thread(
        target=lambda: (
            submit.submit_job(any_db, one.job.pk),
            inside.wait(),
            connections.close_all(),
        )
    )

    def run_second_meanwhile():
        second.start()
        inside.wait()

    fake_provider.submit_hook = run_second_meanwhile
    one.submit()
    second.join()
    fake_provider.submit_hook = None
    with time_machine.travel(timezone.now() + timezone.timedelta(minutes=65)):
        one.submit()

    assert len(fake_provider.submitted) == 1


def test_a_claim_of_a_dead_worker_lapses_after_a_minute(play, fake_provider, any_db):
    one = play()
    TrainingJob.objects.using(any_db).filter(pk=one.job.pk).update(claimed_at=timezone.now())

    one.submit()
    assert fake_provider.submitted == []
    with time_machine.travel(timezone.now() + timezone.timedelta(seconds=61)):
        one.submit()

    assert len(fake_provider.submitted) == 1


def test_a_run_that_a_dead_worker_left_is_taken_up_even_when_its_trainer_spoke(
    play, fake_provider, any_db
):
    one = play()
    fake_provider.submit(submit.build_spec(one.job, any_db))
    TrainingJob.objects.using(any_db).filter(pk=one.job.pk).update(claimed_at=timezone.now())
    one.say({"seq": 0, "type": "status", "status": "running"})

    with time_machine.travel(timezone.now() + timezone.timedelta(seconds=61)):
        submit.submit_due(any_db)

    assert one.reload().provider_job_id == f"fake-{one.job.job_id}"
    assert one.job.status == "running"
    assert len(fake_provider.submitted) == 1


def test_a_stop_during_a_dead_workers_claim_starts_nothing(play, fake_provider, any_db):
    one = play()
    TrainingJob.objects.using(any_db).filter(pk=one.job.pk).update(claimed_at=timezone.now())
    append_server_event(
        one.job.pk, "status", db=any_db, status="queued", is_stopping=True, by="ann"
    )

    with time_machine.travel(timezone.now() + timezone.timedelta(seconds=61)):
        submit.submit_due(any_db)

    assert one.reload().status == "cancelled"
    assert fake_provider.submitted == []


def test_without_a_slot_the_job_stays_queued_and_unclaimed(play, fake_provider):
    one = play()
    fake_provider.submit_errors = [ProviderBusy("No slot.")]

    one.submit()

    assert (one.job.status, one.job.claimed_at) == ("queued", None)
    one.submit()
    assert one.job.status == "started"


def test_a_refused_job_fails_with_the_providers_words(play, fake_provider):
    one = play()
    fake_provider.submit_errors = [ProviderRejected("No such image.")]

    one.submit()

    assert (one.job.status, one.job.reason) == ("failed", "provider_rejected")
    assert one.job.error == "No such image."


def test_an_unreachable_provider_is_tried_again_until_the_queue_deadline(play, fake_provider):
    one = play()
    fake_provider.submit_errors = [ProviderUnreachable("No route."), ProviderUnreachable("No.")]

    one.submit()
    assert (one.job.status, one.job.num_submit_failures) == ("queued", 1)
    with time_machine.travel(timezone.now() + timezone.timedelta(seconds=3601)):
        one.submit()

    assert (one.job.status, one.job.reason) == ("failed", "provider_unreachable")


def test_a_dataset_that_vanished_fails_the_job(play, any_db):
    one = play(dataset="gone.jsonl")
    TrainingJob.objects.using(any_db).filter(pk=one.job.pk).update(dataset_sha256="0" * 64)

    one.submit()

    assert (one.job.status, one.job.reason) == ("failed", "dataset_invalid")


def test_older_jobs_are_submitted_first(play, fake_provider, any_db):
    jobs = [play() for _ in range(3)]

    submit.submit_due(any_db)

    assert [spec.job_id for spec in fake_provider.submitted] == [one.job.job_id for one in jobs]


def test_a_job_that_breaks_the_submission_holds_up_no_other(play, fake_provider, any_db, caplog):
    broken = play()
    hyperparams = {name: 1 for name in broken.job.hyperparams if name != "seed"}
    TrainingJob.objects.using(any_db).filter(pk=broken.job.pk).update(hyperparams=hyperparams)
    sound = play()

    submit.submit_due(any_db)

    assert [spec.job_id for spec in fake_provider.submitted] == [sound.job.job_id]
    assert f"Job {broken.job.job_id} could not be submitted" in caplog.text


def test_a_resumed_job_that_left_no_checkpoint_is_resumed_from_where_it_began(play, any_db):
    first = play()
    (submit.checkpoint_dir(first.job) / "checkpoint-50").mkdir(parents=True)
    (submit.checkpoint_dir(first.job) / "checkpoint-50" / "complete.json").touch()
    second = play(resume=True, retry_of=first.job)
    (submit.checkpoint_dir(second.job) / "checkpoint-60").mkdir(parents=True)  # cut off
    (submit.checkpoint_dir(second.job) / "checkpoint-61.partial").mkdir()
    (submit.checkpoint_dir(second.job) / "checkpoint-61.partial" / "complete.json").touch()
    third = play(resume=True, retry_of=second.job)

    for one in (second, third):
        spec = submit.build_spec(one.job, any_db)
        assert spec.resume_from == str(submit.checkpoint_dir(first.job))


def test_a_run_that_was_accepted_after_the_end_adds_no_status(play, fake_provider, any_db):
    one = play()
    fake_provider.submit_hook = lambda: end_job(one.job, "cancelled", db=any_db)

    one.submit()

    assert one.events[-1].is_final
    assert one.job.provider_job_id  # its log can be read


def test_an_outcome_that_a_trainer_reported_stays_when_its_run_is_gone(play):
    one = play()
    one.say(status(0, "failed", reason="dataset_invalid", error="Line 3."))

    one.submit()

    assert (one.job.status, one.job.reason) == ("failed", "dataset_invalid")
    assert one.job.error == "Line 3."


def test_an_attempt_that_spoke_before_the_answer_gets_its_run(play, fake_provider):
    one = play()
    fake_provider.submit_hook = lambda: one.say(status(0, "running"))

    one.submit()

    assert one.job.attempts.using(one.db).get().provider_job_id == one.job.provider_job_id
