"""The fields of a new run, as the catalog, the datasets and the hyperparameters have them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from django import forms
from django.conf import settings
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from datasets.models import Dataset, DatasetStatus
from datasets.services import default_dataset
from gligabao.errors import GligabaoError
from training.catalog import base_models
from training.hyperparams import HYPERPARAMS, METHODS, Choice, Range, Switch
from training.models import TrainingJob
from training.providers import get_provider
from training.services.jobs import (
    DEFAULT_MAX_SECONDS,
    DEFAULT_STEPS,
    MAX_MAX_SECONDS,
    MAX_STEPS,
    JobRequest,
    default_base_model,
)

MAX_DATASETS = 500
PREFIX = "hyperparams."  # as in the paths of the API's errors


class DescribedSelect(forms.Select):
    """A select whose options carry attributes: what a script needs, and which cannot be chosen."""

    def __init__(self, described: Mapping[str, Mapping[str, Any]], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.described = described

    def create_option(self, name: str, value: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        option = super().create_option(name, value, *args, **kwargs)
        option["attrs"] |= self.described.get(str(value), {})
        return option


class NewJobForm(forms.Form):
    """Shapes are checked here, what they mean by the service that starts the job."""

    name = forms.CharField(required=False, max_length=200, label=gettext_lazy("Name"))
    num_train_steps = forms.IntegerField(
        min_value=1, max_value=MAX_STEPS, initial=DEFAULT_STEPS, label=gettext_lazy("Steps")
    )
    max_seconds = forms.IntegerField(
        min_value=1,
        max_value=MAX_MAX_SECONDS,
        initial=DEFAULT_MAX_SECONDS,
        label=gettext_lazy("Time limit in seconds"),
    )
    key = forms.CharField(widget=forms.HiddenInput, max_length=64)

    def __init__(self, *args: Any, db: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.provider = settings.DEFAULT_PROVIDER
        self.fields["base_model"] = self._base_model()
        self.fields["dataset"] = self._dataset(db)
        self.fields["method"] = forms.ChoiceField(
            choices=[(method, method) for method in METHODS], label=_("Method")
        )
        for name, allowed in HYPERPARAMS.items():
            self.fields[PREFIX + name] = _field(name, allowed)

    @classmethod
    def values_of(cls, run_id: int, *, db: str) -> dict[str, Any]:
        """The settings of a run as initial values; none if there is no such run."""
        job = TrainingJob.objects.using(db).filter(pk=run_id).first()
        if job is None:
            return {}
        names = ("base_model", "dataset", "method", "num_train_steps", "max_seconds", "name")
        given = {
            PREFIX + name: json.dumps(value) if isinstance(value, bool) else value
            for name, value in job.hyperparams.items()
        }
        return {name: getattr(job, name) for name in names} | given

    def job_request(self) -> JobRequest:
        values = self.cleaned_data
        given = {name: values[PREFIX + name] for name in HYPERPARAMS}
        return JobRequest(
            num_train_steps=values["num_train_steps"],
            base_model=values["base_model"],
            dataset=values["dataset"],
            method=values["method"],
            hyperparams={name: value for name, value in given.items() if value not in (None, "")},
            max_seconds=values["max_seconds"],
            name=values["name"],
        )

    def take_errors(self, error: GligabaoError) -> None:
        """Put what the service said at the fields it names, the rest on top of the form."""
        at_fields = [entry for entry in error.errors if entry.get("path") in self.fields]
        for entry in at_fields:
            self.add_error(entry["path"], entry["message"])
        if not at_fields:
            self.add_error(None, error.message)
        # A key that was refused is not used up, but one that belongs to another body is.
        self.data = self.data.copy()
        self.data["key"] = uuid4().hex

    @property
    def main_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in ("base_model", "dataset", "method", "num_train_steps")]

    @property
    def more_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in ("name", "max_seconds")]

    @property
    def hyperparams(self) -> list[forms.BoundField]:
        return [self[PREFIX + name] for name in HYPERPARAMS]

    @property
    def has_more_open(self) -> bool:
        """Whether something in the folded part is wrong or was filled in."""
        return any(field.errors or field.value() for field in self.hyperparams)

    def _base_model(self) -> forms.ChoiceField:
        has_gpu = get_provider(self.provider).has_gpu
        described, choices = {}, []
        for entry in base_models():
            is_possible = entry.cpu or has_gpu
            described[entry.id] = {} if is_possible else {"disabled": True}
            label = entry.name if is_possible else _("%s (needs a GPU)") % entry.name
            choices.append((entry.id, label))
        return forms.ChoiceField(
            choices=choices,
            initial=default_base_model(),
            label=_("Base model"),
            widget=DescribedSelect(described),
        )

    def _dataset(self, db: str) -> forms.ChoiceField:
        sample = default_dataset(db)
        described, choices = {}, []
        for dataset in Dataset.objects.using(db)[:MAX_DATASETS]:
            is_ready = dataset.status == DatasetStatus.READY
            described[dataset.filename] = {"data-rows": dataset.num_records}
            if not is_ready:
                described[dataset.filename]["disabled"] = True
            what = _("%s rows") % dataset.num_records if is_ready else dataset.get_status_display()
            choices.append((dataset.filename, f"{dataset.filename} ({what})"))
        return forms.ChoiceField(
            choices=choices,
            initial=sample,
            label=_("Dataset"),
            widget=DescribedSelect(described),
            error_messages={
                "invalid_choice": _("There is no dataset “%(value)s” here. Choose another.")
            },
        )


def _field(name: str, allowed: Range | Choice | Switch) -> forms.Field:
    common: dict[str, Any] = {"required": False, "label": name}
    if isinstance(allowed, Choice):
        words = [("", _("as usual: %s") % allowed.default)]
        return forms.ChoiceField(
            choices=[*words, *((word, word) for word in allowed.words_allowed)],
            help_text=allowed.meaning,
            **common,
        )
    if isinstance(allowed, Switch):
        usual = _("yes") if allowed.default else _("no")
        return forms.TypedChoiceField(
            choices=[("", _("as usual: %s") % usual), ("true", _("yes")), ("false", _("no"))],
            coerce=lambda word: word == "true",
            empty_value=None,
            help_text=allowed.meaning,
            **common,
        )
    kind = forms.IntegerField if allowed.kind is int else forms.FloatField
    usual = "" if allowed.default is None else str(allowed.default)
    return kind(
        min_value=allowed.minimum,
        max_value=allowed.maximum,
        help_text=f"{allowed.meaning} {capfirst(allowed.words)}.",
        widget=forms.NumberInput(attrs={"placeholder": usual, "step": "any"}),
        **common,
    )
