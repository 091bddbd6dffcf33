"""`python -m trainer --spec FILE`: run one job. Exit codes: see `README.md`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from .errors import SpecRefused
from .run import run_job
from .spec import read_spec

EXIT_REFUSED = 2
KEY_VARIABLE = "GLIGABAO_SPEC_KEY"


def main(arguments: list[str] | None = None) -> int:
    """Check the spec before anything heavy is loaded, then run the job."""
    parser = argparse.ArgumentParser(prog="trainer", description="Fine-tune one model.")
    parser.add_argument("--spec", type=Path, required=True, help="the signed job spec")
    parser.add_argument("--unsigned", action="store_true", help="accept a bare spec")
    parser.add_argument("--job-dir", type=Path, default=Path(), help="default: this folder")
    options = parser.parse_args(arguments)
    try:
        key = _spec_key()
        spec = read_spec(options.spec, key, unsigned=options.unsigned)
    except SpecRefused as error:
        print(f"The job was refused. {error}", file=sys.stderr)
        return EXIT_REFUSED
    return run_job(spec, options.job_dir.resolve(), secrets=(key,) if key else ())


def _spec_key() -> str | None:
    if key := os.environ.pop(KEY_VARIABLE, ""):  # no child process needs it
        return key
    file = os.environ.get(f"{KEY_VARIABLE}_FILE", "")
    if not file:
        return None
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SpecRefused(f"The key file cannot be read: {error.strerror}.") from error


if __name__ == "__main__":
    sys.exit(main())
