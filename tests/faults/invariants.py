"""What must hold of a job that is over, read from database, disk and processes.

    python -m tests.faults.invariants DB RUN_ID ...

Runs in a process of its own with the installation's environment; prints as JSON what is `broken`
and how many events (`num_events`) there are.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from pathlib import Path

import django

django.setup()

from django.conf import settings  # noqa: E402

from gligabao.storage import get_storage  # noqa: E402
from tests.refold import refold  # noqa: E402
from training.models import JobEvent, TrainedModel, TrainingJob  # noqa: E402
from training.projections import FIELDS  # noqa: E402
from training.providers.local_wrapper import TRAINER_FILE, is_living  # noqa: E402

LOG = "events.jsonl"


def broken_of(job: TrainingJob, db: str) -> list[str]:
    """The invariants that this job breaks, as sentences."""
    events = list(JobEvent.objects.using(db).filter(run=job).order_by("seq"))
    folder = Path(settings.DATA_DIR) / "jobs" / job.job_id
    claims = {
        "the job is over": job.is_final,
        "seq has no gaps": [event.seq for event in events] == list(range(job.next_seq)),
        "one final event": sum(event.is_final for event in events) == 1,
        "the final event is the row's end": _ends_as_the_row(job, events),
        "a model exactly when completed": _models(job, db) == (job.status == "completed"),
        "no live process": not is_living(_trainer(folder)),
        **_fold_claims(job, events),
        **_log_claims(folder, events),
        **_digest_claims(job, db),
    }
    return [f"job {job.pk} ({job.status}): {claim}" for claim, holds in claims.items() if not holds]


def _ends_as_the_row(job: TrainingJob, events: list[JobEvent]) -> bool:
    final = [event for event in events if event.is_final]
    return bool(final) and final[0].data["status"] == job.status


def _models(job: TrainingJob, db: str) -> bool:
    return TrainedModel.objects.using(db).filter(run=job).exists()


def _trainer(folder: Path) -> dict | None:
    file = folder / TRAINER_FILE
    return json.loads(file.read_text()) if file.exists() else None


def _fold_claims(job: TrainingJob, events: list[JobEvent]) -> dict[str, bool]:
    state = refold(events)
    other = [name for name in FIELDS if getattr(job, name) != getattr(state, name)]
    return {f"the row is the fold of its events ({', '.join(other)})": not other}


def _log_claims(folder: Path, events: list[JobEvent]) -> dict[str, bool]:
    """Every whole line of the trainer's own log is stored, and stored once."""
    stored = Counter((event.boot, event.source_seq) for event in events if event.boot)
    path = folder / LOG
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    written = [json.loads(line) for line in lines if line.endswith(b"\n")]
    lost = [report for report in written if not stored[report["boot"], report["seq"]]]
    first = f" (lost {len(lost)}, first {lost[0]['seq']})" if lost else ""
    return {
        f"every report of the log is stored{first}": not lost,
        "no report is stored twice": not stored or max(stored.values()) == 1,
    }


def _digest_claims(job: TrainingJob, db: str) -> dict[str, bool]:
    model = TrainedModel.objects.using(db).filter(run=job).first()
    if model is None:
        return {}
    storage = get_storage()
    wrong = []
    for file in model.files:
        with storage.open(f"{model.path}/{file['path']}") as stored:
            content = stored.read()
        if hashlib.sha256(content).hexdigest() != file["sha256"]:
            wrong.append(file["path"])
    return {f"the model's files have their digests ({', '.join(wrong)})": not wrong}


def main() -> None:
    db, *run_ids = sys.argv[1:]
    jobs = TrainingJob.objects.using(db).filter(pk__in=run_ids).order_by("pk")
    broken = [sentence for job in jobs for sentence in broken_of(job, db)]
    print(json.dumps({"broken": broken, "num_events": sum(job.next_seq for job in jobs)}))


if __name__ == "__main__":
    main()
