"""What every provider can do, and the values it speaks. No database below this line."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, BinaryIO, Protocol

from gligabao.errors import GligabaoError
from training.contract import JobSpec


class ProviderBusy(GligabaoError):
    """No slot is free. The job stays queued; nothing was started."""

    http_status = 503
    default_code = "provider_busy"


class Phase(StrEnum):
    WAITING = "waiting"  # accepted, not up yet
    RUNNING = "running"
    ENDED = "ended"
    UNKNOWN = "unknown"  # the provider does not know this run


@dataclass(frozen=True)
class RunStatus:
    """The provider's own answer about one run.

    `provider_job_id` is the run that holds the job's nonce, which may be another one than was
    asked for. `exit_code` follows the shell: 128 + signal for a run that a signal ended.
    """

    phase: Phase
    provider_job_id: str
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    was_out_of_memory: bool = False  # on evidence: the system's or the provider's word


@dataclass(frozen=True)
class EventPage:
    """Reports as the trainer wrote them, in order, and where to read on."""

    reports: Sequence[Any]
    cursor: str
    malformed: int = 0  # lines that were complete and yet no JSON


@dataclass(frozen=True)
class LogLine:
    at: datetime | None
    stream: str
    text: str


@dataclass(frozen=True)
class StoredFile:
    path: str
    size_bytes: int


@dataclass(frozen=True)
class InferRequest:
    """A prompt for a base model, or for what was tuned from it.

    That is an adapter or a whole model: `adapter_dir` is a folder of its verified files.
    """

    model_id: str
    revision: str
    model_source: str
    adapter_dir: str | None
    messages: Sequence[Mapping[str, Any]]
    max_tokens: int
    temperature: float


@dataclass(frozen=True)
class InferEvent:
    """One step of an answer: a piece of text, a note, or the whole at the end."""

    kind: str  # "token", "note", "done"
    text: str = ""  # the piece; at "done" the whole response
    finish_reason: str = ""  # "stop" or "length", at "done"
    num_tokens: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)


class Provider(Protocol):
    """Runs trainers somewhere.

    Every call has a deadline. Raises ProviderUnreachable (try again), ProviderRejected (do
    not), NotConfigured (no credentials here).
    """

    name: str

    @property
    def has_gpu(self) -> bool:
        """Whether a run here gets a GPU with CUDA."""
        ...

    def check(self) -> None:
        """Return when jobs can be submitted here; raise otherwise."""
        ...

    def submit(self, spec: JobSpec) -> str:
        """Start a run and return its id. Returns at once, never waits for hardware.

        Every call may start a run, so the caller claims the job first; runs of one nonce
        settle among themselves which of them goes on. Raises ProviderBusy without a slot.
        """
        ...

    def find(self, job_id: str) -> str | None:
        """The id of the run that holds this job's nonce, None if there is none."""
        ...

    def live_runs(self) -> Sequence[tuple[str, str]]:
        """Job id and run id of every run of this installation that lives."""
        ...

    def delete_run(self, job_id: str) -> None:
        """Remove what an ended job left behind here; nothing to remove is no error."""
        ...

    def poll(self, provider_job_id: str) -> RunStatus: ...

    def read_events(self, provider_job_id: str, cursor: str) -> EventPage:
        """Reports after the cursor; "" is the beginning."""
        ...

    def stop(self, provider_job_id: str, *, force: bool) -> None:
        """Ask the run to end, or end it. Safe to repeat, no matter whether it still lives."""
        ...

    def logs(self, provider_job_id: str, *, limit: int) -> list[LogLine]:
        """The last `limit` lines that the run printed."""
        ...

    def list_files(self, provider_job_id: str) -> list[StoredFile]:
        """The finished artifacts that the run left behind."""
        ...

    def read_file(self, provider_job_id: str, path: str) -> BinaryIO:
        """Open one of `list_files`. Raises NotFound."""
        ...

    def infer(self, request: InferRequest) -> AsyncIterator[InferEvent]:
        """Generate. Ends with one "done". Closing the iterator ends the generation."""
        ...
