"""A stream outlives the connections behind it."""

import psutil
import pytest
from django.db import connections

from tests.factories import make_job
from tests.training.feed.feed_events import append_progress, seqs_of

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")

END_CONNECTIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND client_port = ANY(%s)"
)


@pytest.mark.postgres
def test_a_stream_goes_on_when_postgres_drops_every_connection_of_the_web_process(open_feed, web):
    job = make_job(db="pg")
    stream = open_feed(run_id=job.pk, db="pg", timeout=30)
    every_job = open_feed(db="pg", timeout=30)
    append_progress(job, range(1, 4), db="pg")
    before = seqs_of(stream.events(4))

    with connections["pg"].cursor() as cursor:
        cursor.execute(END_CONNECTIONS, [_ports(web)])
        assert cursor.rowcount > 0
    append_progress(job, range(4, 8), db="pg")

    assert before + seqs_of(stream.events(4)) == list(range(8))
    seqs = []
    while seqs[-1:] != [7]:
        seqs.append(every_job.events(1)[0].data["seq"])
    assert seqs[-4:] == [4, 5, 6, 7]


def _ports(web):
    """The ports on its side of the web process's connections to PostgreSQL.

    To PostgreSQL only: connections to elsewhere may have the port of another client of it.
    """
    postgres = int(connections["pg"].settings_dict["PORT"] or 5432)
    sockets = psutil.Process(web.process.pid).net_connections("tcp")
    return [one.laddr.port for one in sockets if one.raddr and one.raddr.port == postgres]
