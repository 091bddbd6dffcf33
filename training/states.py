"""What a job can be, which status may follow which, and why a job can end."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class JobStatus(models.TextChoices):
    QUEUED = "queued", _("Queued")
    STARTED = "started", _("Finding hardware")
    RUNNING = "running", _("Loading")
    TRAINING = "training", _("Training")
    UPLOADING = "uploading", _("Uploading")
    COMPLETED = "completed", _("Completed")
    FAILED = "failed", _("Failed")
    CANCELLED = "cancelled", _("Cancelled")

    @property
    def is_final(self) -> bool:
        return self in FINAL


FINAL = frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED})
UNFINISHED = tuple(status for status in JobStatus if status not in FINAL)

# Names that trainers of other makes use for the same things.
ALIASES = {
    "provisioning": JobStatus.STARTED,
    "succeeded": JobStatus.COMPLETED,
    "canceled": JobStatus.CANCELLED,
    "stopped": JobStatus.CANCELLED,
}


def parse_status(word: str) -> JobStatus | None:
    """The status that a trainer's word means; None for a word that is none."""
    if word in ALIASES:
        return ALIASES[word]
    return JobStatus(word) if word in JobStatus.values else None


def can_follow(old: JobStatus, new: JobStatus) -> bool:
    """Within an attempt jobs move forward, may skip a step, and may end from anywhere."""
    if old in FINAL:
        return False
    return new in FINAL or UNFINISHED.index(new) > UNFINISHED.index(old)


class Outcome(models.TextChoices):
    """How a job will end, fixed once and before the end itself is confirmed."""

    COMPLETED = "completed", _("Completed")
    FAILED = "failed", _("Failed")
    CANCELLED = "cancelled", _("Cancelled")


class Reason(models.TextChoices):
    """Why a job ended without a model; the label is the sentence for its owner."""

    USER_STOP = "user_stop", _("Stopped on request. Start it again with retry.")
    BUDGET_REACHED = (
        "budget_reached",
        _("The agreed budget was reached. Raise it and retry from the last checkpoint."),
    )
    DATASET_INVALID = (
        "dataset_invalid",
        _("The dataset cannot be trained on. Correct it, upload it again and start a new job."),
    )
    MODEL_UNAVAILABLE = (
        "model_unavailable",
        _("The base model could not be loaded. Check that it exists and that you have access."),
    )
    OUT_OF_MEMORY = (
        "out_of_memory",
        _("The trainer ran out of memory. Lower batch_size or max_length, or take a larger GPU."),
    )
    DIVERGED = (
        "diverged",
        _("The loss stopped being a number. Lower the learning rate and retry."),
    )
    QUEUE_TIMEOUT = (
        "queue_timeout",
        _("The provider did not take the job before the queue deadline. Retry later."),
    )
    PROVISION_TIMEOUT = (
        "provision_timeout",
        _("No hardware came up in time. Retry, or choose other hardware."),
    )
    RUN_TIMEOUT = (
        "run_timeout",
        _("The job ran longer than max_seconds. Raise max_seconds and retry with resume."),
    )
    CONTAINER_LOST = (
        "container_lost",
        _("The trainer ended without a word. Retry with resume to go on from its last checkpoint."),
    )
    PROVIDER_REJECTED = (
        "provider_rejected",
        _("The provider refused the job. Its message says why."),
    )
    PROVIDER_UNREACHABLE = (
        "provider_unreachable",
        _("The provider could not be reached. Check its status page and retry."),
    )
    ARTIFACT_INVALID = (
        "artifact_invalid",
        _("The stored weights are not what the trainer reported. Retry the job."),
    )
    TRAINER_ERROR = (
        "trainer_error",
        _("The trainer failed. Its last log lines say where."),
    )
