"""Addresses under /v1/gb/training/."""

from __future__ import annotations

from django.urls import path, register_converter

from datasets.api.views import DatasetRowsView, DatasetsView, DatasetView


class FilenameConverter:
    """Any file name; what is no dataset's is a 404 like every unknown name."""

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(FilenameConverter, "dataset_filename")

urlpatterns = [
    path("datasets", DatasetsView.as_view(), name="datasets"),
    path("datasets/<dataset_filename:filename>", DatasetView.as_view(), name="dataset"),
    path("datasets/<dataset_filename:filename>/rows", DatasetRowsView.as_view(), name="rows"),
]
