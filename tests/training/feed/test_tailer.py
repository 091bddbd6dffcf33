"""What a tailer hands over, whatever the clocks and the age of the jobs."""

import asyncio
from datetime import timedelta

import pytest
from django.utils import timezone
from django_eventstream.views import Listener

from tests.factories import end_job, make_job
from tests.training.feed.feed_events import append_progress
from training.feed.channels import all_channel, run_channel
from training.feed.listeners import listeners
from training.feed.tailer import Tailer
from training.models import JobEvent, TrainingJob

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")
LONG_AGO = timezone.now() - timedelta(hours=3)


class NoThread(Tailer):
    """Sweeps only when a test says so."""

    def start(self):
        self._thread.start = lambda: None
        super().start()


@pytest.fixture
def tailer(any_db):
    """Makes tailers that have just started."""

    def make():
        tailer = NoThread(any_db)
        tailer.start()
        return tailer

    return make


@pytest.fixture
def heard():
    """Listens to channels; gives what was handed over since the last call."""
    loop = asyncio.new_event_loop()
    joined = []

    def listen(channel):
        listener = Listener()
        listener.loop = loop
        listener.channels = {channel}
        listeners.add_listener(listener)
        joined.append(listener)
        return lambda: [message.seq for message in listeners.take(listener)]

    yield listen
    for listener in joined:
        listeners.remove_listener(listener)
    loop.close()


def _age(job, db):
    """As if the last event had been stored long ago."""
    TrainingJob.objects.using(db).filter(pk=job.pk).update(touched_at=LONG_AGO)
    JobEvent.objects.using(db).filter(run=job).update(created_at=LONG_AGO)


def test_only_what_is_stored_after_the_start_is_news(tailer, heard, any_db):
    job = make_job(db=any_db)
    take = heard(all_channel(any_db))
    follower = tailer()

    follower.sweep()
    assert take() == []
    append_progress(job, [1, 2], db=any_db)
    follower.sweep()
    follower.sweep()

    assert take() == [1, 2]


def test_a_new_job_is_told_from_its_start(tailer, heard, any_db):
    take = heard(all_channel(any_db))
    follower = tailer()

    append_progress(make_job(db=any_db), [1], db=any_db)
    follower.sweep()

    assert take() == [0, 1]


def test_a_late_report_of_a_job_that_was_over_long_ago_is_told_alone(tailer, heard, any_db):
    job = make_job(db=any_db)
    end_job(job, "cancelled", db=any_db)
    _age(job, any_db)
    take = heard(all_channel(any_db))
    follower = tailer()

    append_progress(job, [1], db=any_db)
    follower.sweep()

    assert take() == [2]


def test_a_watched_job_is_found_though_its_writers_clock_is_hours_behind(tailer, heard, any_db):
    job = make_job(db=any_db)
    end_job(job, "cancelled", db=any_db)
    _age(job, any_db)
    take = heard(run_channel(any_db, job.pk))
    follower = tailer()
    follower.watch(job.pk, 2)

    append_progress(job, [1], db=any_db)
    _age(job, any_db)
    follower.sweep()

    assert take() == [2]


def test_a_stream_opened_before_the_first_sweep_takes_nothing_from_the_list(tailer, heard, any_db):
    take = heard(all_channel(any_db))
    follower = tailer()
    job = make_job(db=any_db)

    follower.watch(job.pk, 1)
    follower.sweep()

    assert take() == [0]


def test_a_sleep_longer_than_the_window_loses_nothing(tailer, heard, any_db):
    job = make_job(db=any_db)
    take = heard(all_channel(any_db))
    follower = tailer()

    append_progress(job, [1], db=any_db)
    _age(job, any_db)
    follower._looked_at = LONG_AGO  # the last sweep was before the sleep
    follower.sweep()

    assert take() == [1]


def test_a_clock_that_was_set_back_loses_nothing(tailer, heard, any_db):
    job = make_job(db=any_db)
    take = heard(all_channel(any_db))
    follower = tailer()

    follower._looked_at = timezone.now() + timedelta(hours=1)
    append_progress(job, [1], db=any_db)
    follower.sweep()

    assert take() == [1]


def test_more_than_may_wait_is_dropped_and_the_stream_knows(heard, tailer, any_db):
    job = make_job(db=any_db)
    channel = run_channel(any_db, job.pk)
    take = heard(channel)
    follower = tailer()
    (listener,) = listeners.listeners_by_channel[channel]

    append_progress(job, range(1, 301), db=any_db)
    follower.sweep()

    assert listener.overflow
    assert len(take()) <= 256


def test_numbers_of_more_than_64_bits_do_not_silence_the_feed(tailer, heard, any_db):
    job = make_job(db=any_db)
    take = heard(all_channel(any_db))
    follower = tailer()

    append_progress(job, [1], db=any_db, loss=1e20, grad_norm=-1e300)
    follower.sweep()

    assert take() == [1]
