"""What the pages of datasets read from a request."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from datasets.models import MAX_NAME, MAX_NAME_BYTES

MAX_SEARCH = 200  # characters
MAX_ROW = 2**53


class SearchForm(forms.Form):
    q = forms.CharField(required=False, max_length=MAX_SEARCH)

    @property
    def text(self) -> str:
        return self.cleaned_data["q"] if self.is_valid() else ""


class RowsForm(forms.Form):
    """Which rows of a dataset are shown. Odd values are as if they were not there."""

    offset = forms.IntegerField(required=False, min_value=0, max_value=MAX_ROW)
    line = forms.IntegerField(required=False, min_value=1, max_value=MAX_ROW)
    problems = forms.BooleanField(required=False)

    @property
    def wanted(self) -> dict[str, int | bool | None]:
        self.is_valid()
        return {name: self.cleaned_data.get(name) for name in self.fields}


class UploadForm(forms.Form):
    """`filename` is that of the dataset whose file is replaced; else the file's own counts."""

    file = forms.FileField(label=_("File"), allow_empty_file=True, max_length=1000)
    name = forms.CharField(
        required=False,
        max_length=MAX_NAME,
        label=_("Name"),
        help_text=_("The file's own if empty."),
    )
    description = forms.CharField(
        required=False,
        max_length=2000,
        label=_("Description"),
        widget=forms.Textarea(attrs={"rows": 3}),
    )
    filename = forms.CharField(required=False, max_length=MAX_NAME_BYTES, widget=forms.HiddenInput)
