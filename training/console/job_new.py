"""The form that starts a run."""

from __future__ import annotations

from uuid import uuid4

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from gligabao.access import TRAINER
from gligabao.console.pages import page_url, role_required
from gligabao.databases import current_database
from gligabao.errors import GligabaoError
from training.catalog import base_models
from training.console.job_form import NewJobForm
from training.providers import get_provider
from training.services import jobs

KEY_PATH = "/console/jobs/new/"  # keys of this form do not meet those of the API


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@role_required(TRAINER)
def job_new(request: HttpRequest) -> HttpResponse:
    db = current_database()
    if request.method != "POST":
        return _page(request, NewJobForm(db=db, initial=_initial(request, db)))
    form = NewJobForm(request.POST, db=db)
    if not form.is_valid():
        return _page(request, form, status=400)
    try:
        started = jobs.start_job(
            form.job_request(),
            db=db,
            user_id=request.user.pk,
            idempotency_key=form.cleaned_data["key"],
            path=KEY_PATH,
        )
    except GligabaoError as error:
        form.take_errors(error)
        return _page(request, form, status=error.http_status)
    if started.is_new:
        messages.success(request, _("Run %(id)s is queued.") % {"id": started.job.pk})
    return HttpResponseRedirect(page_url("console:job", started.job.pk))


def _initial(request: HttpRequest, db: str) -> dict[str, object]:
    """What the address asks for; with `like=<id>` the settings of that run."""
    initial: dict[str, object] = {"key": uuid4().hex}
    like = request.GET.get("like", "")
    if like.isascii() and like.isdecimal() and len(like) < 19:
        initial |= NewJobForm.values_of(int(like), db=db)
    for name in ("base_model", "dataset"):
        if request.GET.get(name):
            initial[name] = request.GET[name]
    return initial


def _page(request: HttpRequest, form: NewJobForm, status: int = 200) -> HttpResponse:
    provider = get_provider(form.provider)
    context = {
        "form": form,
        "provider": provider,
        "defaults": {
            entry.id: {method: entry.defaults_of(method) for method in entry.methods}
            for entry in base_models()
        },
    }
    return render(request, "training/job_new.html", context, status=status)
