"""The page that takes a file, and says what is wrong with it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from datasets.console.explanations import EXPLANATIONS
from datasets.console.forms import UploadForm
from datasets.services import Outcome, save_upload
from gligabao.access import TRAINER
from gligabao.console.pages import page_url, role_required
from gligabao.databases import current_database
from gligabao.errors import GligabaoError


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@role_required(TRAINER)
def dataset_upload(request: HttpRequest) -> HttpResponse:
    """Who may send a file, and how large, is settled before this is asked (gligabao/gate.py)."""
    if request.method != "POST":
        initial = {name: request.GET.get(name, "") for name in ("filename", "name", "description")}
        return _page(request, UploadForm(initial=initial))
    form = UploadForm(request.POST, request.FILES)
    if not form.is_valid():
        return _page(request, form, status=400)
    values = form.cleaned_data
    try:
        dataset, outcome = save_upload(
            values["file"].file,
            filename=values["filename"] or values["file"].name,
            name=values["name"] or None,
            description=values["description"] or None,
            db=current_database(),
            max_bytes=settings.MAX_UPLOAD_BYTES,
        )
    except GligabaoError as error:
        return _page(request, form, error=error, status=error.http_status)
    messages.success(request, _said(outcome) % {"name": dataset.filename})
    return HttpResponseRedirect(page_url("console:dataset", dataset.filename))


def _said(outcome: Outcome) -> str:
    return {
        Outcome.CREATED: _("%(name)s is uploaded and ready."),
        Outcome.CHANGED: _("%(name)s has new content. Runs that used the old one keep it."),
        Outcome.SAME: _("%(name)s had just this content already."),
    }[outcome]


def _page(
    request: HttpRequest,
    form: UploadForm,
    *,
    error: GligabaoError | None = None,
    status: int = 200,
) -> HttpResponse:
    context: dict[str, Any] = {"form": form, "max_bytes": settings.MAX_UPLOAD_BYTES}
    if error is not None:
        report = error.as_json()
        codes = report.get("codes") or {error.code: 1}
        context |= {
            "error": error.message,
            "report": report,
            "codes": [(code, EXPLANATIONS.get(code, ""), number) for code, number in codes.items()],
        }
    return render(request, "datasets/dataset_upload.html", context, status=status)
