"""What a person can ask of jobs: start, stop, retry, rename, delete."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import IntegrityError
from django.utils import timezone

from datasets.services import OpenedDataset, default_dataset, open_for_job
from gligabao.broker import check_broker
from gligabao.databases import write_transaction
from gligabao.errors import Conflict, InvalidRequest, NotFound, ProviderUnreachable
from training import tasks
from training.catalog import BaseModel, base_model, base_model_of_size
from training.contract import server_event
from training.events import append_events
from training.hyperparams import GPU_METHODS, job_hyperparams
from training.models import IdempotencyKey, TrainingJob
from training.models.idempotency import KEY_LIFETIME
from training.providers import get_provider
from training.providers.base import Provider
from training.states import JobStatus, Reason
from training.tokens import hash_token, make_job_token, new_job_id, new_nonce

DEFAULT_STEPS = 100
MAX_STEPS = 1_000_000
DEFAULT_MAX_SECONDS = 7200
MAX_MAX_SECONDS = 86400
LOCAL_DEFAULT_MODEL = "smollm2-135m"


@dataclass(frozen=True)
class JobRequest:
    """A start request, shapes checked; None where the user left a field out."""

    num_train_steps: int | None = None
    model_size: str | None = None
    base_model: str | None = None
    dataset: str | None = None
    method: str | None = None
    provider: str | None = None
    hyperparams: dict[str, Any] | None = None
    max_seconds: int | None = None
    name: str | None = None

    @property
    def digest(self) -> str:
        text = json.dumps(self.__dict__, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Started:
    """A job, and whether this request made it (a repeat finds it as it is now)."""

    job: TrainingJob
    is_new: bool


def default_base_model() -> str:
    """The catalog's id that a request without a model means."""
    return settings.DEFAULT_MODEL or LOCAL_DEFAULT_MODEL


def get_job(run_id: int, *, db: str) -> TrainingJob:
    """Raises NotFound."""
    try:
        return TrainingJob.objects.using(db).get(pk=run_id)
    except (TrainingJob.DoesNotExist, OverflowError) as error:
        raise NotFound(f"No training job {run_id}.", code="unknown_job") from error


def start_job(
    request: JobRequest,
    *,
    db: str,
    user_id: int,
    idempotency_key: str | None = None,
    path: str = "",
) -> Started:
    """Write a queued job and wake a worker. No provider is called.

    With an idempotency key the same request finds the job it started before; another request
    under that key raises Conflict. A refused request does not use the key up.

    Raises InvalidRequest, DatasetDamaged, NotConfigured, ProviderUnreachable and
    BrokerUnreachable; nothing is recorded then.
    """
    if idempotency_key is not None:
        known = _job_of_key(idempotency_key, request, db=db, user_id=user_id, path=path)
        if known is not None:
            return Started(known, is_new=False)
    job = _checked_job(request, db=db, user_id=user_id)
    try:
        with write_transaction(db):
            _insert(job, db)
            if idempotency_key is not None:
                _keep_key(idempotency_key, request, job, path=path, user_id=user_id, db=db)
            tasks.send_on_commit(tasks.submit_due, db=db)
    except IntegrityError:
        known = idempotency_key is not None and _job_of_key(
            idempotency_key, request, db=db, user_id=user_id, path=path
        )
        if not known:
            raise
        return Started(known, is_new=False)
    return Started(job, is_new=True)


def stop_job(run_id: int, *, db: str, by: str) -> JobStatus | None:
    """Record the wish to stop; None while the end is awaited, `cancelled` if it was immediate.

    A job that nobody has begun to submit ends here and now. Any other goes on until its
    trainer ended, which the follower sees to. Raises NotFound, Conflict (over already),
    NotConfigured.
    """
    job = get_job(run_id, db=db)
    if not job.is_final:
        with suppress(ProviderUnreachable):  # now; the wish is kept for when it answers
            get_provider(job.provider).check()
    with write_transaction(db):
        job = TrainingJob.objects.using(db).select_for_update().get(pk=run_id)
        if job.is_final:
            raise Conflict(f"Job {run_id} is over already: {job.status}.", code="job_is_over")
        events = []
        if job.stop_requested_at is None:
            events.append(server_event("status", status=job.status, is_stopping=True, by=by))
        at_once = job.claimed_at is None and not job.provider_job_id and not job.outcome
        if at_once:
            events.append(cancelled_event(by))
        if events:
            append_events(run_id, events, db=db)
            TrainingJob.objects.using(db).filter(pk=run_id).update(next_poll_at=timezone.now())
            tasks.send_on_commit(tasks.follow_due, db=db)
    return JobStatus.CANCELLED if at_once else None


def cancelled_event(by: str) -> Any:
    return server_event(
        "status",
        status=JobStatus.CANCELLED.value,
        reason=Reason.USER_STOP.value,
        error=f"Stopped by {by}.",
        final_loss=None,
        model_id=None,
    )


def retry_job(run_id: int, *, db: str, user_id: int, resume: bool) -> TrainingJob:
    """Start a new job with the settings and the dataset digest of an ended one.

    With `resume` it goes on from that job's last checkpoint. Raises NotFound, Conflict.
    """
    old = get_job(run_id, db=db)
    if not old.is_final:
        raise Conflict(f"Job {run_id} is not over yet. Stop it first.", code="job_is_unfinished")
    check_broker()
    get_provider(old.provider).check()
    opened = open_for_job(old.dataset, db=db, sha256=old.dataset_sha256)
    job = TrainingJob(
        **{
            name: getattr(old, name)
            for name in (
                "name",
                "tags",
                "base_model",
                "model_size",
                "model_source",
                "method",
                "provider",
                "hyperparams",
                "dataset",
                "num_train_steps",
                "max_seconds",
            )
        },
        dataset_sha256=opened.sha256,
        requested_by=user_id,
        retry_of_id=old.pk,
        resume=resume,
        **_identity(),
    )
    with write_transaction(db):
        _insert(job, db)
        tasks.send_on_commit(tasks.submit_due, db=db)
    return job


def update_job(run_id: int, changes: dict[str, Any], *, db: str) -> TrainingJob:
    """Change `name`, `note` or `tags`. Raises NotFound."""
    job = get_job(run_id, db=db)
    for name, value in changes.items():
        setattr(job, name, value)
    if changes:
        with write_transaction(db):
            job.save(using=db, update_fields=list(changes))
    return job


def delete_job(run_id: int, *, db: str) -> None:
    """Delete a job that is over, with its events; a model it made stays.

    What its run left goes first: the row stays for another try where that is refused. Raises
    NotFound, Conflict.
    """
    job = get_job(run_id, db=db)
    if not job.is_final:
        raise Conflict(f"Job {run_id} is not over yet. Stop it first.", code="job_is_unfinished")
    get_provider(job.provider).delete_run(job.job_id)
    with write_transaction(db):
        TrainingJob.objects.using(db).filter(pk=run_id).delete()


def is_dataset_in_use(filename: str, db: str) -> bool:
    """Whether an unfinished job trains on this dataset."""
    return TrainingJob.objects.using(db).unfinished().filter(dataset=filename).exists()


def _checked_job(request: JobRequest, *, db: str, user_id: int) -> TrainingJob:
    """The row that a request asks for, not saved. Raises as start_job."""
    entry = _entry_of(request)
    method = request.method or "lora"
    if method not in entry.methods:
        raise _refused(
            "method", f"{method!r} is not offered for {entry.id}: use {' or '.join(entry.methods)}."
        )
    provider = request.provider or settings.DEFAULT_PROVIDER
    backend = get_provider(provider)
    _check_hardware(entry, method, backend)
    steps = DEFAULT_STEPS if request.num_train_steps is None else request.num_train_steps
    _check_range("num_train_steps", steps, MAX_STEPS)
    seconds = DEFAULT_MAX_SECONDS if request.max_seconds is None else request.max_seconds
    _check_range("max_seconds", seconds, MAX_MAX_SECONDS)
    hyperparams = job_hyperparams(
        {} if request.hyperparams is None else request.hyperparams,
        method=method,
        model_defaults=entry.defaults_of(method),
    )
    if hyperparams["max_length"] > entry.context_length:
        raise _refused(
            "hyperparams.max_length",
            f"{hyperparams['max_length']} is over the context of {entry.id}, "
            f"{entry.context_length} tokens.",
        )
    opened = open_for_job(request.dataset or default_dataset(db), db=db)
    _check_role_order(entry, opened)
    backend.check()
    check_broker()
    return TrainingJob(
        name=request.name or "",
        base_model=entry.id,
        model_size=entry.size,
        model_source=entry.sources[0],
        method=method,
        provider=provider,
        hyperparams=hyperparams,
        dataset=opened.filename,
        dataset_sha256=opened.sha256,
        num_train_steps=steps,
        max_seconds=seconds,
        requested_by=user_id,
        **_identity(),
    )


def _entry_of(request: JobRequest) -> BaseModel:
    if request.base_model is None and request.model_size is None:
        return base_model(default_base_model())
    by_id = base_model(request.base_model) if request.base_model is not None else None
    by_size = base_model_of_size(request.model_size) if request.model_size is not None else None
    if by_id and by_size and by_id != by_size:
        raise _refused(
            "model_size",
            f"{request.model_size!r} is {by_size.id}, and base_model says {by_id.id}. Send one.",
        )
    return by_id or by_size


def _check_hardware(entry: BaseModel, method: str, backend: Provider) -> None:
    """Some models and methods need a GPU, and not every machine has one."""
    if backend.has_gpu:
        return
    if not entry.cpu:
        raise _refused(
            "base_model", f"{entry.id} does not train on a CPU; {backend.name} has no GPU."
        )
    if method in GPU_METHODS:
        others = " or ".join(other for other in entry.methods if other not in GPU_METHODS)
        raise _refused(
            "method", f"{method!r} needs a GPU, and {backend.name} has none: use {others}."
        )


def _check_range(name: str, value: int, maximum: int) -> None:
    if not 1 <= value <= maximum:
        raise _refused(name, f"{value} is out of range. Must be from 1 to {maximum}.")


def _check_role_order(entry: BaseModel, opened: OpenedDataset) -> None:
    """A template that raises on an odd order of roles would fail in the container; say it now."""
    line = opened.role_order_line
    if entry.role_order == "strict" and line is not None:
        raise InvalidRequest(
            f"{entry.id} accepts only alternating user and assistant turns; "
            f"line {line} of {opened.filename} differs.",
            code="role_order",
            errors=[
                {
                    "path": "dataset",
                    "line": line,
                    "code": "role_order",
                    "message": "user and assistant do not alternate",
                }
            ],
        )


def _refused(path: str, message: str) -> InvalidRequest:
    return InvalidRequest(
        f"{path}: {message}",
        errors=[{"path": path, "code": "invalid", "message": message}],
    )


def _identity() -> dict[str, str]:
    """A new job's public id, its nonce, and the hash of its token."""
    job_id, nonce = new_job_id(), new_nonce()
    token = make_job_token(job_id, nonce, key=settings.SECRET_KEY)
    return {"job_id": job_id, "nonce": nonce, "token_hash": hash_token(token)}


def _insert(job: TrainingJob, db: str) -> None:
    job.save(using=db, force_insert=True)
    append_events(job.pk, [server_event("status", status=JobStatus.QUEUED.value)], db=db)
    job.refresh_from_db(using=db)


def _keep_key(
    key: str, request: JobRequest, job: TrainingJob, *, path: str, user_id: int, db: str
) -> None:
    mine = IdempotencyKey.objects.using(db).filter(user_id=user_id, path=path, key=key)
    mine.filter(created_at__lt=timezone.now() - KEY_LIFETIME).delete()
    IdempotencyKey.objects.using(db).create(
        user_id=user_id, path=path, key=key, request_digest=request.digest, run=job
    )


def _job_of_key(
    key: str, request: JobRequest, *, db: str, user_id: int, path: str
) -> TrainingJob | None:
    if not 0 < len(key) <= 255:
        raise InvalidRequest(
            "Idempotency-Key must have 1 to 255 characters.", code="bad_idempotency_key"
        )
    kept = (
        IdempotencyKey.objects.using(db)
        .filter(user_id=user_id, path=path, key=key)
        .filter(created_at__gte=timezone.now() - KEY_LIFETIME)
        .select_related("run")
        .first()
    )
    if kept is None:
        return None
    if kept.request_digest != request.digest:
        raise Conflict(
            f"This Idempotency-Key started job {kept.run_id} with another body. Use a new key.",
            code="idempotency_key_reused",
        )
    return kept.run
