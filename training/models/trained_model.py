"""The weights that a completed job saved: one row per job, owner of its artifacts."""

from __future__ import annotations

from django.db import models
from django.utils import timezone


class TrainedModel(models.Model):
    """A trained model. `files` lists `{path, size_bytes, sha256}` as verified in storage."""

    name = models.CharField(max_length=200)
    note = models.TextField(blank=True, default="")
    run = models.OneToOneField(
        "training.TrainingJob",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="trained_model",
    )
    job_id = models.CharField(max_length=32, unique=True)
    base_model = models.CharField(max_length=200)  # the repository
    base_model_id = models.CharField(max_length=64)  # the catalog's id
    base_model_revision = models.CharField(max_length=100)
    model_source = models.CharField(max_length=32)
    model_size = models.CharField(max_length=64)
    method = models.CharField(max_length=16)
    dataset = models.CharField(max_length=200)
    dataset_sha256 = models.CharField(max_length=64)
    num_examples = models.PositiveIntegerField(null=True, blank=True)
    num_train_steps = models.PositiveIntegerField()
    final_loss = models.FloatField(null=True, blank=True)
    params = models.JSONField(default=dict)
    path = models.CharField(max_length=200)  # the prefix of its keys in storage
    files = models.JSONField(default=list)
    size_bytes = models.PositiveBigIntegerField()
    storage_bytes = models.PositiveBigIntegerField()
    verified_at = models.DateTimeField()
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "gb_trained_models"
        ordering = ("-pk",)
        verbose_name = "trained model"

    def __str__(self) -> str:
        return self.name
