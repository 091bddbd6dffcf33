"""How many tokens the rows of a dataset have, counted once for each content and base model."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import models
from django.db.models import Q
from django.utils import timezone

COUNT_LIFETIME = timedelta(minutes=30)  # a worker that takes longer is taken for dead
ASK_AGAIN = timedelta(minutes=5)  # after a failure


class TokenStatus(models.TextChoices):
    WAITING = "waiting", "Waiting"
    COUNTING = "counting", "Counting"
    READY = "ready", "Ready"
    FAILED = "failed", "Failed"


class TokenStatistics(models.Model):
    """The distribution of a content's tokens; whatever a page shows is derived from it.

    `lengths` is {tokens: examples}, `firsts` {place of the first trained token: examples}, with
    "-1" for those that train nothing. Keys are texts, as JSON has them.
    """

    dataset_sha256 = models.CharField(max_length=64)
    base_model = models.CharField(max_length=64)
    revision = models.CharField(max_length=100)
    status = models.CharField(
        max_length=16, choices=TokenStatus.choices, default=TokenStatus.WAITING
    )
    error = models.TextField(blank=True, default="")
    asked_at = models.DateTimeField(default=timezone.now)
    claimed_at = models.DateTimeField(null=True, blank=True)
    num_rows = models.PositiveBigIntegerField(default=0)
    num_refused = models.PositiveBigIntegerField(default=0)
    refused_line = models.PositiveBigIntegerField(null=True, blank=True)
    refused_why = models.TextField(blank=True, default="")
    num_trained = models.PositiveBigIntegerField(default=0)
    lengths = models.JSONField(default=dict)
    firsts = models.JSONField(default=dict)

    class Meta:
        db_table = "gb_dataset_token_statistics"
        verbose_name = verbose_name_plural = "token statistics"
        constraints = [
            models.UniqueConstraint(
                fields=["dataset_sha256", "base_model", "revision"],
                name="tokens_are_counted_once",
            ),
        ]
        indexes = [
            models.Index(
                fields=["asked_at"],
                condition=Q(status__in=("waiting", "counting")),
                name="tokens_to_count",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.dataset_sha256[:12]} in tokens of {self.base_model}"


def to_count(now: datetime) -> Q:
    """Asked for, and nobody alive is counting."""
    abandoned = Q(status=TokenStatus.COUNTING, claimed_at__lt=now - COUNT_LIFETIME)
    return Q(status=TokenStatus.WAITING) | abandoned
