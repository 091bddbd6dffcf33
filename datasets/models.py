"""Datasets as people see them, by name; and their contents, by digest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from datasets.formats.names import MAX_NAME_BYTES
from datasets.manifest import MAX_NAME

# The modification time that every stored version carries, 2020-01-01. Whoever writes to one later
# leaves another time, whichever database the row is in.
VERSION_MTIME_NS = 1_577_836_800 * 10**9


class DatasetStatus(models.TextChoices):
    READY = "ready", _("Ready")
    INVALID = "invalid", _("Invalid")
    MISSING = "missing", _("File missing")
    CHANGED = "changed", _("File changed")


class Dataset(models.Model):
    """A training file under the name that jobs use. Its content can change; versions stay."""

    filename = models.CharField(max_length=MAX_NAME_BYTES, unique=True)
    name = models.CharField(max_length=MAX_NAME)
    description = models.TextField(blank=True, default="")
    size_bytes = models.BigIntegerField(default=0)
    num_records = models.BigIntegerField(default=0)
    sha256 = models.CharField(max_length=64, blank=True, default="")
    format = models.CharField(max_length=32, blank=True, default="")
    status = models.CharField(max_length=16, choices=DatasetStatus)
    report = models.JSONField(default=dict)
    # Where the file lies: a folder of the datasets directory, and the file in it.
    folder = models.CharField(max_length=255)
    file = models.CharField(max_length=MAX_NAME_BYTES)
    mtime_ns = models.BigIntegerField(default=0)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)
    synced_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "gb_training_datasets"
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(fields=("folder",), name="gb_training_datasets_one_per_folder"),
            models.CheckConstraint(
                condition=models.Q(status__in=DatasetStatus.values),
                name="gb_training_datasets_status",
            ),
        )

    def __str__(self) -> str:
        return self.filename


class DatasetVersion(models.Model):
    """One content that a dataset has or had, kept for the jobs that train on it."""

    sha256 = models.CharField(max_length=64, unique=True)
    size_bytes = models.BigIntegerField()
    num_records = models.BigIntegerField()
    format = models.CharField(max_length=32)
    report = models.JSONField(default=dict)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "gb_training_dataset_versions"
        ordering = ("-id",)

    def __str__(self) -> str:
        return self.sha256[:12]

    @property
    def path(self) -> Path:
        return settings.DATASET_VERSIONS_DIR / f"{self.sha256}.jsonl"

    @property
    def is_intact(self) -> bool:
        """Whether the file is there and nobody wrote to it since it was stored."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return False
        return found.st_size == self.size_bytes and found.st_mtime_ns == VERSION_MTIME_NS

    @property
    def role_order_line(self) -> int | None:
        """The first line whose turns do not alternate; some models refuse such rows."""
        report: dict[str, Any] = self.report
        return report.get("role_order_line")
