"""The pages of jobs: the list, one job, and what their live updates ask for."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from gligabao.access import TRAINER, VIEWER, has_role
from gligabao.console import page_url, role_required
from gligabao.databases import current_database
from gligabao.errors import GligabaoError, NotFound
from training.console.checkpoint_texts import checkpoint_texts
from training.console.forms import PageForm
from training.console.job_texts import job_texts, row_texts
from training.console.loss_line import loss_line
from training.event_text import BARE_FIELDS, SHOWN_FIELDS
from training.models import JobEvent, TrainingJob
from training.series import read_series, thin
from training.services import jobs

LIST_ROWS = 50
FEED_ROWS = 200
CHART_POINTS = 1000
CHART_SERIES = ("loss", "eval_loss")
FEED_TYPES = tuple(SHOWN_FIELDS)


@require_safe
@role_required(VIEWER)
def job_list(request: HttpRequest) -> HttpResponse:
    form = PageForm(request.GET)
    before = form.cleaned_data["before"] if form.is_valid() else None
    rows, has_older = _page(before)
    context = {
        "rows": [row_texts(job) for job in rows],
        "older_before": rows[-1].pk if has_older else None,
        "is_first_page": before is None,
        "types": FEED_TYPES,
    }
    return render(request, "training/job_list.html", context)


@require_safe
@never_cache
@role_required(VIEWER)
def job_rows(request: HttpRequest) -> HttpResponse:
    """The first page of the list as JSON."""
    rows, _ = _page(None)
    return JsonResponse({"rows": [row_texts(job) for job in rows]})


@require_safe
@role_required(VIEWER)
def job_detail(request: HttpRequest, run_id: int) -> HttpResponse:
    db = current_database()
    job = _job_or_404(run_id)
    rows = JobEvent.objects.using(db).filter(run=job, seq__lt=job.next_seq)
    series = read_series(job, db=db)
    drawn = {name: thin(series.get(name, ()), CHART_POINTS) for name in CHART_SERIES}
    context = {
        "job": job,
        "texts": job_texts(job, db=db),
        "events": list(rows.order_by("-seq")[:FEED_ROWS]),
        "checkpoints": checkpoint_texts(job, db=db, series=series),
        "line": loss_line(drawn["loss"], drawn["eval_loss"]),
        "may_stop": has_role(request.user, TRAINER),
        "live": {
            "run_id": job.pk,
            "next_seq": job.next_seq,
            "attempt": job.attempt,
            "series": drawn,
            "types": FEED_TYPES,
            "shown_fields": SHOWN_FIELDS,
            "bare_fields": BARE_FIELDS,
            "feed_rows": FEED_ROWS,
        },
    }
    return render(request, "training/job_detail.html", context)


@require_safe
@never_cache
@role_required(VIEWER)
def job_state(request: HttpRequest, run_id: int) -> HttpResponse:
    """The head of a job's page as JSON."""
    return JsonResponse(job_texts(_job_or_404(run_id), db=current_database()))


@require_safe
@never_cache
@role_required(VIEWER)
def job_checkpoint_rows(request: HttpRequest, run_id: int) -> HttpResponse:
    """The checkpoints of a job's page as JSON."""
    rows = checkpoint_texts(_job_or_404(run_id), db=current_database())
    return JsonResponse({"rows": rows})


@require_POST
@role_required(TRAINER)
def job_stop(request: HttpRequest, run_id: int) -> HttpResponse:
    """The Stop button. What the service refuses is said on the page."""
    try:
        jobs.stop_job(run_id, db=current_database(), by=request.user.get_username())
    except NotFound as error:
        raise Http404 from error
    except GligabaoError as error:
        messages.error(request, error.message)
    return HttpResponseRedirect(page_url("console:job", run_id))


def _page(before: int | None) -> tuple[list[TrainingJob], bool]:
    """The newest jobs, or those before one, and whether there are older ones."""
    rows: Any = TrainingJob.objects.using(current_database()).order_by("-pk")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    page = list(rows[: LIST_ROWS + 1])
    return page[:LIST_ROWS], len(page) > LIST_ROWS


def _job_or_404(run_id: int) -> TrainingJob:
    try:
        return jobs.get_job(run_id, db=current_database())
    except NotFound as error:
        raise Http404 from error
