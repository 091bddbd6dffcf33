"""Keys by which a client may send one start request more than once."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.utils import timezone

KEY_LIFETIME = timedelta(hours=24)


class IdempotencyKey(models.Model):
    """A key, unique per user and path in each database, with the job it started."""

    user_id = models.BigIntegerField()
    path = models.CharField(max_length=200)
    key = models.CharField(max_length=255)
    request_digest = models.CharField(max_length=64)
    run = models.ForeignKey("training.TrainingJob", on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "gb_idempotency_keys"
        constraints = [
            models.UniqueConstraint(
                fields=["user_id", "path", "key"], name="idempotency_key_is_unique"
            ),
        ]
        indexes = [models.Index(fields=["created_at"], name="idempotency_created")]

    def __str__(self) -> str:
        return self.key
