"""One job from its accepted spec to its last report, top to bottom."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import __version__
from .artifacts import Artifact, list_artifacts, save_model
from .base_models import BaseModel, ensure, models_dir_from_environment
from .data import Examples, load_examples
from .device import Device, check_method, pick_device, prepare_environment
from .errors import Stopped, as_job_failure
from .reporter import CLOSE_SECONDS, Reporter
from .room import Written, write_when_there_is_room
from .secret_text import SecretText
from .spec import JobSpec
from .stop import StopSignal
from .uploads import Uploader, UploadGivenUp

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from .sft import TrainResult

EXIT_OK = 0  # completed, or cancelled on request
EXIT_FAILED = 1
STOPPED_CLOSE_SECONDS = 10.0
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
        return JobRun(spec, job_dir, reporter, stop, secret_text).to_its_end()
    finally:
        # Whoever asked for the end may use force soon, and the log has everything.
        reporter.close(STOPPED_CLOSE_SECONDS if stop.is_set else CLOSE_SECONDS)


@dataclass(frozen=True)
class JobRun:
    """The work of one job, and what all of its steps need."""

    spec: JobSpec
    job_dir: Path
    reporter: Reporter
    stop: StopSignal
    secret_text: SecretText

    def to_its_end(self) -> int:
        """Do the work and report its end, however it comes. Returns the exit code."""
        try:
            completed = self._work()
        except Stopped:
            if self.stop.is_asked:
                self.reporter.status("cancelled")
                return EXIT_OK
            # The machine takes us away: not an end of the job, so no final report.
            return SIGNAL_BASE + (self.stop.signal_number or 0)
        except Exception as error:
            print(self.secret_text.clean(traceback.format_exc()), file=sys.stderr, flush=True)
            failure = as_job_failure(error)
            self.reporter.status("failed", reason=failure.reason, error=failure.message)
            return EXIT_FAILED
        self.reporter.status("completed", **completed)
        return EXIT_OK

    def _work(self) -> dict[str, Any]:
        """Fetch, train, save and upload. Returns the fields of the `completed` report."""
        prepare_environment(offline=self.spec.model_source != "huggingface")
        device = pick_device()
        check_method(self.spec.method, device)
        model_dir = self._fetch_model()

        from transformers import AutoTokenizer  # heavy: the first report is out by now

        tokenizer = AutoTokenizer.from_pretrained(model_dir)
        examples = self._load_examples(tokenizer)

        from .sft import train  # heavier still: loads torch, peft and trl

        self.stop.check()
        result = train(
            self.spec,
            model_dir,
            tokenizer=tokenizer,
            examples=examples,
            device=device,
            reporter=self.reporter,
            stop=self.stop,
        )
        summary = self._summary(result, examples)
        self._write(
            lambda: save_model(
                self.job_dir / OUTPUT, self.spec, model=result.model, tokenizer=tokenizer
            )
        )
        summary["effect"] = self._prove_effect(result, model_dir)
        files = self._write(lambda: self._list_files(summary, examples=examples, device=device))
        self.stop.check()
        self._upload(files)
        return summary | {"files": [asdict(file) for file in files]}

    def _write(self, write: Callable[[], Written]) -> Written:
        """A part of the finished model, as soon as the disk has room for it."""
        return write_when_there_is_room(
            write, "The trained model", reporter=self.reporter, stop=self.stop
        )

    def _fetch_model(self) -> Path:
        spec = self.spec
        base = BaseModel(spec.model_id, spec.revision, spec.model_source, spec.model)
        model_dir = ensure(base, models_dir_from_environment(), check=self.stop.check, say=_say)
        self.stop.check()
        return model_dir

    def _load_examples(self, tokenizer: PreTrainedTokenizerBase) -> Examples:
        examples = load_examples(
            Path(self.spec.dataset_path),
            tokenizer,
            sha256=self.spec.dataset_sha256,
            row_format=self.spec.dataset_format,
            max_length=min(self.spec.hyperparams.max_length, tokenizer.model_max_length),
            check=self.stop.check,
            eval_fraction=self.spec.hyperparams.eval_fraction,
            seed=self.spec.seed,
        )
        self.reporter.report("dataset", **examples.report())
        for code, message in examples.warnings:
            self.reporter.report("warning", code=code, message=message)
        return examples

    def _summary(self, result: TrainResult, examples: Examples) -> dict[str, Any]:
        """The numbers of the whole run, for the `completed` report and for training.json."""
        summary = {
            "final_loss": result.final_loss,
            "last_loss": result.last_loss,
            "steps": result.steps,
            "tokens": result.tokens,
            "num_examples": len(examples.encoded),
            "params": asdict(self.spec.hyperparams) | {"seed": self.spec.seed},
        }
        if result.best.step is not None:
            summary |= {"best_step": result.best.step, "best_eval_loss": result.best.loss}
        if result.stopped_early_at is not None:
            summary["stopped_early_at"] = result.stopped_early_at
        return summary

    def _prove_effect(self, result: TrainResult, model_dir: Path) -> dict[str, Any]:
        from .effect import measure_effect  # heavy, and loaded by now

        effect = measure_effect(
            result.base,
            result.model,
            self.job_dir / OUTPUT,
            model_dir=model_dir,
            check=self.stop.check,
        )
        _say(
            f"the saved weights change the loss on {effect.num_examples} training examples "
            f"from {effect.base_loss:.4g} to {effect.tuned_loss:.4g}"
        )
        return effect.report()

    def _list_files(
        self, summary: dict[str, Any], *, examples: Examples, device: Device
    ) -> list[Artifact]:
        return list_artifacts(
            self.job_dir / OUTPUT,
            {
                "spec": self.spec.public_fields(),
                "versions": _versions(),
                "device": device.name,
                "dtype": device.dtype_name,
                "dataset": examples.report(),
                "result": summary,
            },
        )

    def _upload(self, files: Sequence[Artifact]) -> None:
        """Put the files where the control plane wants them; what cannot go now stays."""
        size_bytes = sum(file.size_bytes for file in files)
        self.reporter.status("uploading", num_files=len(files), size_bytes=size_bytes)
        if not self.spec.uploads:
            return
        uploader = Uploader(
            self.spec.uploads,
            job_token=self.spec.job_token,
            secret_text=self.secret_text,
            stop=self.stop,
        )
        try:
            uploader.upload(self.job_dir / OUTPUT, files)
        except UploadGivenUp as error:
            self.reporter.report(
                "warning",
                code="upload_incomplete",
                message=f"Not everything could be uploaded ({error}); "
                "the files wait in the job's output folder.",
            )


def _versions() -> dict[str, str]:
    python = ".".join(map(str, sys.version_info[:3]))
    return {"trainer": __version__, "python": python} | {name: version(name) for name in LIBRARIES}


def _say(text: str) -> None:
    print(text, flush=True)
