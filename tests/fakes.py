"""The outside world as tests play it: real classes at the border, no mocks."""

import io
from dataclasses import dataclass, field

from gligabao.errors import NotFound
from training.providers.base import EventPage, LogLine, Phase, RunStatus, StoredFile


@dataclass
class FakeRun:
    """A container that a test plays."""

    spec: object
    reports: list = field(default_factory=list)
    status: RunStatus | None = None
    files: dict = field(default_factory=dict)
    lines: list = field(default_factory=list)


class FakeProvider:
    """Keeps every run it was asked for. What a run says and how it ends is up to the test."""

    name = "local"
    has_gpu = False

    def __init__(self):
        self.submitted = []
        self.runs = {}
        self.stops = []
        self.deleted = []
        self.submit_errors = []  # raised by the next calls, in turn
        self.stop_errors = []
        self.check_error = None
        self.poll_error = None
        self.submit_hook = None
        self.infer_requests = []
        self.infer_events = []  # given out, or raised

    def check(self):
        if self.check_error:
            raise self.check_error

    def submit(self, spec):
        if self.submit_hook:
            self.submit_hook()
        if self.submit_errors:
            raise self.submit_errors.pop(0)
        self.submitted.append(spec)
        run_id = f"fake-{spec.job_id}"
        self.runs.setdefault(run_id, FakeRun(spec, status=RunStatus(Phase.WAITING, run_id)))
        return run_id

    def find(self, job_id):
        run_id = f"fake-{job_id}"
        return run_id if run_id in self.runs else None

    def live_runs(self):
        return [
            (run.spec.job_id, run_id)
            for run_id, run in self.runs.items()
            if run.status.phase in (Phase.WAITING, Phase.RUNNING)
        ]

    def delete_run(self, job_id):
        self.deleted.append(job_id)

    def poll(self, provider_job_id):
        if self.poll_error:
            raise self.poll_error
        run = self.runs.get(provider_job_id)
        return run.status if run else RunStatus(Phase.UNKNOWN, provider_job_id)

    def read_events(self, provider_job_id, cursor):
        run = self.runs.get(provider_job_id)
        if run is None:
            return EventPage([], cursor)
        start = int(cursor or 0)
        page = run.reports[start : start + 500]
        return EventPage(page, str(start + len(page)) if page else cursor)

    def stop(self, provider_job_id, *, force):
        self.stops.append((provider_job_id, force))
        if self.stop_errors:
            raise self.stop_errors.pop(0)

    def logs(self, provider_job_id, *, limit):
        run = self.runs.get(provider_job_id)
        return [LogLine(None, "stdout", text) for text in (run.lines if run else [])][-limit:]

    def list_files(self, provider_job_id):
        run = self.runs[provider_job_id]
        return [StoredFile(path, len(data)) for path, data in run.files.items()]

    def read_file(self, provider_job_id, path):
        run = self.runs.get(provider_job_id)
        if run is None or path not in run.files:
            raise NotFound(f"No file {path}.")
        return io.BytesIO(run.files[path])

    async def infer(self, request):
        self.infer_requests.append(request)
        for event in self.infer_events:
            if isinstance(event, Exception):
                raise event
            yield event

    # What tests use to play a run.

    def run_of(self, job):
        return self.runs[f"fake-{job.job_id}"]

    def set_phase(self, job, phase, **facts):
        run_id = f"fake-{job.job_id}"
        self.runs[run_id].status = RunStatus(phase, run_id, **facts)
