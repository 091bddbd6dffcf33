"""Addresses under /v1/gb/training/."""

from __future__ import annotations

from django.urls import path

from training.api.callbacks import EventsView, UploadsView
from training.api.dataset_tokens import DatasetTokensView
from training.api.jobs import (
    JobAttemptsView,
    JobCheckpointsView,
    JobLogsView,
    JobMetricsView,
    JobsView,
    JobView,
    RetryJobView,
    StopJobView,
)
from training.api.trained_models import (
    InferView,
    ModelFileView,
    TrainedModelsView,
    TrainedModelView,
)
from training.feed.view import events

urlpatterns = [
    path("jobs", JobsView.as_view(), name="jobs"),
    path("jobs/<int:run_id>", JobView.as_view(), name="job"),
    path("jobs/<int:run_id>/stop", StopJobView.as_view(), name="job-stop"),
    path("jobs/<int:run_id>/retry", RetryJobView.as_view(), name="job-retry"),
    path("jobs/<int:run_id>/events", EventsView.as_view(), name="job-events"),
    path("jobs/<int:run_id>/uploads", UploadsView.as_view(), name="job-uploads"),
    path("jobs/<int:run_id>/logs", JobLogsView.as_view(), name="job-logs"),
    path("jobs/<int:run_id>/metrics", JobMetricsView.as_view(), name="job-metrics"),
    path("jobs/<int:run_id>/attempts", JobAttemptsView.as_view(), name="job-attempts"),
    path("jobs/<int:run_id>/checkpoints", JobCheckpointsView.as_view(), name="job-checkpoints"),
    path("models", TrainedModelsView.as_view(), name="models"),
    path("models/<int:model_id>", TrainedModelView.as_view(), name="model"),
    path("models/<int:model_id>/files/<path:path>", ModelFileView.as_view(), name="model-file"),
    path("models/<int:model_id>/infer", InferView.as_view(), name="model-infer"),
    path("datasets/<str:filename>/tokens", DatasetTokensView.as_view(), name="dataset-tokens"),
    path("events", events, name="feed"),
]
