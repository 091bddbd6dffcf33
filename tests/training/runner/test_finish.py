"""Two that end one job at once."""

import pytest

from tests.training.runner.conftest import completed
from training.models import TrainedModel

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


def test_a_report_that_comes_while_the_end_is_being_written_fixes_the_outcome(
    play, fake_provider, monkeypatch
):
    one = play()
    one.submit()
    one.store()
    one.end(exit_code=1)

    def logs(run_id, *, limit):  # what a follower asks last before it writes an end of its own
        one.say(completed(0))
        return []

    monkeypatch.setattr(fake_provider, "logs", logs)

    one.look()
    one.look()

    assert (one.job.status, one.job.outcome, one.job.reason) == ("completed", "completed", "")
    assert sum(event.is_final for event in one.events) == 1
    assert TrainedModel.objects.using(one.db).filter(run_id=one.job.pk).count() == 1
