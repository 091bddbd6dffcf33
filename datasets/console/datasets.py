"""The pages of datasets: the list, and one dataset with its report and its rows."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
    StreamingHttpResponse,
)
from django.shortcuts import render
from django.utils.http import content_disposition_header
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from datasets import services
from datasets.console.explanations import EXPLANATIONS
from datasets.console.forms import RowsForm, SearchForm
from datasets.models import Dataset, DatasetStatus
from gligabao.access import ADMIN, VIEWER
from gligabao.console.pages import page_url, role_required
from gligabao.databases import current_database
from gligabao.errors import DatasetDamaged, GligabaoError, NotFound

LISTED = 50
ROWS = 20
BLOCK_BYTES = 1 << 20
# What of a message is not its text: shown as JSON beside it.
OWN_KEYS = ("role", "content")


@require_safe
@never_cache
@role_required(VIEWER)
def dataset_list(request: HttpRequest) -> HttpResponse:
    datasets = Dataset.objects.using(current_database())
    text = SearchForm(request.GET).text
    if text:
        datasets = datasets.filter(
            Q(filename__icontains=text) | Q(name__icontains=text) | Q(description__icontains=text)
        )
    page = Paginator(datasets, LISTED).get_page(request.GET.get("page"))
    context = {"page": page, "datasets": list(page), "text": text}
    return render(request, "datasets/dataset_list.html", context)


@require_safe
@never_cache
@role_required(VIEWER)
def dataset_detail(request: HttpRequest, filename: str) -> HttpResponse:
    db = current_database()
    dataset = _dataset_or_404(filename)
    wanted = RowsForm(request.GET).wanted
    shown, problem = _rows(dataset, wanted, db)
    status = services.live_status(dataset, db=db)
    first = shown["rows"][0]["index"] if shown["rows"] else 0
    context = {
        "dataset": dataset,
        "status": DatasetStatus(status),
        "is_ready": status == DatasetStatus.READY,
        "errors": dataset.report.get("errors", ()),
        "warnings": dataset.report.get("warnings", ()),
        "codes": [
            (code, EXPLANATIONS.get(code, ""), number)
            for code, number in (dataset.report.get("codes") or {}).items()
        ],
        "rows": [_shown(row) for row in shown["rows"]],
        "problem": problem,
        "only_problems": bool(wanted["problems"]),
        "first": first,
        "previous": max(0, first - ROWS) if first else None,
        "next": shown["next"],
    }
    return render(request, "datasets/dataset_detail.html", context)


@require_safe
@role_required(VIEWER)
def dataset_download(request: HttpRequest, filename: str) -> HttpResponse:
    """The bytes that were uploaded."""
    dataset = _dataset_or_404(filename)
    try:
        path = services.stored_path(dataset, db=current_database())
    except DatasetDamaged as error:
        messages.error(request, error.message)
        return HttpResponseRedirect(page_url("console:dataset", filename))
    answer = StreamingHttpResponse(_blocks(path), content_type="application/x-ndjson")
    answer.headers["Content-Length"] = str(path.stat().st_size)
    answer.headers["Content-Disposition"] = content_disposition_header(True, dataset.filename)
    return answer


@require_POST
@role_required(ADMIN)
def dataset_delete(request: HttpRequest, filename: str) -> HttpResponse:
    try:
        services.delete(filename, db=current_database())
    except NotFound as error:
        raise Http404 from error
    except GligabaoError as error:
        messages.error(request, error.message)
        return HttpResponseRedirect(page_url("console:dataset", filename))
    messages.success(request, _("%(name)s is deleted.") % {"name": filename})
    return HttpResponseRedirect(page_url("console:datasets"))


def _dataset_or_404(filename: str) -> Dataset:
    try:
        return services.get_dataset(filename.replace("\x00", ""), db=current_database())
    except NotFound as error:
        raise Http404 from error


def _rows(
    dataset: Dataset, wanted: dict[str, int | bool | None], db: str
) -> tuple[dict[str, Any], str]:
    try:
        shown = services.rows(
            dataset,
            offset=int(wanted["offset"] or 0),
            limit=ROWS,
            problems=bool(wanted["problems"]),
            line=wanted["line"],
            with_source=True,
            db=db,
        )
    except DatasetDamaged as error:
        return {"rows": [], "next": None}, error.message
    return shown, ""


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """A row for the template: its turns, each with whether the trainer learns it."""
    turns = [
        {
            "role": message["role"],
            "text": message.get("content"),
            "is_trained": message["role"] == "assistant",
            "more": [(key, _json(value)) for key, value in message.items() if key not in OWN_KEYS],
        }
        for message in row.get("messages", ())
    ]
    if "text" in row:  # plain text is learned from its first word to its last
        turns = [{"role": _("text"), "text": row["text"], "is_trained": True, "more": []}]
    return {
        **row,
        "turns": turns,
        "num_hidden": row.get("num_messages", 0) - len(row.get("messages", ())),
        "tools_json": _json(row["tools"]) if row.get("tools") else "",
    }


def _json(value: Any) -> str:
    """Texts that were cut are told as text; all else as JSON."""
    if isinstance(value, dict) and "is_cut" in value:
        return value["text"]
    return json.dumps(value, ensure_ascii=False, indent=1)


async def _blocks(path: Path) -> AsyncIterator[bytes]:
    file = await sync_to_async(path.open)("rb")
    try:
        while block := await sync_to_async(file.read)(BLOCK_BYTES):
            yield block
    finally:
        file.close()
