"""Up to six runs beside each other: their curves, what differs, and how they ended."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from gligabao.access import VIEWER
from gligabao.console.pages import role_required
from gligabao.databases import current_database
from gligabao.units import count_text, duration_text
from training.console.job_page import setting_text
from training.console.job_rows import MISSING, JobRow, job_row, loss_text
from training.models import TrainingJob
from training.series import read_series
from training.series_fold import Series, thin

MOST = 6
POINTS = 500  # of one curve
SETTINGS = ("base_model", "model_source", "method", "provider", "dataset", "num_train_steps")


@require_safe
@never_cache
@role_required(VIEWER)
def compare(request: HttpRequest) -> HttpResponse:
    db = current_database()
    ids = _ids(request)
    jobs = TrainingJob.objects.using(db).in_bulk(ids[:MOST])
    rows = [job_row(jobs[pk]) for pk in ids if pk in jobs]
    series = [read_series(row.job, db=db) for row in rows]
    context = {
        "rows": rows,
        "missing": [pk for pk in ids[:MOST] if pk not in jobs],
        "num_left_out": len(ids[MOST:]),
        "settings": _settings(rows, only_different="all" not in request.GET),
        "results": _results(rows, series),
        "shows_all": "all" in request.GET,
        "query": "&".join(f"id={row.job.pk}" for row in rows),
        "chart": {
            "lines": [
                {"key": f"run-{row.job.pk}", "label": row.title, "points": _points(one)}
                for row, one in zip(rows, series, strict=True)
            ],
        },
    }
    return render(request, "training/compare.html", context)


def _ids(request: HttpRequest) -> list[int]:
    """The numbers that the address names, each once, in its order."""
    words = [word for word in request.GET.getlist("id") if word.isascii() and word.isdecimal()]
    return list(dict.fromkeys(int(word) for word in words if len(word) < 19))


def _points(series: Series) -> list[list[Any]]:
    return thin(series.get("loss", ()), POINTS)


def _settings(rows: list[JobRow], *, only_different: bool) -> list[dict[str, Any]]:
    """Each setting with its value in every run; `differs` where they are not all the same."""
    values = [
        {name: getattr(row.job, name) for name in SETTINGS}
        | {"dataset_sha256": row.job.dataset_sha256[:12]}
        | row.job.hyperparams
        for row in rows
    ]
    names = list(dict.fromkeys(name for one in values for name in one))
    found = []
    for name in names:
        texts = [setting_text(one[name]) if name in one else MISSING for one in values]
        differs = len(set(texts)) > 1
        if differs or not only_different:
            found.append({"name": name, "values": texts, "differs": differs})
    return found


def _results(rows: list[JobRow], series: list[Series]) -> list[dict[str, Any]]:
    return [
        {"name": _("Last loss"), "values": [row.loss for row in rows]},
        {"name": _("Mean loss of all steps"), "values": [row.final_loss for row in rows]},
        {"name": _("Best eval loss"), "values": [_best_eval(one) for one in series]},
        {
            "name": _("Steps"),
            "values": [
                f"{count_text(row.job.last_step)} / {count_text(row.job.num_train_steps)}"
                for row in rows
            ],
        },
        {"name": _("Time"), "values": [_duration(row.job) for row in rows]},
    ]


def _best_eval(series: Series) -> str:
    losses = [value for _, value in series.get("eval_loss", ()) if value is not None]
    return loss_text(min(losses, default=None))


def _duration(job: TrainingJob) -> str:
    if job.started_at is None or job.finished_at is None:
        return MISSING
    return duration_text((job.finished_at - job.started_at).total_seconds())
