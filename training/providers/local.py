"""Trainers on this machine: one detached process group and one folder for each job.

All state lies in files and in the processes themselves, so that any number of workers and web
processes may ask, and none needs to have started the run.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from django.conf import settings

from gligabao.errors import Conflict, NotFound, ProviderRejected, ProviderUnreachable
from training.contract import JobSpec
from training.providers import local_folder
from training.providers.base import (
    EventPage,
    InferEvent,
    InferRequest,
    LogLine,
    Phase,
    ProviderBusy,
    RunStatus,
    StoredFile,
)
from training.providers.local_environment import trainer_environment
from training.providers.local_infer import LocalInference
from training.providers.local_kill import end_by_force
from training.providers.local_wrapper import (
    CLAIM_FILE,
    EXIT_FILE,
    TRAINER_FILE,
    is_living,
)

SPEC_FILE = "spec.json"
STOP_FILE = "stop"  # the trainer looks for it at every step
WRAPPER = Path(__file__).with_name("local_wrapper.py")
TRAINER_COMMAND = (sys.executable, "-P", "-m", "trainer")

JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
RUN_ID = re.compile(rf"local-(?P<job_id>{JOB_ID.pattern})-[0-9a-f]{{8}}")

START_TIMEOUT = 20  # seconds for a wrapper to claim its job; commonly it takes 0.05
CLAIM_GRACE = 10  # seconds in which a run without a claim may still be coming up


@dataclass(frozen=True)
class LocalProvider:
    """Runs each job as a process group of its own that outlives its starter.

    `spec_key` signs specs. The trainer gets it as the path of `spec_key_file` where there is
    one, else in its environment. At most `num_slots` trainers live at once.
    """

    name: ClassVar[str] = "local"

    jobs_dir: Path
    slots_dir: Path
    num_slots: int
    models_dir: Path
    spec_key: str = field(repr=False)
    inference: LocalInference
    spec_key_file: Path | None = None
    trainer_command: Sequence[str] = TRAINER_COMMAND

    @classmethod
    def from_settings(cls) -> LocalProvider:
        key_file = settings.SECRETS_DIR / "spec_key"
        is_from_file = key_file.is_file() and key_file.read_text().strip() == settings.SPEC_KEY
        return cls(
            jobs_dir=settings.JOBS_DIR,
            slots_dir=settings.SLOTS_DIR,
            num_slots=settings.LOCAL_SLOTS,
            models_dir=settings.MODELS_DIR,
            spec_key=settings.SPEC_KEY,
            spec_key_file=key_file if is_from_file else None,
            inference=LocalInference(
                folder=settings.INFER_DIR,
                environment=trainer_environment(settings.MODELS_DIR),
                timeout_seconds=settings.INFER_TIMEOUT,
                idle_seconds=settings.INFER_IDLE,
            ),
        )

    @property
    def has_gpu(self) -> bool:
        # The driver's own devices: what asks CUDA is in the trainer, and heavy.
        return any(Path("/dev").glob("nvidia[0-9]*"))

    # --- Starting ------------------------------------------------------------------------------

    def check(self) -> None:
        for folder in (self.jobs_dir, self.slots_dir):
            with _said_in_words(f"The folder {folder} cannot be written"):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                tempfile.TemporaryFile(dir=folder).close()

    def submit(self, spec: JobSpec) -> str:
        if not JOB_ID.fullmatch(spec.job_id):
            raise ProviderRejected(f"{spec.job_id[:80]!r} cannot be the name of a folder.")
        if holder := self.find(spec.job_id):
            return holder
        with _said_in_words(f"The run of job {spec.job_id} could not be started"):
            folder = self._folder(spec.job_id)
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            slot = self._take_slot()
            try:
                _write_private(folder / SPEC_FILE, spec.envelope(self.spec_key))
                self._start_wrapper(folder, f"local-{spec.job_id}-{secrets.token_hex(4)}", slot)
            finally:
                os.close(slot)  # the wrapper and the trainer hold it from here on
        if holder := self.find(spec.job_id):
            return holder
        raise ProviderUnreachable(
            f"The run of job {spec.job_id} did not come up; {folder / local_folder.LOG_FILE} "
            "may say why."
        )

    def find(self, job_id: str) -> str | None:
        claim = _read_json(self._folder(job_id) / CLAIM_FILE)
        return claim["run_id"] if claim else None

    def _folder(self, job_id: str) -> Path:
        if not JOB_ID.fullmatch(job_id):
            raise NotFound(f"{job_id[:80]!r} is no job of the local provider.")
        return self.jobs_dir / job_id

    def _take_slot(self) -> int:
        """A descriptor whose lock is held until the last process that has it is gone."""
        self.slots_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        for number in range(self.num_slots):
            path = self.slots_dir / f"local-{number}.lock"
            slot = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(slot)
            else:
                return slot
        raise ProviderBusy(
            f"All {self.num_slots} local slots are taken. The job waits for the next free one."
        )

    def _start_wrapper(self, folder: Path, run_id: str, slot: int) -> None:
        """Start a wrapper and wait until it is settled which run holds the job."""
        command = [*self.trainer_command, "--spec", SPEC_FILE, "--job-dir", str(folder)]
        log = os.open(folder / local_folder.LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            subprocess.run(
                [sys.executable, "-I", str(WRAPPER), run_id, str(slot), *command],
                cwd=folder,
                env=trainer_environment(self.models_dir) | self._key_variable(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[slot],
                start_new_session=True,
                umask=0o077,
                timeout=START_TIMEOUT,
                check=False,  # what counts is the claim
            )
        except subprocess.TimeoutExpired as error:
            raise ProviderUnreachable(
                f"Run {run_id} did not come up within {START_TIMEOUT} seconds."
            ) from error
        finally:
            os.close(log)

    def _key_variable(self) -> dict[str, str]:
        if self.spec_key_file:
            return {"GLIGABAO_SPEC_KEY_FILE": str(self.spec_key_file)}
        return {"GLIGABAO_SPEC_KEY": self.spec_key}

    # --- Looking -------------------------------------------------------------------------------

    def poll(self, provider_job_id: str) -> RunStatus:
        if not RUN_ID.fullmatch(provider_job_id):
            return RunStatus(phase=Phase.UNKNOWN, provider_job_id=provider_job_id)
        folder = self._folder_of(provider_job_id)
        claim = _read_json(folder / CLAIM_FILE)
        if claim is None:
            phase = Phase.WAITING if _is_fresh(folder / SPEC_FILE) else Phase.UNKNOWN
            return RunStatus(phase=phase, provider_job_id=provider_job_id)
        started_at = datetime.fromisoformat(claim["started_at"])
        # In this order: when both are over, nobody is left who would still write the exit.
        if is_living(claim) or is_living(_read_json(folder / TRAINER_FILE)):
            return RunStatus(
                phase=Phase.RUNNING, provider_job_id=claim["run_id"], started_at=started_at
            )
        end = _read_json(folder / EXIT_FILE) or {}
        return RunStatus(
            phase=Phase.ENDED,
            provider_job_id=claim["run_id"],
            started_at=started_at,
            ended_at=(
                datetime.fromisoformat(end["ended_at"]) if end else _last_sign_of_life(folder)
            ),
            exit_code=end.get("exit_code"),
            was_out_of_memory=end.get("was_out_of_memory", False),
        )

    def live_runs(self) -> list[tuple[str, str]]:
        if not self.jobs_dir.is_dir():
            return []
        found = []
        for folder in self.jobs_dir.iterdir():
            # Most runs have kept their exit: no look at their processes is needed.
            if not JOB_ID.fullmatch(folder.name) or (folder / EXIT_FILE).exists():
                continue
            claim = _read_json(folder / CLAIM_FILE)
            if claim and self.poll(claim["run_id"]).phase is Phase.RUNNING:
                found.append((folder.name, claim["run_id"]))
        return found

    def read_events(self, provider_job_id: str, cursor: str) -> EventPage:
        if not RUN_ID.fullmatch(provider_job_id):
            return EventPage(reports=(), cursor=cursor)
        folder = self._folder_of(provider_job_id)
        with _said_in_words(f"The reports of run {provider_job_id} cannot be read"):
            return local_folder.read_events(folder / local_folder.EVENTS_FILE, cursor)

    def logs(self, provider_job_id: str, *, limit: int) -> list[LogLine]:
        folder = self._folder_of(provider_job_id)
        with _said_in_words(f"The log of run {provider_job_id} cannot be read"):
            return local_folder.last_lines(
                folder / local_folder.LOG_FILE,
                limit=limit,
                secrets=(self.spec_key, *local_folder.job_secrets(folder / SPEC_FILE)),
            )

    def list_files(self, provider_job_id: str) -> list[StoredFile]:
        folder = self._folder_of(provider_job_id)
        return local_folder.list_files(folder / local_folder.OUTPUT_FOLDER)

    def read_file(self, provider_job_id: str, path: str) -> BinaryIO:
        folder = self._folder_of(provider_job_id)
        return local_folder.open_file(folder / local_folder.OUTPUT_FOLDER, path)

    def _folder_of(self, provider_job_id: str) -> Path:
        """The folder of a run's job. Raises NotFound for what is no id of ours."""
        match = RUN_ID.fullmatch(provider_job_id)
        if not match:
            raise NotFound(f"{provider_job_id[:100]!r} is no run of the local provider.")
        return self._folder(match["job_id"])

    # --- Ending --------------------------------------------------------------------------------

    def stop(self, provider_job_id: str, *, force: bool) -> None:
        folder = self._folder_of(provider_job_id)
        try:
            with (
                _said_in_words(f"Run {provider_job_id} could not be asked to stop"),
                contextlib.suppress(FileNotFoundError),  # no folder, no run
            ):
                os.close(os.open(folder / STOP_FILE, os.O_WRONLY | os.O_CREAT, 0o600))
        finally:
            if force:  # also when the disk is full
                end_by_force(
                    lambda: _read_json(folder / CLAIM_FILE),
                    lambda: _read_json(folder / TRAINER_FILE),
                )

    def delete_run(self, job_id: str) -> None:
        """Remove the job's folder. Raises Conflict while something of it lives."""
        folder = self._folder(job_id)
        claim = _read_json(folder / CLAIM_FILE)
        is_coming_up = claim is None and _is_fresh(folder / SPEC_FILE)
        if is_coming_up or is_living(claim) or is_living(_read_json(folder / TRAINER_FILE)):
            raise Conflict(f"The run of job {job_id} still lives. Stop it first.")
        doomed = folder.with_name(f".deleted-{job_id}-{secrets.token_hex(4)}")
        with contextlib.suppress(FileNotFoundError):
            folder.rename(doomed)  # at once, so that nobody meets half a folder
            shutil.rmtree(doomed)

    # --- Generating ----------------------------------------------------------------------------

    def infer(self, request: InferRequest) -> AsyncIterator[InferEvent]:
        return self.inference.generate(request)


@contextlib.contextmanager
def _said_in_words(what: str) -> Iterator[None]:
    """Disk full, folder not ours, no process left: each may pass, so it is tried again."""
    try:
        yield
    except OSError as error:
        raise ProviderUnreachable(f"{what}: {error.strerror or error}.") from error


def _write_private(path: Path, text: str) -> None:
    """Replace the file by this text at once, readable for our user only."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    draft.replace(path)


def _read_json(path: Path) -> dict[str, Any] | None:
    """The content of a file that appears complete; None while it is not there."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise ProviderUnreachable(f"{path} cannot be read: {error}.") from error


def _is_fresh(spec_file: Path) -> bool:
    try:
        # A file of the future is not fresh either: the clock was put back since.
        return abs(time.time() - spec_file.stat().st_mtime) < CLAIM_GRACE
    except FileNotFoundError:
        return False


def _last_sign_of_life(folder: Path) -> datetime:
    """The best evidence of when a run ended that could not say so itself."""
    names = (CLAIM_FILE, TRAINER_FILE, local_folder.EVENTS_FILE, local_folder.LOG_FILE)
    times = []
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            times.append((folder / name).stat().st_mtime)
    # Nothing left: the folder was deleted while we looked.
    return datetime.fromtimestamp(max(times, default=time.time()), UTC)
