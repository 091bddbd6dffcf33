"""The pages of trained models: the list, and one model with its playground and its files."""

from __future__ import annotations

from typing import Any

from asgiref.sync import async_to_sync
from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from gligabao.access import ADMIN, TRAINER, VIEWER, has_role
from gligabao.console.pages import page_url, role_required
from gligabao.databases import current_database
from gligabao.errors import GligabaoError, NotFound
from training.api.trained_models import whole_answer
from training.catalog import base_models
from training.console.job_page import setting_text
from training.console.job_rows import loss_text
from training.console.model_calls import as_curl, as_python, infer_address
from training.console.model_forms import AskForm, EditModelForm
from training.models import TrainedModel
from training.services import trained_models

LISTED = 50
EXAMPLE_PROMPT = "What is gligabao?"


@require_safe
@never_cache
@role_required(VIEWER)
def model_list(request: HttpRequest) -> HttpResponse:
    models = TrainedModel.objects.using(current_database()).select_related("run")
    text = request.GET.get("q", "").replace("\x00", "")[:200]
    if text:
        models = models.filter(
            Q(name__icontains=text) | Q(note__icontains=text) | Q(dataset__icontains=text)
        )
    page = Paginator(models, LISTED).get_page(request.GET.get("page"))
    rows = [{"model": model, "final_loss": loss_text(model.final_loss)} for model in page]
    context = {"page": page, "rows": rows, "text": text}
    return render(request, "training/model_list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@role_required(VIEWER)
def model_detail(request: HttpRequest, model_id: int) -> HttpResponse:
    """The playground. A POST answers in the page, for browsers without a script."""
    model = _model_or_404(model_id)
    if request.method != "POST":
        return _page(request, model, AskForm())
    if not has_role(request.user, TRAINER):
        return HttpResponseRedirect(page_url("console:model", model_id))
    form = AskForm(request.POST)
    if not form.is_valid():
        return _page(request, model, form, status=400)
    wanted = [False, True] if form.cleaned_data["base"] else [False]
    answers = {base: _asked(model, form, base=base) for base in wanted}
    return _page(request, model, form, answers=answers)


@require_safe
@role_required(VIEWER)
def model_files(request: HttpRequest, model_id: int) -> HttpResponse:
    context = _context(request, _model_or_404(model_id)) | {"tab": "files"}
    return render(request, "training/model_files.html", context)


@require_POST
@role_required(TRAINER)
def model_edit(request: HttpRequest, model_id: int) -> HttpResponse:
    model = _model_or_404(model_id)
    form = EditModelForm.of(model, request.POST)
    if not form.is_valid():
        return _page(request, model, AskForm(), edit=form, status=400)
    trained_models.update_model(model_id, form.cleaned_data, db=current_database())
    messages.success(request, _("Saved."))
    return HttpResponseRedirect(page_url("console:model", model_id))


@require_POST
@role_required(ADMIN)
def model_delete(request: HttpRequest, model_id: int) -> HttpResponse:
    try:
        trained_models.delete_model(model_id, db=current_database())
    except NotFound as error:
        raise Http404 from error
    messages.success(request, _("The model and its files are deleted."))
    return HttpResponseRedirect(page_url("console:models"))


def _asked(model: TrainedModel, form: AskForm, *, base: bool) -> dict[str, Any]:
    """One answer, or the sentence that says why there is none."""
    values = form.cleaned_data
    try:
        answer = trained_models.infer(
            model,
            messages=form.messages,
            max_tokens=values["max_tokens"],
            temperature=values["temperature"],
            base=base,
        )
        return async_to_sync(whole_answer)(answer)
    except GligabaoError as error:
        return {"problem": error.message}


def _page(
    request: HttpRequest,
    model: TrainedModel,
    form: AskForm,
    *,
    edit: EditModelForm | None = None,
    answers: dict[bool, dict[str, Any]] | None = None,
    status: int = 200,
) -> HttpResponse:
    address = infer_address(model, request)
    prompt = form["prompt"].value() or EXAMPLE_PROMPT
    context = _context(request, model) | {
        "tab": "playground",
        "form": form,
        "edit": edit or EditModelForm.of(model),
        "tuned": (answers or {}).get(False),
        "untuned": (answers or {}).get(True),
        "address": address,
        "curl": as_curl(address, prompt),
        "python": as_python(address, prompt),
    }
    return render(request, "training/model_detail.html", context, status=status)


def _context(request: HttpRequest, model: TrainedModel) -> dict[str, Any]:
    names = {entry.id: entry.name for entry in base_models()}
    return {
        "model": model,
        "base_name": names.get(model.base_model_id, model.base_model_id),
        "final_loss": loss_text(model.final_loss),
        "settings": [(name, setting_text(value)) for name, value in model.params.items()],
    }


def _model_or_404(model_id: int) -> TrainedModel:
    try:
        return trained_models.get_model(model_id, db=current_database())
    except NotFound as error:
        raise Http404 from error
