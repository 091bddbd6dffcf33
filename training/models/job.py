"""One training that someone asked for, and its attempts.

Status, outcome, `last_*` and the end are written by `training.events.append_events` only.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Self

from django.db import models
from django.db.models import Q
from django.utils import timezone

from training.states import UNFINISHED, JobStatus, Outcome, Reason

STALE_AFTER = timedelta(minutes=2)
CLAIM_LIFETIME = timedelta(seconds=60)
LEASE_LIFETIME = timedelta(seconds=10)
MAX_WAIT = timedelta(seconds=60)  # until the next look at a job; the longest back-off is 30 s
# The trainer's token stays good for late reports for a day after the end.
LATE_REPORTS = timedelta(hours=24)


# Each of these also holds for a time further ahead than we ever set one: then the clock was put
# back, and waiting for it would leave a job alone for as long.


def is_due(now: datetime) -> Q:
    return Q(next_poll_at__lte=now) | Q(next_poll_at__gt=now + MAX_WAIT)


def is_claim_over(now: datetime) -> Q:
    far = Q(claimed_at__gt=now + CLAIM_LIFETIME)
    return Q(claimed_at=None) | Q(claimed_at__lt=now - CLAIM_LIFETIME) | far


def is_lease_over(now: datetime) -> Q:
    far = Q(lease_until__gt=now + 2 * LEASE_LIFETIME)
    return Q(lease_until=None) | Q(lease_until__lt=now) | far


class TrainingJobQuerySet(models.QuerySet):
    def unfinished(self) -> Self:
        return self.filter(status__in=UNFINISHED)

    def search(self, text: str) -> Self:
        """Those with the text in name, note, dataset or a tag, or with just this `job_id`."""
        text = text.replace("\x00", "")
        escaped = json.dumps(text)[1:-1]  # as SQLite holds the letters of a tag
        return self.filter(
            Q(name__icontains=text)
            | Q(note__icontains=text)
            | Q(dataset__icontains=text)
            | Q(tags__icontains=text)
            | Q(tags__icontains=escaped)
            | Q(job_id=text)
        )

    def to_submit(self, now: datetime) -> Self:
        """Jobs without a provider run that nobody is submitting, oldest first."""
        return (
            self.unfinished()
            .filter(is_claim_over(now), is_due(now), provider_job_id="")
            .order_by("pk")
        )

    def to_follow(self, now: datetime) -> Self:
        """Jobs that the provider has, due for a look and not under another's lease."""
        return (
            self.unfinished()
            .filter(is_lease_over(now), is_due(now))
            .exclude(provider_job_id="")
            .order_by("next_poll_at")
        )


class TrainingJob(models.Model):
    """A job. `id` is the `run_id` of the API; `job_id` its public name, unique everywhere."""

    job_id = models.CharField(max_length=32, unique=True)
    provider_job_id = models.CharField(max_length=200, blank=True, default="")
    name = models.CharField(max_length=200, blank=True, default="")
    note = models.TextField(blank=True, default="")
    tags = models.JSONField(default=list, blank=True)

    status = models.CharField(max_length=16, choices=JobStatus.choices, default=JobStatus.QUEUED)
    attempt = models.PositiveIntegerField(default=1)
    outcome = models.CharField(max_length=16, choices=Outcome.choices, blank=True, default="")
    reason = models.CharField(max_length=32, choices=Reason.choices, blank=True, default="")
    error = models.TextField(blank=True, default="")
    warnings = models.JSONField(default=list, blank=True)

    base_model = models.CharField(max_length=64)
    model_size = models.CharField(max_length=64)
    model_source = models.CharField(max_length=32)
    method = models.CharField(max_length=16)
    provider = models.CharField(max_length=32)
    hyperparams = models.JSONField(default=dict)
    dataset = models.CharField(max_length=200)
    dataset_sha256 = models.CharField(max_length=64)
    num_train_steps = models.PositiveIntegerField()
    max_seconds = models.PositiveIntegerField()
    requested_by = models.BigIntegerField(null=True, blank=True)  # users live in `default`
    retry_of = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="retries"
    )
    resume = models.BooleanField(default=False)

    last_step = models.PositiveBigIntegerField(default=0)
    last_loss = models.FloatField(null=True, blank=True)
    last_loss_nonfinite = models.CharField(max_length=8, blank=True, default="")
    final_loss = models.FloatField(null=True, blank=True)
    curve = models.JSONField(default=dict, blank=True)  # see training/projections.py

    created_at = models.DateTimeField(default=timezone.now)
    submitted_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    last_seen_at = models.DateTimeField(null=True, blank=True)
    stop_requested_at = models.DateTimeField(null=True, blank=True)
    stop_requested_by = models.CharField(max_length=150, blank=True, default="")
    outcome_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    # How the log is folded and read on.
    next_seq = models.PositiveBigIntegerField(default=0)
    fold_keys = models.JSONField(default=dict, blank=True)
    provider_cursor = models.CharField(max_length=200, blank=True, default="")
    touched_at = models.DateTimeField(default=timezone.now)

    # How it is submitted and followed.
    nonce = models.CharField(max_length=32)
    token_hash = models.CharField(max_length=64)
    claimed_at = models.DateTimeField(null=True, blank=True)
    first_tried_at = models.DateTimeField(null=True, blank=True)
    num_submit_failures = models.PositiveIntegerField(default=0)
    next_poll_at = models.DateTimeField(default=timezone.now)
    lease_owner = models.CharField(max_length=32, blank=True, default="")
    lease_until = models.DateTimeField(null=True, blank=True)
    unreachable_since = models.DateTimeField(null=True, blank=True)

    objects = TrainingJobQuerySet.as_manager()

    class Meta:
        db_table = "gb_training_job_runs"
        ordering = ("-pk",)
        verbose_name = "training job"
        indexes = [
            models.Index(
                fields=["next_poll_at"],
                condition=Q(finished_at__isnull=True),
                name="jobs_unfinished_due",
            ),
            models.Index(fields=["touched_at"], name="jobs_touched"),
            models.Index(fields=["status"], name="jobs_status"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=JobStatus.values), name="job_status_is_known"
            ),
            models.CheckConstraint(
                condition=Q(finished_at__isnull=False, outcome__gt="")
                | Q(status__in=UNFINISHED, finished_at__isnull=True),
                name="job_is_over_exactly_with_an_end",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pk} {self.name or self.job_id}"

    @property
    def is_final(self) -> bool:
        return JobStatus(self.status).is_final

    @property
    def curve_points(self) -> list[tuple[int, float]]:
        """(step, loss) for a small curve. What a resume took back is no part of it."""
        points = self.curve.get("points", ())
        return [(step, loss) for step, _, _, loss in points if step <= self.last_step]

    @property
    def is_stopping(self) -> bool:
        """A stop was asked for and the end is not confirmed yet."""
        return self.stop_requested_at is not None and not self.is_final

    @property
    def is_stale(self) -> bool:
        """A container that was heard of has said nothing for two minutes."""
        if self.is_final or self.last_seen_at is None:
            return False
        return timezone.now() - self.last_seen_at > STALE_AFTER

    @property
    def accepts_late_reports(self) -> bool:
        return self.finished_at is None or timezone.now() - self.finished_at < LATE_REPORTS

    @property
    def reason_sentence(self) -> str:
        """What to do next, for a job that ended without a model."""
        return Reason(self.reason).label if self.reason else ""


class JobAttempt(models.Model):
    """One container that worked on a job: from up to over."""

    run = models.ForeignKey(TrainingJob, on_delete=models.CASCADE, related_name="attempts")
    attempt = models.PositiveIntegerField()
    boot = models.CharField(max_length=64, null=True, blank=True)  # null: not heard of yet
    provider_job_id = models.CharField(max_length=200, blank=True, default="")
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    reason = models.CharField(max_length=32, blank=True, default="")

    class Meta:
        db_table = "gb_training_job_attempts"
        ordering = ("run", "attempt")
        constraints = [
            models.UniqueConstraint(fields=["run", "attempt"], name="attempt_is_unique"),
            models.UniqueConstraint(
                fields=["run", "boot"],
                condition=Q(boot__isnull=False),
                name="boot_has_one_attempt",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} attempt {self.attempt}"
