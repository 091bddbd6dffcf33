"""A followed job: its log, the provider's word, and its one end."""

import pytest
import time_machine
from django.utils import timezone

from gligabao.errors import ProviderUnreachable
from tests.training.runner.conftest import ARTIFACTS, completed, files_of, progress, status
from training.events import append_server_event
from training.models import TrainedModel, TrainingJob
from training.providers.base import Phase
from training.runner import follow
from training.runner.reconcile import reconcile

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

START = (status(0, "running"), status(1, "training"), progress(2, 10, 2.31), progress(3, 20, 1.94))


def later(**delta):
    return time_machine.travel(timezone.now() + timezone.timedelta(**delta))


def stop(one):
    append_server_event(
        one.job.pk, "status", db=one.db, status=one.job.status, is_stopping=True, by="ann"
    )
    return one.reload()


def test_l01_a_killed_trainer_fails_at_the_next_look(play):
    one = play()
    one.submit()
    one.say(*START)
    one.end(exit_code=137)

    one.look()

    assert (one.job.status, one.job.reason) == ("failed", "container_lost")
    assert "137" in one.job.error
    assert "memory" in one.job.error
    assert "after step 20" in one.job.error
    assert (one.job.last_step, one.job.last_loss) == (20, 1.94)
    assert one.job.finished_at is not None
    assert len(one.trainer_events) == 4
    assert not TrainedModel.objects.using(one.db).exists()


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"exit_code": 137, "was_out_of_memory": True}, "out_of_memory"),
        ({"exit_code": 143}, "container_lost"),
        ({"exit_code": None}, "container_lost"),
        ({"exit_code": 1}, "trainer_error"),
        ({"exit_code": 0}, "trainer_error"),
    ],
)
def test_the_end_without_a_report_is_read_from_the_evidence(play, facts, reason):
    one = play()
    one.submit()
    one.say(*START)
    one.phase(Phase.ENDED, **facts)

    one.look()

    assert (one.job.status, one.job.reason) == ("failed", reason)


def test_the_last_log_lines_are_in_the_error(play, fake_provider):
    one = play()
    one.submit()
    fake_provider.run_of(one.job).lines = ["Traceback", "ValueError: bad shape"]
    one.end(exit_code=1)

    one.look()

    assert "ValueError: bad shape" in one.job.error


def test_a_verified_job_makes_a_model_and_completes(play):
    one = play()
    one.submit()
    one.say(*START)
    one.store()
    one.say(completed(4, num_examples=3))
    assert (one.job.status, one.job.outcome) == ("uploading", "completed")
    one.end()

    one.look()

    model = TrainedModel.objects.using(one.db).get(job_id=one.job.job_id)
    assert (one.job.status, one.job.final_loss) == ("completed", 1.7)
    assert (model.num_examples, model.files) == (3, files_of(ARTIFACTS))
    assert one.events[-1].data["model_id"] == model.pk
    assert [event.is_final for event in one.events].count(True) == 1


def test_a_claim_does_not_end_the_row_while_the_run_lives(play):
    one = play()
    one.submit()
    one.store()
    one.say(completed(0))
    one.phase(Phase.RUNNING)

    one.look()

    assert one.job.status == "uploading"


def test_a_run_that_lives_a_minute_after_its_final_report_is_ended_by_force(play, fake_provider):
    one = play()
    one.submit()
    one.store()
    one.say(completed(0))
    one.phase(Phase.RUNNING)
    with later(seconds=61):
        one.look()

    assert fake_provider.stops == [(one.job.provider_job_id, True)]


def test_files_that_did_not_reach_storage_are_copied_from_the_run(play):
    one = play()
    one.submit()
    one.leave()
    one.log(*START, completed(4))
    one.end()

    one.look()

    assert one.job.status == "completed"
    assert len(one.trainer_events) == 5


def test_a05_a_short_upload_fails_the_job_with_both_sizes(play):
    one = play()
    one.submit()
    one.store(ARTIFACTS | {"adapter_model.safetensors": b"short"})
    one.say(*START, completed(4))
    one.end()

    one.look()

    assert (one.job.status, one.job.reason) == ("failed", "artifact_invalid")
    size = len(ARTIFACTS["adapter_model.safetensors"])
    assert f"expected {size} bytes, storage has 5" in one.job.error
    assert "adapter_model.safetensors" in one.job.error
    assert not TrainedModel.objects.using(one.db).exists()


def test_a_wrong_digest_fails_the_job(play):
    one = play()
    one.submit()
    one.store(ARTIFACTS | {"adapter_config.json": b'{"peft_type": "XXXX"}'})
    one.say(completed(0))
    one.end()

    one.look()

    assert one.job.reason == "artifact_invalid"
    assert "sha256" in one.job.error


@pytest.mark.parametrize(
    "files",
    [
        [],
        files_of({"README.md": b"0123456789", "adapter_model.safetensors": b"x" * 100}),
    ],
)
def test_a07_completed_without_adapter_config_fails(play, files):
    one = play()
    one.submit()
    one.say(*START, status(4, "completed", final_loss=1.5, files=files))
    one.end()

    one.look()

    assert (one.job.status, one.job.reason) == ("failed", "artifact_invalid")
    assert "adapter_config.json" in one.job.error
    assert not TrainedModel.objects.using(one.db).exists()


@pytest.mark.parametrize(
    "path", ["model.bin", "training_args.pt", "../x.json", "/etc/x.json", "a\\b.json", "x.pkl"]
)
def test_pickles_and_paths_are_refused(play, path):
    one = play()
    one.submit()
    files = [*files_of(ARTIFACTS), {"path": path, "size_bytes": 1, "sha256": "0" * 64}]
    one.store()
    one.say(status(0, "completed", final_loss=1.0, files=files))
    one.end()

    one.look()

    assert one.job.reason == "artifact_invalid"


def test_a_file_that_only_calls_itself_safetensors_is_refused(play):
    one = play()
    artifacts = ARTIFACTS | {"adapter_model.safetensors": b"\x80\x04pickle" * 20}
    one.submit()
    one.store(artifacts)
    one.say(completed(0, artifacts))
    one.end()

    one.look()

    assert one.job.reason == "artifact_invalid"
    assert "safetensors" in one.job.error


def test_l06_a_late_success_after_cancel_changes_nothing(play):
    one = play()
    one.submit()
    one.say(*START)
    stop(one)
    one.say(status(4, "cancelled"))
    one.end()
    one.look()
    assert (one.job.status, one.job.reason) == ("cancelled", "user_stop")
    finished_at = one.job.finished_at

    one.store()
    one.say(completed(5), progress(6, 30, 1.8))

    assert (one.job.status, one.job.finished_at) == ("cancelled", finished_at)
    assert one.job.error == "Stopped by ann."
    assert one.job.last_step == 30
    assert len(one.trainer_events) == 7
    assert not TrainedModel.objects.using(one.db).exists()


def test_a_completed_report_that_was_there_before_the_confirmed_end_wins_over_a_stop(play):
    one = play()
    one.submit()
    one.say(*START)
    stop(one)
    one.store()
    one.say(completed(4))
    one.end()

    one.look()

    assert one.job.status == "completed"


def test_l07_events_out_of_order_give_the_right_row(play):
    one = play()
    one.submit()
    one.store()
    one.say(status(0, "running"))
    one.say(status(1, "training"))
    one.say(progress(2, 10, 2.31))
    one.say(completed(5))
    one.say(progress(4, 100, 1.5))
    one.say(progress(3, 50, 1.9))
    one.say(status(1, "training"))
    one.end()

    one.look()

    assert len(one.trainer_events) == 6
    assert (one.job.status, one.job.last_step, one.job.last_loss) == ("completed", 100, 1.5)
    assert one.job.final_loss == 1.7
    assert [event.seq for event in one.events] == list(range(len(one.events)))


def test_l12_a_stop_is_asked_again_until_it_is_confirmed(play, fake_provider):
    one = play()
    one.submit()
    one.say(*START)
    one.phase(Phase.RUNNING)
    stop(one)
    fake_provider.stop_errors = [ProviderUnreachable("503"), ProviderUnreachable("503")]

    one.look()
    one.look()
    one.look()
    assert (one.job.status, one.job.is_stopping) == ("training", True)
    assert [force for _, force in fake_provider.stops] == [False, False, False]
    with later(seconds=31):
        one.look()
        assert fake_provider.stops[-1][1] is True
        one.end(exit_code=137, ended_at=timezone.now())
        one.look()

        assert (one.job.status, one.job.reason) == ("cancelled", "user_stop")


def test_a_stop_is_forced_although_the_clock_was_put_back(play, fake_provider):
    one = play()
    one.submit()
    one.say(*START)
    one.phase(Phase.RUNNING)
    with later(seconds=7200):
        stop(one)
    one.look()
    assert fake_provider.stops == [(one.job.provider_job_id, True)]


def test_l13_a_job_is_followed_from_its_cursor(play, any_db):
    one = play()
    one.submit()
    one.log(*START)
    one.look()
    cursor = one.job.provider_cursor
    one.say(progress(4, 30, 1.8))  # by callback, and again in the log
    one.log(progress(4, 30, 1.8), progress(5, 40, 1.7))
    one.look()
    one.leave()
    one.log(progress(6, 100, 1.4), completed(7))
    one.end()

    one.look()

    assert (cursor, one.job.provider_cursor) == ("4", "8")
    assert len(one.trainer_events) == 8
    assert (one.job.status, one.job.final_loss) == ("completed", 1.7)


def test_unreadable_reports_in_a_log_do_not_stop_the_rest(play):
    one = play()
    one.submit()
    one.log({"type": "nonsense"}, status(0, "running"))

    one.look()

    assert one.job.status == "running"


def test_a_deadline_fixes_the_outcome_and_ends_the_container(play, fake_provider):
    one = play(max_seconds=10)
    one.submit()
    one.say(*START)
    one.phase(Phase.RUNNING)
    with later(seconds=611):
        one.look()
        assert (one.job.outcome, one.job.reason) == ("failed", "run_timeout")
        assert one.job.status == "training"
        assert fake_provider.stops
        one.say(completed(4))
        one.end(exit_code=137)
        one.look()

    assert (one.job.status, one.job.reason) == ("failed", "run_timeout")


def test_a_container_that_never_comes_up_times_out(play):
    one = play()
    one.submit()
    with later(seconds=3601):
        one.look()

    assert (one.job.outcome, one.job.reason) == ("failed", "provision_timeout")


def test_a_lost_run_is_container_lost(play, fake_provider):
    one = play()
    one.submit()
    del fake_provider.runs[one.job.provider_job_id]

    one.look()
    assert one.job.status == "started"  # it may not be in view yet
    with later(seconds=31):
        one.look()

    assert (one.job.status, one.job.reason) == ("failed", "container_lost")


def test_an_unreachable_provider_holds_up_a_fixed_outcome_for_ten_minutes(play, fake_provider):
    one = play()
    one.submit()
    one.say(*START, status(4, "failed", reason="diverged", error="The loss is nan."))
    fake_provider.poll_error = ProviderUnreachable("No route.")

    one.look()
    assert one.job.status == "training"
    with later(minutes=10, seconds=1):
        one.look()

    assert (one.job.status, one.job.reason) == ("failed", "diverged")


def test_silence_is_said_once_and_is_reversible(play):
    one = play()
    one.submit()
    one.say(*START)
    one.phase(Phase.RUNNING)
    with later(seconds=121):
        one.look()
        one.look()
        warnings = [event for event in one.events if event.type == "warning"]
        assert len(warnings) == 1
        assert one.job.is_stale
        assert one.job.status == "training"
        one.say(progress(4, 30, 1.0))
        assert not one.job.is_stale


def test_a_failed_report_keeps_its_reason(play):
    one = play()
    one.submit()
    one.say(status(0, "failed", reason="dataset_invalid", error="All rows are longer."))
    one.end(exit_code=1)

    one.look()

    assert (one.job.status, one.job.reason) == ("failed", "dataset_invalid")
    assert one.job.error == "All rows are longer."


def test_two_followers_never_hold_one_lease(play, any_db):
    one = play()
    one.submit()

    first = follow.claim_due(any_db)
    second = follow.claim_due(any_db)

    assert [run_id for run_id, _ in first] == [one.job.pk]
    assert second == []
    with later(seconds=11):
        assert [run_id for run_id, _ in follow.claim_due(any_db)] == [one.job.pk]


def test_a_lease_that_was_lost_does_nothing(play, any_db):
    one = play()
    one.submit()
    one.end(exit_code=1)

    follow.follow_run(any_db, one.job.pk, "somebody else")

    assert one.reload().status == "started"


def test_a_run_that_outlives_its_job_is_stopped_and_reported(play, fake_provider):
    one = play()
    one.submit()
    one.end(exit_code=1)
    one.look()
    one.phase(Phase.RUNNING)

    reconcile()

    assert fake_provider.stops == [(one.job.provider_job_id, True)]
    assert one.events[-1].data["code"] == "orphan_stopped"
    assert one.reload().status == "failed"


def test_a_run_of_a_live_job_is_left_alone_whichever_database_has_it(play, fake_provider):
    one = play()
    one.submit()
    one.phase(Phase.RUNNING)

    reconcile()

    assert fake_provider.stops == []
    assert TrainingJob.objects.using(one.db).get(pk=one.job.pk).status == "started"


def test_a_job_whose_reports_were_read_late_started_when_its_container_came_up(play):
    with later(minutes=-30):
        one = play()
        one.submit()
        up = timezone.now()
    one.log(status(0, "running"), status(1, "failed", reason="trainer_error", error="x"))
    one.end(1, started_at=up, ended_at=up + timezone.timedelta(minutes=5))

    one.look()

    assert one.job.started_at == up
    assert one.job.finished_at == up + timezone.timedelta(minutes=5)


def test_a_job_whose_log_can_never_be_read_ends_all_the_same(play, fake_provider, monkeypatch):
    one = play()
    one.submit()
    one.end(exit_code=1, started_at=timezone.now())

    def refuse(run_id, cursor):
        raise ProviderUnreachable("The log cannot be read.")

    monkeypatch.setattr(fake_provider, "read_events", refuse)
    for hours in (0, 1, 2):
        with later(hours=hours):
            assert one.look().status == "started"
    with later(hours=3):  # its time is over, and longer than ten minutes nothing was read
        one.look()

    assert (one.job.status, one.job.reason) == ("failed", "run_timeout")


def test_a_log_that_is_readable_again_starts_the_wait_anew(play, fake_provider):
    one = play()
    one.submit()
    one.phase(Phase.RUNNING)
    fake_provider.poll_error = ProviderUnreachable("away")
    assert one.look().unreachable_since is not None
    fake_provider.poll_error = None

    assert one.look().unreachable_since is None
