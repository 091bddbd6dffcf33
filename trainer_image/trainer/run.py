"""One job from its accepted spec to its last report, top to bottom."""

from __future__ import annotations

import sys
import traceback
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from . import __version__
from .base_models import BaseModel, ensure, models_dir_from_environment
from .data import load_examples
from .device import pick_device, prepare_environment
from .errors import Stopped, as_job_failure
from .reporter import Reporter
from .secret_text import SecretText
from .spec import JobSpec
from .stop import StopSignal
from .uploads import Uploader, UploadGivenUp

EXIT_OK = 0  # completed, or cancelled on request
EXIT_FAILED = 1
SIGNAL_BASE = 128  # what a shell adds to the number of a signal

OUTPUT = "output"
EVENTS = "events.jsonl"
STOP_FILE = "stop"
LIBRARIES = ("torch", "transformers", "peft", "trl")


def run_job(spec: JobSpec, job_dir: Path, *, secrets: tuple[str, ...] = ()) -> int:
    """Run the job in `job_dir`, report how it went, and return the exit code."""
    secret_text = SecretText(spec.job_token, *secrets)
    stop = StopSignal(job_dir / STOP_FILE, max_seconds=spec.max_seconds)
    stop.listen_to_signals()
    reporter = Reporter(
        job_dir / EVENTS,
        callback_url=spec.callback_url,
        job_token=spec.job_token,
        secret_text=secret_text,
        on_stop=stop.ask,
    )
    try:
        reporter.status("running", versions=_versions())
        return _run_reported(spec, job_dir, reporter=reporter, stop=stop, secret_text=secret_text)
    finally:
        reporter.close()


def _run_reported(
    spec: JobSpec,
    job_dir: Path,
    *,
    reporter: Reporter,
    stop: StopSignal,
    secret_text: SecretText,
) -> int:
    """Do the work and report its end, however it comes."""
    try:
        completed = _work(spec, job_dir, reporter=reporter, stop=stop, secret_text=secret_text)
    except Stopped:
        if stop.is_asked:
            reporter.status("cancelled")
            return EXIT_OK
        # The machine takes us away: not an end of the job, so no final report.
        return SIGNAL_BASE + (stop.signal_number or 0)
    except Exception as error:
        print(secret_text.clean(traceback.format_exc()), file=sys.stderr, flush=True)
        failure = as_job_failure(error)
        reporter.status("failed", reason=failure.reason, error=failure.message)
        return EXIT_FAILED
    reporter.status("completed", **completed)
    return EXIT_OK


def _work(
    spec: JobSpec,
    job_dir: Path,
    *,
    reporter: Reporter,
    stop: StopSignal,
    secret_text: SecretText,
) -> dict[str, Any]:
    """Train, save and upload. Returns the fields of the `completed` report."""
    prepare_environment(offline=spec.model_source != "huggingface")
    base = BaseModel(spec.model_id, spec.revision, spec.model_source, spec.model)
    model_dir = ensure(base, models_dir_from_environment(), check=stop.check, say=_say)
    stop.check()

    from transformers import AutoTokenizer  # heavy: the first report is out by now

    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    examples = load_examples(
        Path(spec.dataset_path),
        tokenizer,
        sha256=spec.dataset_sha256,
        row_format=spec.dataset_format,
        max_length=min(spec.hyperparams.max_length, tokenizer.model_max_length),
        check=stop.check,
    )
    reporter.report("dataset", **examples.report())
    if examples.num_dropped:
        reporter.report("warning", code="examples_dropped", message=examples.dropped_message)

    from .artifacts import save_artifacts
    from .sft import train  # heavy: loads torch, peft and trl

    stop.check()
    device = pick_device()
    result = train(
        spec,
        model_dir,
        tokenizer=tokenizer,
        examples=examples,
        device=device,
        reporter=reporter,
        stop=stop,
    )
    summary = {
        "final_loss": result.final_loss,
        "last_loss": result.last_loss,
        "steps": result.steps,
        "tokens": result.tokens,
        "num_examples": len(examples.encoded),
        "params": asdict(spec.hyperparams) | {"seed": spec.seed},
    }
    files = save_artifacts(
        job_dir / OUTPUT,
        spec,
        model=result.model,
        tokenizer=tokenizer,
        training={
            "spec": spec.public_fields(),
            "versions": _versions(),
            "device": device.name,
            "dtype": device.dtype_name,
            "dataset": examples.report(),
            "result": summary,
        },
    )
    stop.check()
    size_bytes = sum(file.size_bytes for file in files)
    reporter.status("uploading", num_files=len(files), size_bytes=size_bytes)
    if spec.uploads:
        uploader = Uploader(
            spec.uploads, job_token=spec.job_token, secret_text=secret_text, stop=stop
        )
        try:
            uploader.upload(job_dir / OUTPUT, files)
        except UploadGivenUp as error:
            reporter.report(
                "warning",
                code="upload_incomplete",
                message=f"Not everything could be uploaded ({error}); "
                "the files wait in the job's output folder.",
            )
    return summary | {"files": [asdict(file) for file in files]}


def _versions() -> dict[str, str]:
    python = ".".join(map(str, sys.version_info[:3]))
    return {"trainer": __version__, "python": python} | {name: version(name) for name in LIBRARIES}


def _say(text: str) -> None:
    print(text, flush=True)
