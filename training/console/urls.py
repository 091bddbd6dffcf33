"""Addresses under /console/: overview, runs, models."""

from __future__ import annotations

from django.urls import path

from training.console import compare, job_detail, job_list, job_new, overview, trained_models

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("jobs/", job_list.job_list, name="jobs"),
    path("jobs/new/", job_new.job_new, name="job-new"),
    path("jobs/compare/", compare.compare, name="compare"),
    path("jobs/<int:run_id>/", job_detail.job_detail, name="job"),
    path("jobs/<int:run_id>/log/", job_detail.job_log, name="job-log"),
    path("jobs/<int:run_id>/edit", job_detail.job_edit, name="job-edit"),
    path("jobs/<int:run_id>/stop", job_detail.job_stop, name="job-stop"),
    path("jobs/<int:run_id>/retry", job_detail.job_retry, name="job-retry"),
    path("jobs/<int:run_id>/delete", job_detail.job_delete, name="job-delete"),
    path("jobs/<int:run_id>/metrics.csv", job_detail.job_csv, name="job-csv"),
    path("models/", trained_models.model_list, name="models"),
    path("models/<int:model_id>/", trained_models.model_detail, name="model"),
    path("models/<int:model_id>/files/", trained_models.model_files, name="model-files"),
    path("models/<int:model_id>/edit", trained_models.model_edit, name="model-edit"),
    path("models/<int:model_id>/delete", trained_models.model_delete, name="model-delete"),
]
