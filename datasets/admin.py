"""Raw rows, to look at only: datasets change through their services."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from datasets.models import Dataset, DatasetVersion


class ReadOnlyAdmin(admin.ModelAdmin):
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Dataset)
class DatasetAdmin(ReadOnlyAdmin):
    list_display = ("filename", "status", "format", "num_records", "size_bytes", "updated_at")
    list_filter = ("status", "format")
    search_fields = ("filename", "name", "sha256")


@admin.register(DatasetVersion)
class DatasetVersionAdmin(ReadOnlyAdmin):
    list_display = ("sha256", "format", "num_records", "size_bytes", "created_at")
    search_fields = ("sha256",)
