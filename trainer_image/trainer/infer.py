"""`python -m trainer.infer`: answers with a base model, or with an adapter on it.

By hand: `--model-id ID [--adapter DIR] --prompt TEXT`. As a server: `--serve`.
Both need GLIGABAO_MODELS_DIR.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .base_models import KNOWN, models_dir_from_environment
from .device import prepare_environment
from .errors import JobFailed


def main(arguments: list[str] | None = None) -> int:
    """Serve, or answer one prompt."""
    options = _parse(arguments)
    # Only models of the hub need it, and those are fetched by a step of their own.
    prepare_environment(offline=True)
    try:
        models_dir = models_dir_from_environment()
        if options.serve:
            from .inference_server import serve  # heavy

            serve(options.state_file, models_dir, idle_seconds=options.idle_seconds)
            return 0
        return _answer_once(options, models_dir)
    except JobFailed as error:
        print(error.message, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="trainer.infer", description="Generate answers.")
    parser.add_argument("--serve", action="store_true", help="answer on a loopback port")
    parser.add_argument("--state-file", type=Path, help="with --serve: where port and key are put")
    parser.add_argument("--idle-seconds", type=float, default=300.0, help="with --serve")
    parser.add_argument("--model-id", choices=sorted(KNOWN), help="the base model")
    parser.add_argument("--adapter", type=Path, help="folder of an adapter or a full model")
    parser.add_argument("--prompt", help="what to ask")
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--temperature", type=float, default=0.0)
    options = parser.parse_args(arguments)
    if options.serve and not options.state_file:
        parser.error("--serve needs --state-file")
    if not options.serve and not (options.model_id and options.prompt):
        parser.error("--model-id and --prompt are needed (or --serve)")
    return options


def _answer_once(options: argparse.Namespace, models_dir: Path) -> int:
    from .adapters import AdapterInvalid  # heavy from here on
    from .generation import Generator, Listener, Question, RequestRefused

    question = Question(
        base=KNOWN[options.model_id],
        messages=[{"role": "user", "content": options.prompt}],
        adapter_dir=options.adapter,
        max_tokens=options.max_tokens,
        temperature=options.temperature,
    )
    listener = Listener(
        on_text=lambda text: print(text, end="", flush=True),
        on_note=lambda text: print(text, file=sys.stderr),
    )
    try:
        Generator(models_dir).answer(question, listener)
    except (AdapterInvalid, RequestRefused) as error:
        print(error, file=sys.stderr)
        return 1
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
