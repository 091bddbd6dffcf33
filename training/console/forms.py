"""What the pages of a run read from a request."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from training.models import TrainingJob

MAX_NAME, MAX_NOTE, MAX_TAG, MAX_TAGS = 200, 10_000, 64, 50  # as in the API
EVENT_FILTERS = {
    "": ("status", "log", "checkpoint", "eval", "dataset", "warning"),
    "status": ("status", "warning"),
    "evals": ("eval", "checkpoint"),
    "all": ("status", "progress", "log", "checkpoint", "eval", "dataset", "warning"),
}


class EditJobForm(forms.Form):
    """Name, tags and note of a run; tags are separated by commas."""

    name = forms.CharField(required=False, max_length=MAX_NAME, label=_("Name"))
    tags = forms.CharField(
        required=False, label=_("Tags"), help_text=_("Separated by commas."), max_length=4000
    )
    note = forms.CharField(
        required=False,
        max_length=MAX_NOTE,
        label=_("Note"),
        widget=forms.Textarea(attrs={"rows": 4}),
    )

    def clean_tags(self) -> list[str]:
        tags = [tag.strip() for tag in self.cleaned_data["tags"].split(",")]
        tags = list(dict.fromkeys(tag for tag in tags if tag))
        if len(tags) > MAX_TAGS:
            raise forms.ValidationError(_("At most %(most)s tags.") % {"most": MAX_TAGS})
        for tag in tags:
            if len(tag) > MAX_TAG:
                raise forms.ValidationError(
                    _("“%(tag)s” has more than %(most)s characters.")
                    % {"tag": tag, "most": MAX_TAG}
                )
        return tags

    @classmethod
    def of(cls, job: TrainingJob, data: Any = None) -> EditJobForm:
        initial = {"name": job.name, "tags": ", ".join(map(str, job.tags)), "note": job.note}
        return cls(data, initial=initial, prefix="edit")


class SinceForm(forms.Form):
    """What an open page has already: events below `since`, of this `attempt`."""

    since = forms.IntegerField(min_value=0, max_value=2**53)
    attempt = forms.IntegerField(min_value=1, max_value=2**31)
