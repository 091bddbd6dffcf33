"""`manage.py create_token`: an API token for a user, who is made when missing."""

from __future__ import annotations

import argparse
import json
from typing import Any

from django.core.management import BaseCommand, CommandError
from django.db import DatabaseError

from gligabao.access import ROLES, role_of
from gligabao.accounts import make_token
from gligabao.errors import InvalidRequest


class Command(BaseCommand):
    help = "Make an API token for a user; it is shown once. Missing users are made."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--user", required=True, metavar="NAME")
        parser.add_argument("--role", required=True, choices=ROLES)
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--quiet", action="store_true", help="print the token and nothing else")
        form.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            user, token = make_token(options["user"], options["role"])
        except InvalidRequest as error:
            raise CommandError(error.message) from error
        except DatabaseError as error:
            raise CommandError(
                "The database does not answer or has no tables yet. "
                "Start `manage.py up` once, which makes them."
            ) from error
        role = role_of(user)
        if options["quiet"]:
            self.stdout.write(token)
        elif options["json"]:
            self.stdout.write(json.dumps({"user": user.username, "role": role, "token": token}))
        else:
            self.stdout.write(f"Token of {user.username} ({role}), shown only now:\n{token}")
            self.stdout.write(f"Send it as:  Authorization: Bearer {token}")
