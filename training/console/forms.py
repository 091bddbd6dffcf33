"""What the console's pages read from a request."""

from __future__ import annotations

from django import forms

MAX_ID = 2**63 - 1


class PageForm(forms.Form):
    """`before=<id>`: the page of a list that begins below this row."""

    before = forms.IntegerField(required=False, min_value=1, max_value=MAX_ID)
