"""What is kept of a job's series; see training/series_fold.py for its form."""

from __future__ import annotations

from django.db import models


class JobSeries(models.Model):
    """The fold of a job's progress and eval reports below `next_seq`. It can be made anew."""

    run = models.OneToOneField(
        "training.TrainingJob", on_delete=models.CASCADE, primary_key=True, related_name="series"
    )
    next_seq = models.PositiveBigIntegerField(default=0)
    data = models.JSONField(default=dict)

    class Meta:
        db_table = "gb_training_job_series"
        verbose_name = "job series"

    def __str__(self) -> str:
        return f"{self.run_id} below {self.next_seq}"
