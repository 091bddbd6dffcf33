"""`manage.py infer`: run a prompt through a trained model."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator
from typing import Any

from django.core.management import CommandError

from gligabao.terminal import printable
from training.api.serializers import InferSerializer
from training.management.arguments import count
from training.management.row_command import INTERRUPTED, RowCommand
from training.providers.base import InferEvent
from training.services import trained_models


class Command(RowCommand):
    help = "Ask a trained model, and print its answer as it comes."

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("model_id", type=count)
        parser.add_argument("prompt")
        parser.add_argument("--system", metavar="TEXT", help="instructions before the prompt")
        parser.add_argument("--base", action="store_true", help="ask the base model")
        parser.add_argument("--max-tokens", type=int, default=256)
        parser.add_argument("--temperature", type=float, default=0.0)

    def run(self, db: str, options: dict[str, Any]) -> None:
        asked = _checked(options)
        model = trained_models.get_model(options["model_id"], db=db)
        answer = trained_models.infer(model, **asked)
        try:
            asyncio.run(self._print(answer, model.pk))
        except KeyboardInterrupt:
            raise CommandError("Interrupted.", returncode=INTERRUPTED) from None

    async def _print(self, answer: AsyncIterator[InferEvent], model_id: int) -> None:
        async for event in answer:
            if self.is_json:
                self.say_json(_line(event, model_id))
            elif event.kind == "token":
                self.stdout.write(printable(event.text, keep="\n\t"))
                self.stdout.flush()
            elif event.kind == "note":
                self.note(event.text)
            else:
                self.stdout.write("\n")


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    """The arguments as the service wants them, with the limits of the API."""
    system = [] if options["system"] is None else [("system", options["system"])]
    messages = [*system, ("user", options["prompt"])]
    body = InferSerializer(
        data={
            "messages": [{"role": role, "content": text} for role, text in messages],
            "max_tokens": options["max_tokens"],
            "temperature": options["temperature"],
            "base": options["base"],
        }
    )
    if not body.is_valid():
        name, problems = next(iter(body.errors.items()))
        raise CommandError(f"{name}: {_first(problems)}")
    wanted = ("messages", "max_tokens", "temperature", "base")
    return {name: body.validated_data[name] for name in wanted}


def _first(problems: Any) -> str:
    """The first sentence of a serializer's errors."""
    while not isinstance(problems, str):
        inner = problems.values() if isinstance(problems, dict) else problems
        problems = next(item for item in inner if item)
    return problems


def _line(event: InferEvent, model_id: int) -> dict[str, Any]:
    if event.kind == "done":
        return {
            "type": "done",
            "model_id": model_id,
            "response": event.text,
            "finish_reason": event.finish_reason,
        }
    return {"type": event.kind, "text": event.text}
