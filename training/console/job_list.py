"""The list of runs: searched, filtered, sorted, page by page, and live."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.paginator import Page, Paginator
from django.db.models import Count, F, QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from gligabao.access import VIEWER
from gligabao.console.pages import role_required
from gligabao.databases import current_database
from training.console.job_rows import job_row
from training.models import TrainingJob
from training.states import JobStatus

ROWS = 50
MAX_SEARCH = 200  # characters, as many as a name can have
SORTS = {
    "id": ("pk",),
    "name": ("name", "-pk"),
    "status": ("status", "-pk"),
    "steps": ("last_step", "-pk"),
    "loss": ("last_loss", "-pk"),
    "dataset": ("dataset", "-pk"),
    "started": ("started_at", "-pk"),
}
DEFAULT_SORT = "-id"


class FilterForm(forms.Form):
    """What the list shows. Odd values of an address are as if they were not there."""

    q = forms.CharField(required=False, max_length=MAX_SEARCH, label=_("Search"))
    status = forms.MultipleChoiceField(required=False, choices=JobStatus.choices, label=_("Status"))
    sort = forms.ChoiceField(
        required=False, choices=[(sign + name, name) for name in SORTS for sign in ("", "-")]
    )

    @property
    def wanted(self) -> dict[str, Any]:
        self.is_valid()
        return {name: self.cleaned_data.get(name) or "" for name in self.fields}


@require_safe
@never_cache
@role_required(VIEWER)
def job_list(request: HttpRequest) -> HttpResponse:
    form = FilterForm(request.GET)
    wanted = form.wanted
    jobs = TrainingJob.objects.using(current_database())
    counts = dict(jobs.order_by().values_list("status").annotate(number=Count("pk")))
    page = _page(_filtered(jobs, wanted), wanted["sort"] or DEFAULT_SORT, request.GET.get("page"))
    context = {
        "form": form,
        "wanted": wanted,
        "statuses": [
            {"value": status, "label": status.label, "count": counts.get(status.value, 0)}
            for status in JobStatus
        ],
        "num_runs": sum(counts.values()),
        "num_active": sum(n for word, n in counts.items() if not JobStatus(word).is_final),
        "is_filtered": bool(wanted["q"] or wanted["status"]),
        "page": page,
        "rows": [job_row(job) for job in page],
        "sorts": _sorts(request.GET, wanted["sort"] or DEFAULT_SORT),
        "query": _query(request.GET, without="page"),
    }
    return render(request, "training/job_list.html", context)


def _filtered(jobs: QuerySet[TrainingJob], wanted: dict[str, Any]) -> QuerySet[TrainingJob]:
    if wanted["status"]:
        jobs = jobs.filter(status__in=wanted["status"])
    return jobs.search(wanted["q"]) if wanted["q"] else jobs


def _page(jobs: QuerySet[TrainingJob], sort: str, number: str | None) -> Page:
    first, *rest = SORTS[sort.lstrip("-")]
    field = F(first)
    order = field.desc(nulls_last=True) if sort.startswith("-") else field.asc(nulls_last=True)
    return Paginator(jobs.order_by(order, *rest), ROWS).get_page(number)


def _sorts(query: QueryDict, current: str) -> dict[str, dict[str, str]]:
    """For each column that sorts: the address that sorts by it, and how it is sorted now."""
    found = {}
    for name in SORTS:
        is_current = current.lstrip("-") == name
        is_rising = not current.startswith("-")
        # Another click turns it round; numbers and times are wanted from the largest down first.
        falls_first = name not in ("name", "status", "dataset")
        falls = is_rising if is_current else falls_first
        found[name] = {
            "query": _query(query, without="page", sort=("-" if falls else "") + name),
            "aria": ("ascending" if is_rising else "descending") if is_current else "",
        }
    return found


def _query(query: QueryDict, *, without: str, **changed: str) -> str:
    changes = query.copy()
    changes.pop(without, None)
    for name, value in changed.items():
        changes[name] = value
    return changes.urlencode()
