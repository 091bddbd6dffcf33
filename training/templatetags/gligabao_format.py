"""Tags and filters about jobs, for the console's templates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import template
from django.db.models import Count
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from gligabao.databases import current_database, name_of
from gligabao.errors import GligabaoError
from training.catalog import base_models
from training.console.numbers import measured
from training.event_text import SHOWN_FIELDS
from training.event_text import event_text as text_of_event
from training.models import JobEvent, TrainingJob
from training.services.jobs import default_base_model
from training.services.token_statistics import checked_max_length, token_statistics
from training.token_summary import TokenSummary, summary

register = template.Library()

STATUS_ICONS = {
    "queued": "clock",
    "completed": "check",
    "failed": "cross",
    "cancelled": "stop",
}
NUM_RUNS = 10
SPARK_WIDTH, SPARK_HEIGHT, SPARK_MARGIN = 96, 26, 2


@register.filter
def event_text(event: JobEvent) -> str:
    return text_of_event(event.type, event.data, attempt=event.attempt)


@register.simple_tag
def feed_types() -> str:
    """The types of events that the live feed tells."""
    return " ".join(SHOWN_FIELDS)


@register.simple_tag
def active_runs() -> int:
    """How many jobs of this page's database are not over."""
    return TrainingJob.objects.using(current_database()).unfinished().count()


@register.inclusion_tag("components/status_pill.html")
def status_pill(job: TrainingJob) -> dict[str, Any]:
    """A job's status as icon, word and colour."""
    return {
        "job": job,
        "icon": STATUS_ICONS.get(job.status, "ring"),
        "is_busy": job.status not in STATUS_ICONS,
    }


@register.simple_tag
def runs_by_dataset(datasets: Sequence[Any]) -> dict[str, int]:
    """How many runs used each of these datasets."""
    names = [dataset.filename for dataset in datasets]
    jobs = TrainingJob.objects.using(current_database()).filter(dataset__in=names).order_by()
    found = dict(jobs.values_list("dataset").annotate(number=Count("pk")))
    return {name: found.get(name, 0) for name in names}


@register.simple_tag
def runs_of_dataset(dataset: Any) -> list[TrainingJob]:
    """The newest runs that used a dataset."""
    jobs = TrainingJob.objects.using(current_database()).filter(dataset=dataset.filename)
    return list(jobs.order_by("-pk")[:NUM_RUNS])


@register.inclusion_tag("training/_dataset_tokens.html", takes_context=True)
def dataset_tokens(context: template.Context, dataset: Any) -> dict[str, Any]:
    """The card of a dataset's tokens, in those of the base model that the address names."""
    known = {entry.id for entry in base_models()}
    chosen = context["request"].GET.get("tokens", "")
    base_model_id = chosen if chosen in known else default_base_model()
    try:
        row = token_statistics(dataset.filename, base_model_id, db=current_database())
    except GligabaoError as error:
        return {"problem": error.message}
    max_length = checked_max_length(None, base_model_id)
    found = summary(row.lengths, row.firsts, max_length=max_length)
    return {
        "row": row,
        "summary": found,
        "bars": _bars(found),
        "limit_x": _limit_x(found),
        "models": base_models(),
        "chosen": base_model_id,
        "database": name_of(current_database()),
    }


def _bars(found: TokenSummary) -> list[dict[str, Any]]:
    """Of each bin a bar in a picture of 300 by 100."""
    highest = max((one.count for one in found.bins), default=0)
    width = 300 / max(1, len(found.bins))
    return [
        {
            "x": f"{index * width + 0.5:.1f}",
            "width": f"{width - 1:.1f}",
            "y": f"{100 - 100 * one.count / highest:.1f}",
            "height": f"{100 * one.count / highest:.1f}",
            "words": f"{one.start}-{one.stop - 1}: {one.count}",
        }
        for index, one in enumerate(found.bins)
    ]


def _limit_x(found: TokenSummary) -> str:
    """Where the longest length that trains lies; empty if all examples are shorter."""
    end = found.bins[-1].stop if found.bins else 0
    return f"{300 * found.max_length / end:.1f}" if found.max_length < end else ""


@register.simple_tag
def spark(points: Sequence[Sequence[float]]) -> SafeString | str:
    """A small loss curve. The numbers beside it say what matters, so it is hidden from readers."""
    if len(points) < 2:
        return ""
    steps, values = zip(*points, strict=True)
    places = " ".join(
        f"{_scaled(step, steps, SPARK_WIDTH):g},"
        f"{SPARK_HEIGHT - _scaled(value, values, SPARK_HEIGHT):g}"
        for step, value in points
    )
    return format_html(
        '<svg class="spark" viewBox="0 0 {} {}" aria-hidden="true"><polyline points="{}"/></svg>',
        SPARK_WIDTH,
        SPARK_HEIGHT,
        places,
    )


def _scaled(value: float, among: Sequence[float], length: int) -> float:
    low, high = min(among), max(among)
    share = (value - low) / (high - low) if high > low else 0.5
    return round(SPARK_MARGIN + share * (length - 2 * SPARK_MARGIN), 1)


@register.filter
def short(value: float | None) -> str:
    """A measured number with four digits."""
    return "-" if value is None else measured(value)


@register.simple_tag
def chart_words() -> dict[str, str]:
    """What static/js/line_chart.js and job_detail.js say, in the reader's language."""
    return {
        "step": _("step"),
        "of": _("of"),
        "at": _("at"),
        "smoothed": _("smoothed"),
        "noNumber": _("no number"),
        "noData": _("No numbers yet"),
        "chart": _("Training curve; arrow keys read it, plus and minus zoom"),
        "loss": _("Loss"),
        "eval_loss": _("Eval loss"),
        "learning_rate": _("Learning rate"),
        "grad_norm": _("Gradient norm"),
        "tokens_per_second": _("Tokens per second"),
        "mean_token_accuracy": _("Token accuracy"),
        "memory_gib": _("Memory in GiB"),
        "gpu_memory_gib": _("GPU memory in GiB"),
        "seconds": _("time"),
        "tokens": _("tokens"),
    }
