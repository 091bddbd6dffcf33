"""Raw rows, to be read only. Counts and joins over the event table are avoided: it is large."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _

from training.contract import REPORT_TYPES
from training.models import JobAttempt, JobEvent, TrainedModel, TrainingJob

MANY = 10_000_000  # a page number nobody reaches; stands in for a count that is not made


class UncountedPaginator(Paginator):
    """Pages without counting all rows first."""

    @cached_property
    def count(self) -> int:
        return MANY


class ReadOnlyAdmin(admin.ModelAdmin):
    """Rows as they are. The console and the API are where things are changed."""

    show_full_result_count = False
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class TypeFilter(admin.SimpleListFilter):
    """The types there are. Django's own filter would read which ones the table holds."""

    title = _("type")
    parameter_name = "type"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> list[tuple[str, str]]:
        return [(type_, type_) for type_ in REPORT_TYPES]

    def queryset(self, request: HttpRequest, queryset: QuerySet[JobEvent]) -> QuerySet[JobEvent]:
        return queryset.filter(type=self.value()) if self.value() else queryset


@admin.register(TrainingJob)
class TrainingJobAdmin(ReadOnlyAdmin):
    list_display = ("id", "name", "status", "base_model", "dataset", "last_step", "created_at")
    list_filter = ("status", "provider", "base_model")
    search_fields = ("name", "job_id", "dataset")
    raw_id_fields = ("retry_of",)
    exclude = ("nonce", "token_hash")
    ordering = ("-pk",)


@admin.register(JobEvent)
class JobEventAdmin(ReadOnlyAdmin):
    list_display = ("id", "run_id", "seq", "type", "source", "attempt", "created_at")
    list_filter = (TypeFilter,)
    search_fields = ("=run__pk",)
    search_help_text = "The number of a job."
    list_select_related = False
    raw_id_fields = ("run",)
    paginator = UncountedPaginator
    ordering = ("-pk",)


@admin.register(JobAttempt)
class JobAttemptAdmin(ReadOnlyAdmin):
    list_display = ("id", "run_id", "attempt", "started_at", "ended_at", "reason")
    raw_id_fields = ("run",)
    ordering = ("-pk",)


@admin.register(TrainedModel)
class TrainedModelAdmin(ReadOnlyAdmin):
    list_display = ("id", "name", "base_model_id", "dataset", "final_loss", "created_at")
    search_fields = ("name", "job_id")
    raw_id_fields = ("run",)
    ordering = ("-pk",)
