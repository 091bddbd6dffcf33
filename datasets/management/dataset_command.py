"""What the dataset commands share: options, output that cannot steer a terminal, progress."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from gligabao.databases import STANDARD, alias_of
from gligabao.errors import GligabaoError
from gligabao.rest import dumps
from gligabao.terminal import printable

LARGE_BYTES = 32 * 2**20  # smaller files are done before a bar could be read


class DatasetCommand(BaseCommand):
    """A command with `--json`, and with `--db` unless it touches no rows."""

    has_rows = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        if self.has_rows:
            parser.add_argument("--db", default=STANDARD, help="name of the database")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.run(options, alias_of(options["db"]) if self.has_rows else "")
        except GligabaoError as error:
            if options["json"]:
                self.say_json(error.as_json())
            raise CommandError(printable(error.message)) from error

    def run(self, options: dict[str, Any], db: str) -> None:
        raise NotImplementedError

    def say(self, text: str) -> None:
        self.stdout.write(printable(text))

    def say_json(self, value: Any) -> None:
        self.stdout.write(dumps(value).decode("utf-8"))

    def say_report(self, report: dict[str, Any]) -> None:
        """The places that are wrong or odd, one a line."""
        for error in report.get("errors", ()):
            place = f"line {error['line']}" if error["line"] else "file"
            path = f", {error['path']}" if error["path"] else ""
            self.say(f"{place}{path}: {error['message']} [{error['code']}]")
        more = report.get("error_count", 0) - len(report.get("errors", ()))
        if more > 0:
            self.say(f"... and {more} more")
        for warning in report.get("warnings", ()):
            place = f"line {warning['line']}" if warning["line"] else "file"
            self.say(f"warning, {place}: {warning['message']} {warning['count']} x")


@contextmanager
def opened(path: str) -> Iterator[tuple[BinaryIO, Callable[[int], None] | None]]:
    """A file to read, and what to tell the progress to. Raises CommandError."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(Path(path).open("rb"))
            size = os.fstat(file.fileno()).st_size
        except OSError as error:
            raise CommandError(printable(f"{path}: {error.strerror}")) from error
        if size < LARGE_BYTES:
            yield file, None
            return
        progress = stack.enter_context(_progress())
        task = progress.add_task("Reading", total=size)
        yield file, lambda num_bytes: progress.update(task, completed=num_bytes)


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=Console(stderr=True),  # so that --json stays alone on standard output
    )
