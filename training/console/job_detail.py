"""The page of one run, and what can be done there.

An open page reads itself again when the live feed rings. It then says by `since` which events
it has, and is sent only newer ones and newer points; all else comes as on any load.
"""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
    StreamingHttpResponse,
)
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from gligabao.access import ADMIN, TRAINER, VIEWER
from gligabao.console.pages import page_url, role_required
from gligabao.databases import current_database
from gligabao.errors import GligabaoError, NotFound
from training.console.forms import EVENT_FILTERS, EditJobForm, SinceForm
from training.console.job_again import as_command, as_curl
from training.console.job_chart import PAGE_SERIES, chart_since, csv_lines, whole_chart
from training.console.job_page import JobPage
from training.console.loss_line import loss_line
from training.models import JobEvent, TrainingJob
from training.providers import get_provider
from training.series import read_series
from training.services import jobs

FEED_ROWS = 200
LOG_LINES = 1000


@require_safe
@never_cache
@role_required(VIEWER)
def job_detail(request: HttpRequest, run_id: int) -> HttpResponse:
    job = _job_or_404(run_id)
    return render(request, "training/job_detail.html", _context(request, job, EditJobForm.of(job)))


@require_POST
@role_required(TRAINER)
def job_edit(request: HttpRequest, run_id: int) -> HttpResponse:
    job = _job_or_404(run_id)
    form = EditJobForm.of(job, request.POST)
    if not form.is_valid():
        return render(request, "training/job_detail.html", _context(request, job, form), status=400)
    jobs.update_job(run_id, form.cleaned_data, db=current_database())
    messages.success(request, _("Saved."))
    return HttpResponseRedirect(page_url("console:job", run_id))


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


@require_POST
@role_required(TRAINER)
def job_retry(request: HttpRequest, run_id: int) -> HttpResponse:
    """The same run once more, with `resume` from its last checkpoint."""
    try:
        job = jobs.retry_job(
            run_id,
            db=current_database(),
            user_id=request.user.pk,
            resume=request.POST.get("resume") == "1",
        )
    except NotFound as error:
        raise Http404 from error
    except GligabaoError as error:
        messages.error(request, error.message)
        return HttpResponseRedirect(page_url("console:job", run_id))
    messages.success(request, _("Run %(id)s repeats run %(old)s.") % {"id": job.pk, "old": run_id})
    return HttpResponseRedirect(page_url("console:job", job.pk))


@require_POST
@role_required(ADMIN)
def job_delete(request: HttpRequest, run_id: int) -> HttpResponse:
    try:
        jobs.delete_job(run_id, db=current_database())
    except NotFound as error:
        raise Http404 from error
    except GligabaoError as error:
        messages.error(request, error.message)
        return HttpResponseRedirect(page_url("console:job", run_id))
    messages.success(request, _("Run %(id)s is deleted.") % {"id": run_id})
    return HttpResponseRedirect(page_url("console:jobs"))


@require_safe
@never_cache
@role_required(VIEWER)
def job_log(request: HttpRequest, run_id: int) -> HttpResponse:
    """The last lines that the trainer printed; with `download` as a text file."""
    job = _job_or_404(run_id)
    lines, problem = _log_lines(job)
    if "download" in request.GET:
        text = "".join(f"{line.text}\n" for line in lines)
        name = f'attachment; filename="run-{job.pk}.log"'
        answer = HttpResponse(text, content_type="text/plain; charset=utf-8")
        answer.headers["Content-Disposition"] = name
        return answer
    context = {"job": job, "page": JobPage(job, db=current_database()), "lines": lines}
    return render(request, "training/job_log.html", context | {"problem": problem})


@require_safe
@role_required(VIEWER)
def job_csv(request: HttpRequest, run_id: int) -> StreamingHttpResponse:
    """All series of the chart."""
    job = _job_or_404(run_id)
    lines = csv_lines(job, db=current_database())
    answer = HttpResponse("".join(lines), content_type="text/csv; charset=utf-8")
    answer.headers["Content-Disposition"] = f'attachment; filename="run-{job.pk}.csv"'
    return answer


def _context(request: HttpRequest, job: TrainingJob, form: EditJobForm) -> dict[str, Any]:
    db = current_database()
    known = SinceForm(request.GET)
    since = known.cleaned_data if known.is_valid() else None
    events_filter = request.GET.get("events", "")
    if events_filter not in EVENT_FILTERS:
        events_filter = ""
    series = read_series(job, db=db)
    chart = chart_since(job, **since, db=db) if since else None
    first = since["since"] if chart is not None else 0
    whole = whole_chart(job, series)
    return {
        "job": job,
        "page": JobPage(job, db=db),
        "form": form,
        "events": _newest(job, EVENT_FILTERS[events_filter], first, db=db),
        "events_filter": events_filter,
        "line": loss_line(*(whole["lines"][name] for name in PAGE_SERIES)),
        "chart": chart or whole,
        "curl": as_curl(job, request),
        "command": as_command(job),
    }


def _newest(job: TrainingJob, types: tuple[str, ...], first: int, *, db: str) -> list[JobEvent]:
    """The last events of these types from seq `first` on, the newest first.

    Type by type, as the index has them: few of another type are found among 100,000 reports.
    """
    events = JobEvent.objects.using(db).filter(run=job, seq__gte=first, seq__lt=job.next_seq)
    found = [
        event for type in types for event in events.filter(type=type).order_by("-seq")[:FEED_ROWS]
    ]
    return sorted(found, key=lambda event: -event.seq)[:FEED_ROWS]


def _log_lines(job: TrainingJob) -> tuple[list[Any], str]:
    if not job.provider_job_id:
        return [], ""
    try:
        return get_provider(job.provider).logs(job.provider_job_id, limit=LOG_LINES), ""
    except GligabaoError as error:
        return [], error.message


def _job_or_404(run_id: int) -> TrainingJob:
    try:
        return jobs.get_job(run_id, db=current_database())
    except NotFound as error:
        raise Http404 from error
