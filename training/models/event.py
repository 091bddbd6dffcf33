"""One numbered fact of a job. The log that everything else is read from."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone


class JobEvent(models.Model):
    """An event. `seq` is the run's own number, from 0 without gaps, given by the server."""

    run = models.ForeignKey("training.TrainingJob", on_delete=models.CASCADE, related_name="events")
    seq = models.PositiveBigIntegerField()
    type = models.CharField(max_length=16)
    source = models.CharField(max_length=8)
    boot = models.CharField(max_length=64, blank=True, default="")
    source_seq = models.PositiveBigIntegerField(null=True, blank=True)
    attempt = models.PositiveIntegerField(default=1)
    # Where it folds within its attempt: `source_seq`, or for a report without one the number
    # of the report that came before it.
    position = models.BigIntegerField(default=0)
    digest = models.CharField(max_length=32, blank=True, default="")
    is_final = models.BooleanField(default=False)
    data = models.JSONField(default=dict)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "gb_training_job_events"
        ordering = ("run", "seq")
        verbose_name = "job event"
        indexes = [models.Index(fields=["run", "type", "seq"], name="events_of_type")]
        constraints = [
            models.UniqueConstraint(fields=["run", "seq"], name="event_seq_is_unique"),
            models.UniqueConstraint(
                fields=["run", "boot", "source_seq"],
                condition=Q(source_seq__isnull=False),
                name="event_is_stored_once",
            ),
            models.UniqueConstraint(
                fields=["run", "boot", "digest"],
                condition=Q(digest__gt=""),
                name="unnumbered_event_is_stored_once",
            ),
            models.UniqueConstraint(
                fields=["run"], condition=Q(is_final=True), name="one_final_event_per_run"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.run_id}/{self.seq} {self.type}"
