"""What the commands about jobs and models share: `--db`, `--json`, and errors in plain words."""

from __future__ import annotations

import argparse
from typing import Any

from django.contrib.auth.models import User
from django.core.management import BaseCommand, CommandError

from gligabao.databases import STANDARD, alias_of
from gligabao.errors import GligabaoError
from gligabao.rest import dumps
from gligabao.terminal import plain_console, printable

INTERRUPTED = 130  # the exit code of what Ctrl-C ended


class RowCommand(BaseCommand):
    """A command on the rows of one database. Subclasses write `run` and `add_options`.

    With `--json` nothing but JSON goes to stdout: one document, or one line per event.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--db", default=STANDARD, help="database; standard without it")
        parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
        self.add_options(parser)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own arguments."""

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.ending = ""  # rich writes in pieces, and says itself where a line ends
        self.console = plain_console(self.stdout)
        self.is_json = options["json"]
        try:
            self.run(alias_of(options["db"]), options)
        except GligabaoError as error:
            raise CommandError(_words(error)) from error

    def run(self, db: str, options: dict[str, Any]) -> None:
        """Do it. A GligabaoError becomes the command's error, exit code 1."""
        raise NotImplementedError

    def say(self, text: str) -> None:
        """A line on stdout. The text is made printable."""
        self.stdout.write(printable(text) + "\n")
        self.stdout.flush()

    def note(self, text: str) -> None:
        """A line for the person, beside what the command prints: on stderr."""
        self.stderr.write(printable(text))
        self.stderr.flush()

    def say_json(self, document: Any) -> None:
        self.stdout.write(dumps(document).decode() + "\n")
        self.stdout.flush()


def _words(error: GligabaoError) -> str:
    lines = [error.message]
    lines += [
        f"  {place.get('path', '')}: {place.get('message', '')}"
        for place in error.errors
        if str(place.get("message", "")) not in error.message
    ]
    return "\n".join(printable(line) for line in lines)


def add_user_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", help="who asks; the first admin without it")


def user_of(name: str | None) -> User:
    """The user that a command acts for. Raises CommandError with the next step."""
    users = User.objects.filter(is_active=True)
    if name is not None:
        user = users.filter(username=name).first()
        if user is None:
            raise CommandError(f"No active user {printable(name[:100])!r}.")
        return user
    user = users.filter(is_superuser=True).order_by("pk").first()
    if user is None:
        raise CommandError(
            "There is no admin yet. `manage.py up` makes one at its first start; "
            "or run `manage.py createsuperuser`."
        )
    return user


def db_option(options: dict[str, Any]) -> str:
    """How the same database is named in a command that is shown to the person."""
    return "" if options["db"] == STANDARD else f" --db {options['db']}"
