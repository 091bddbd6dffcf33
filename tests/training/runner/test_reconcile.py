"""Runs that should be over, and those that only seem so."""

import pytest

from tests.training.runner.conftest import status
from training.providers.base import Phase
from training.runner.reconcile import reconcile

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


def test_a_run_that_ended_after_it_was_listed_is_not_reported(play, fake_provider, monkeypatch):
    one = play()
    one.submit()
    one.phase(Phase.RUNNING)
    listed = fake_provider.live_runs()
    one.say(status(0, "failed", reason="trainer_error", error="x"))
    one.end(exit_code=1)
    one.look()
    monkeypatch.setattr(fake_provider, "live_runs", lambda: listed)

    reconcile()

    assert fake_provider.stops == []
    assert one.events[-1].is_final
