"""Events as server-sent messages, and how they are read from the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django_eventstream.utils import sse_encode_event

from gligabao.databases import name_of
from gligabao.rest import dumps
from training.models import JobEvent

# Events in one read, and how many may wait for a reader before it counts as slow.
PAGE = 256
KEEPALIVE = b": keepalive\n\n"


@dataclass(frozen=True, slots=True)
class Message:
    """One event, encoded once for all its readers.

    `numbered` carries `id: <seq>`, by which a reader of one job resumes. Readers of all jobs
    get `plain`: sequence numbers of several jobs would be no place to resume from.
    """

    seq: int
    numbered: bytes
    plain: bytes


def message_of(event: JobEvent, *, job_id: str, db: str) -> Message:
    data = dumps(event_payload(event, job_id, db)).decode()
    return Message(
        seq=event.seq,
        numbered=sse_encode_event(event.type, data, event_id=str(event.seq)).encode(),
        plain=sse_encode_event(event.type, data).encode(),
    )


def messages_from(run_id: int, seq: int, *, job_id: str, db: str) -> list[Message]:
    """The next stored events of a job from `seq` on, at most a page."""
    return [message_of(event, job_id=job_id, db=db) for event in events_from(run_id, seq, db=db)]


def events_from(run_id: int, seq: int, *, db: str) -> list[JobEvent]:
    """The next stored events of a job from `seq` on, at most a page."""
    rows = JobEvent.objects.using(db).filter(run_id=run_id, seq__gte=seq)
    return list(rows.order_by("seq")[:PAGE])


def event_payload(event: JobEvent, job_id: str, db: str) -> dict[str, Any]:
    """What was reported; where it uses one of the server's own names, the server's value counts."""
    return event.data | {
        "db": name_of(db),
        "run_id": event.run_id,
        "job_id": job_id,
        "seq": event.seq,
        "type": event.type,
        "attempt": event.attempt,
        "created_at": event.created_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
