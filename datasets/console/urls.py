"""Addresses under /console/datasets/."""

from __future__ import annotations

from django.urls import path

from datasets.console import datasets, upload

urlpatterns = [
    path("datasets/", datasets.dataset_list, name="datasets"),
    path("datasets/upload/", upload.dataset_upload, name="dataset-upload"),
    # Names with a slash cannot be uploaded, but an address may hold anything.
    path("datasets/<path:filename>/download", datasets.dataset_download, name="dataset-download"),
    path("datasets/<path:filename>/delete", datasets.dataset_delete, name="dataset-delete"),
    path("datasets/<path:filename>/", datasets.dataset_detail, name="dataset"),
]
