"""The same run once more: as a call of the API and as a command, ready to be copied."""

from __future__ import annotations

import json
import shlex
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from gligabao.databases import STANDARD, current_database, name_of
from training.models import TrainingJob


def as_curl(job: TrainingJob, request: HttpRequest) -> str:
    """Every value quoted for a shell; the token is the reader's own."""
    database = name_of(current_database())
    query = "" if database == STANDARD else f"?db={database}"
    address = request.build_absolute_uri(reverse("training-api:jobs")) + query
    return " \\\n  ".join(
        (
            f"curl {shlex.quote(address)}",
            '-H "Authorization: Bearer $GLIGABAO_TOKEN"',
            "-H 'Content-Type: application/json'",
            f"-d {shlex.quote(json.dumps(_body(job), ensure_ascii=False))}",
        )
    )


def as_command(job: TrainingJob) -> str:
    database = name_of(current_database())
    pairs = [f"{name}={json.dumps(value)}" for name, value in job.hyperparams.items()]
    options = [
        f"--base-model {shlex.quote(job.base_model)}",
        f"--dataset {shlex.quote(job.dataset)}",
        f"--method {shlex.quote(job.method)}",
        f"--steps {job.num_train_steps}",
        f"--max-seconds {job.max_seconds}",
        *([f"--name {shlex.quote(job.name)}"] if job.name else []),
        *(f"--set {shlex.quote(pair)}" for pair in pairs),
        *([] if database == STANDARD else [f"--db {shlex.quote(database)}"]),
    ]
    return " \\\n  ".join(["manage.py train", *options])


def _body(job: TrainingJob) -> dict[str, Any]:
    return {
        "base_model": job.base_model,
        "dataset": job.dataset,
        "method": job.method,
        "provider": job.provider,
        "num_train_steps": job.num_train_steps,
        "max_seconds": job.max_seconds,
        **({"name": job.name} if job.name else {}),
        "hyperparams": job.hyperparams,
    }
