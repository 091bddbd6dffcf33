"""Addresses under /console/."""

from __future__ import annotations

from django.urls import path
from django.views.generic import RedirectView

from training.console import jobs

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="console:jobs", query_string=True), name="home"),
    path("jobs/", jobs.job_list, name="jobs"),
    path("jobs/rows", jobs.job_rows, name="job-rows"),
    path("jobs/<int:run_id>/", jobs.job_detail, name="job"),
    path("jobs/<int:run_id>/state", jobs.job_state, name="job-state"),
    path("jobs/<int:run_id>/checkpoints", jobs.job_checkpoint_rows, name="job-checkpoints"),
    path("jobs/<int:run_id>/stop", jobs.job_stop, name="job-stop"),
]
