"""The call of a model as curl and as Python, ready to be copied."""

from __future__ import annotations

import json
import shlex

from django.http import HttpRequest
from django.urls import reverse

from gligabao.databases import STANDARD, current_database, name_of
from training.models import TrainedModel

PYTHON = """\
import json, os, urllib.request

request = urllib.request.Request(
    {address!r},
    data=json.dumps({{"prompt": {prompt!r}, "max_tokens": 256}}).encode(),
    headers={{
        "Authorization": "Bearer " + os.environ["GLIGABAO_TOKEN"],
        "Content-Type": "application/json",
    }},
)
with urllib.request.urlopen(request, timeout=300) as answer:
    print(json.load(answer)["response"])
"""


def infer_address(model: TrainedModel, request: HttpRequest) -> str:
    database = name_of(current_database())
    query = "" if database == STANDARD else f"?db={database}"
    path = reverse("training-api:model-infer", args=[model.pk])
    return request.build_absolute_uri(path) + query


def as_curl(address: str, prompt: str) -> str:
    body = json.dumps({"prompt": prompt, "stream": True}, ensure_ascii=False)
    return (
        f"curl -N {shlex.quote(address)} \\\n"
        '  -H "Authorization: Bearer $GLIGABAO_TOKEN" \\\n'
        "  -H 'Content-Type: application/json' \\\n"
        f"  -d {shlex.quote(body)}"
    )


def as_python(address: str, prompt: str) -> str:
    return PYTHON.format(address=address, prompt=prompt)
