"""No reader loses, doubles or misorders an event, whatever is killed."""

import pytest

from tests.factories import make_job
from tests.servers import environment
from tests.settings import TEST_REDIS_URL
from tests.training.feed import race

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


def test_every_dropped_reader_has_every_row_once_in_order(setup, token_of_role, tmp_path):
    db = "default" if setup == "sqlite" else "pg"
    env = environment(GLIGABAO_MAX_STREAMS_PER_USER="200")
    if setup == "redis":
        env["REDIS_URL"] = TEST_REDIS_URL

    outcome = race.run(
        race.Race(
            env=env,
            db="standard" if setup == "sqlite" else "pg",
            token=token_of_role("viewer"),
            run_ids=[make_job(db=db).pk for _ in range(2)],
            num_clients=30,
            num_events=200,
            events_per_second=50,
            folder=tmp_path,
        )
    )

    assert outcome.wrong == []
    assert outcome.num_clients == 30
    assert outcome.fewest_drops >= 3
    assert outcome.num_kills == 2
