"""`manage.py train`: start a job and watch it to its end."""

from __future__ import annotations

import argparse
import json
from typing import Any

from training.api.serializers import JobSerializer
from training.hyperparams import METHODS
from training.management.row_command import RowCommand, add_user_option, db_option, user_of
from training.management.watching import watch
from training.services.jobs import JobRequest, start_job

KEY_PATH = "manage.py train"  # keys of this command do not meet those of the API


class Command(RowCommand):
    help = "Start a training job and watch it until it ends."

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--dataset", metavar="FILE", help="the sample without it")
        model = parser.add_mutually_exclusive_group()
        model.add_argument("--base-model", metavar="ID")
        model.add_argument("--model-size", metavar="SIZE")
        parser.add_argument("--method", help=f"{', '.join(METHODS)}; lora without it")
        parser.add_argument("--steps", type=int, help="training steps; 100 without it")
        parser.add_argument("--name", help="a name for the job")
        parser.add_argument("--max-seconds", type=int, help="time limit; 7200 without it")
        parser.add_argument(
            "--set",
            action="append",
            default=[],
            type=_setting,
            metavar="NAME=VALUE",
            help="a hyperparameter, such as learning_rate=0.001; may be repeated",
        )
        parser.add_argument("--idempotency-key", metavar="KEY", help="start it only once")
        parser.add_argument("--detach", action="store_true", help="start it and return")
        add_user_option(parser)

    def run(self, db: str, options: dict[str, Any]) -> None:
        started = start_job(
            _request(options),
            db=db,
            user_id=user_of(options["user"]).pk,
            idempotency_key=options["idempotency_key"],
            path=KEY_PATH,
        )
        job = started.job
        if options["detach"]:
            self._say_started(job, options)
            return
        if not self.is_json:
            word = "started" if started.is_new else "was started before"
            self.say(f"Job {job.pk} {word}: {job.base_model} on {job.dataset}. Ctrl-C leaves it.")
        watch(self, job.pk, db=db, from_seq=0, options=options)

    def _say_started(self, job: Any, options: dict[str, Any]) -> None:
        if self.is_json:
            self.say_json(JobSerializer(job).data)
        else:
            self.say(
                f"Job {job.pk} {job.status}. Watch it: "
                f"manage.py follow {job.pk}{db_option(options)}"
            )


def _request(options: dict[str, Any]) -> JobRequest:
    return JobRequest(
        num_train_steps=options["steps"],
        model_size=options["model_size"],
        base_model=options["base_model"],
        dataset=options["dataset"],
        method=options["method"],
        hyperparams=dict(options["set"]) or None,
        max_seconds=options["max_seconds"],
        name=options["name"],
    )


def _setting(text: str) -> tuple[str, Any]:
    """NAME=VALUE; the value is read as JSON, and is a text if it is none."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
