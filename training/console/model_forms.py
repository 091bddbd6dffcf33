"""What the pages of models read from a request."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from training.api.serializers import MAX_NEW_TOKENS, MAX_PROMPT_CHARACTERS
from training.models import TrainedModel


class EditModelForm(forms.Form):
    name = forms.CharField(max_length=200, label=_("Name"))
    note = forms.CharField(
        required=False, max_length=10_000, label=_("Note"), widget=forms.Textarea(attrs={"rows": 4})
    )

    @classmethod
    def of(cls, model: TrainedModel, data: Any = None) -> EditModelForm:
        return cls(data, initial={"name": model.name, "note": model.note}, prefix="edit")


class AskForm(forms.Form):
    """A question for the playground; as the API has it."""

    system = forms.CharField(
        required=False,
        max_length=MAX_PROMPT_CHARACTERS,
        label=_("System text (may be empty)"),
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    prompt = forms.CharField(
        max_length=MAX_PROMPT_CHARACTERS,
        label=_("Prompt"),
        widget=forms.Textarea(attrs={"rows": 5}),
    )
    max_tokens = forms.IntegerField(
        min_value=1, max_value=MAX_NEW_TOKENS, initial=256, label=_("Most tokens")
    )
    temperature = forms.FloatField(min_value=0, max_value=2, initial=0, label=_("Temperature"))
    base = forms.BooleanField(required=False, initial=True, label=_("Also ask the base model"))

    @property
    def messages(self) -> list[dict[str, str]]:
        values = self.cleaned_data
        system = [{"role": "system", "content": values["system"]}] if values["system"] else []
        return [*system, {"role": "user", "content": values["prompt"]}]
