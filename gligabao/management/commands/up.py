"""`manage.py up`: web, worker and beat as children of one command."""

from __future__ import annotations

import argparse
import errno
import fcntl
import os
import socket
import sys
from typing import IO, Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError
from django.db import DatabaseError

from gligabao.broker import check_broker
from gligabao.databases import STANDARD, database_aliases, name_of
from gligabao.errors import BrokerUnreachable
from gligabao.health import check_database
from gligabao.management.arguments import DEFAULT_PORT, port
from gligabao.management.installation import (
    close_databases,
    lock_file,
    make_folders,
    prepare,
    run_dir,
)
from gligabao.supervisor import Child, Supervisor
from gligabao.web import open_socket
from training.models import TrainingJob

DEFAULT_HOST = "127.0.0.1"
PYTHON = (sys.executable, "-P")
CELERY = (
    *PYTHON,
    # Celery warns root because of pickled tasks; ours are JSON.
    "-W",
    "ignore:You're running the worker with superuser privileges",
    "-m",
    "celery",
    "--quiet",
    "--app",
    "gligabao",
)
# Where a wildcard address can be reached from this machine.
LOOPBACK_OF = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104


class Command(BaseCommand):
    help = "Prepare this installation and run web, worker and beat until Ctrl-C."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--port", type=port, default=DEFAULT_PORT, help="0 lets the system choose"
        )
        parser.add_argument("--host", default=DEFAULT_HOST, help="address to listen on")
        parser.add_argument(
            "--prepare-only",
            action="store_true",
            help="make folders, tables, roles and the first admin, then exit",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        make_folders()
        with _only_one() as lock:
            if options["prepare_only"]:
                prepare(self.say)
                return
            with _listen(options["host"], options["port"]) as listener:
                _check_broker()
                prepare(self.say)
                url = _url_of(options["host"], listener)
                lock.write(f" {url}\n")
                lock.flush()
                self._run(listener, url, options["host"])

    def say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()

    def _run(self, listener: socket.socket, url: str, host: str) -> None:
        self.say(f"Pages      {url}/")
        self.say(f"API        {url}/v1/schema/page")
        self.say(f"Data       {settings.DATA_DIR}")
        if host in LOOPBACK_OF:
            self.say(f"Answers to {', '.join(settings.ALLOWED_HOSTS)} (GLIGABAO_ALLOWED_HOSTS)")
        self.say("Ctrl-C stops web, worker and beat.")
        supervisor = Supervisor(
            _children(listener), environment=_environment(url), run_dir=run_dir(), say=self.say
        )
        supervisor.run(on_stop=self._say_what_becomes_of_jobs)
        self.say("Stopped.")

    def _say_what_becomes_of_jobs(self) -> None:
        self.say("Stopping ...")
        try:
            jobs = [job for alias in database_aliases() for job in _unfinished(alias)]
        except DatabaseError:
            self.say("A database does not answer; its jobs are taken up again at the next start.")
            return
        for job in jobs:
            self.say(_what_becomes_of(job))
        close_databases()


def _only_one() -> IO[str]:
    """A lock on the data folder, held while the file is open; another `up` is refused."""
    file = lock_file().open("a+", encoding="ascii")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        holder = (file.read().split() or ["unknown"])[0]
        file.close()
        raise CommandError(
            f"Another `manage.py up` (process {holder}) runs on {settings.DATA_DIR}. "
            "Stop it first, or set GLIGABAO_DATA_DIR to another folder."
        ) from error
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def _listen(host: str, number: int) -> socket.socket:
    try:
        return open_socket(host, number)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CommandError(
                f"Port {number} on {host} is in use. Stop what uses it, or choose another: "
                f"manage.py up --port {DEFAULT_PORT + 1}"
            ) from error
        raise CommandError(f"Cannot listen on {host}, port {number}: {error.strerror}.") from error


def _check_broker() -> None:
    try:
        check_broker()
    except BrokerUnreachable as error:
        raise CommandError(error.message) from error


def _url_of(host: str, listener: socket.socket) -> str:
    """The address at which this machine reaches the listener."""
    host, port = LOOPBACK_OF.get(host, host), listener.getsockname()[1]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _children(listener: socket.socket) -> list[Child]:
    descriptor = listener.fileno()
    worker_options = ("--pool", "threads", "--concurrency", "8")
    return [
        Child(
            "web",
            (*PYTHON, "-m", "gligabao.web", "--fd", str(descriptor)),
            pass_fds=(descriptor,),
        ),
        Child(
            "worker",
            (*CELERY, "worker", *worker_options, "--without-gossip", "--without-mingle"),
        ),
        # Never `worker -B`: a worker that is killed would leave a beat that ticks on.
        Child("beat", (*CELERY, "beat")),
    ]


def _environment(url: str) -> dict[str, str]:
    """Ours, with the project on the path whatever the working directory is."""
    path = [str(settings.BASE_DIR), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(part for part in path if part),
        "PYTHONUNBUFFERED": "1",
        "GLIGABAO_LOCAL_URL": url,
        "TMPDIR": str(settings.TEMP_DIR),
    }


def _unfinished(alias: str) -> list[TrainingJob]:
    check_database(alias)
    return list(TrainingJob.objects.using(alias).unfinished().order_by("pk"))


def _what_becomes_of(job: TrainingJob) -> str:
    name = name_of(job._state.db)
    option = "" if name == STANDARD else f" --db {name}"
    if not job.provider_job_id and job.claimed_at is None:
        return f"Job {job.pk} is queued: it is submitted at the next `manage.py up`."
    return (
        f"Job {job.pk} is {job.status}: its trainer goes on by itself, and the next "
        f"`manage.py up` follows it again. To end it: `manage.py stop {job.pk}{option}`, "
        "which takes effect at the next `manage.py up`."
    )
