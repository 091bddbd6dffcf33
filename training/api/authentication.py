"""A trainer's own token: good for the events and uploads of its own job, and nothing else."""

from __future__ import annotations

from typing import Any

from django.utils.crypto import constant_time_compare
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from gligabao.databases import current_database
from training.models import TrainingJob
from training.tokens import hash_token


class TrainerUser:
    """Who reports: a job's trainer. Not a user of the console."""

    is_authenticated = True
    is_active = True
    pk = None

    def __init__(self, job: TrainingJob) -> None:
        self.job = job


class JobTokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer <job token>`.

    No or an unknown token is a 401, and so is one whose job ended a day ago. A login, which a
    browser would send along by itself, is a 403, and so is the token of another job.
    """

    def authenticate(self, request: Request) -> tuple[TrainerUser, None] | None:
        header = request.headers.get("Authorization", "")
        if not header:
            user = getattr(request._request, "user", None)  # the session's
            if user is not None and user.is_authenticated:
                raise PermissionDenied("Only the job's own token is good here.")
            return None
        scheme, _, token = header.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise AuthenticationFailed("Send 'Authorization: Bearer <job token>'.")
        digest = hash_token(token)
        job = TrainingJob.objects.using(current_database()).filter(token_hash=digest).first()
        if job is None or not constant_time_compare(job.token_hash, digest):
            raise AuthenticationFailed("This job token is unknown.")
        if not job.accepts_late_reports:
            raise AuthenticationFailed("This job ended more than 24 hours ago.")
        return TrainerUser(job), None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class IsTrainerOfJob(BasePermission):
    """The token belongs to the job in the address."""

    message = "This token belongs to another job."

    def has_permission(self, request: Request, view: Any) -> bool:
        user = request.user
        return isinstance(user, TrainerUser) and user.job.pk == view.kwargs["run_id"]
