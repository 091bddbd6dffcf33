"""The rows of the app, one file per kind."""

from training.models.event import JobEvent
from training.models.idempotency import IdempotencyKey
from training.models.job import JobAttempt, TrainingJob
from training.models.series import JobSeries
from training.models.token_statistics import TokenStatistics
from training.models.trained_model import TrainedModel

__all__ = [
    "IdempotencyKey",
    "JobAttempt",
    "JobEvent",
    "JobSeries",
    "TokenStatistics",
    "TrainedModel",
    "TrainingJob",
]
