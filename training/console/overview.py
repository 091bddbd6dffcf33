"""The first page: what runs, what ended lately, and the first steps where there is nothing."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from datasets.models import Dataset
from gligabao.access import VIEWER
from gligabao.console.pages import role_required
from gligabao.databases import current_database
from training.console.job_rows import job_row
from training.models import TrainedModel, TrainingJob
from training.states import UNFINISHED

NUM_ACTIVE = 20
NUM_RECENT = 6
NUM_MODELS = 6


@require_safe
@role_required(VIEWER)
def overview(request: HttpRequest) -> HttpResponse:
    db = current_database()
    jobs = TrainingJob.objects.using(db)
    active = list(jobs.unfinished().order_by("-pk")[:NUM_ACTIVE])
    recent = jobs.exclude(status__in=UNFINISHED).order_by("-finished_at")[:NUM_RECENT]
    models = TrainedModel.objects.using(db)
    datasets = Dataset.objects.using(db)
    context = {
        "active": [job_row(job) for job in active],
        "num_active": len(active) if len(active) < NUM_ACTIVE else jobs.unfinished().count(),
        "recent": [job_row(job) for job in recent],
        "models": list(models[:NUM_MODELS]),
        "num_models": models.count(),
        "num_datasets": datasets.count(),
        "num_runs": jobs.count(),
    }
    return render(request, "training/overview.html", context)
