"""Whether tasks can be handed over right now."""

from __future__ import annotations

import redis
from django.conf import settings

from gligabao.errors import BrokerUnreachable

PING_SECONDS = 0.1


def check_broker() -> None:
    """Return when the broker answers within 100 ms. Raises BrokerUnreachable.

    The broker made of files has nothing that could be down.
    """
    if not settings.REDIS_URL:
        return
    client = redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=PING_SECONDS,
        socket_connect_timeout=PING_SECONDS,
        retry=None,
    )
    try:
        client.ping()
    except redis.RedisError as error:
        raise BrokerUnreachable(
            "Redis did not answer within 0.1 s, so no worker would hear of the job. "
            "Start Redis, or unset REDIS_URL, and try again."
        ) from error
    finally:
        client.close()
