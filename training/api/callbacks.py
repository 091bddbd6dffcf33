"""What a trainer calls with its job token: its reports, and addresses to upload to."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from gligabao.databases import current_database
from gligabao.rest import loads
from training.api import examples
from training.api.authentication import IsTrainerOfJob, JobTokenAuthentication
from training.api.jobs import JobEventsView
from training.api.serializers import UploadsSerializer
from training.services import callbacks


class ReportParser(BaseParser):
    """JSON in which NaN and Infinity may stand: a diverging run must not lose its reports."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        return loads(stream.read(), allow_nan=True)


class EventsView(JobEventsView):
    """GET for people, POST for the trainer of the job, each with its own kind of token."""

    def get_authenticators(self) -> list[Any]:
        if self._is_report():
            return [JobTokenAuthentication()]
        return super().get_authenticators()

    def get_permissions(self) -> list[Any]:
        return [IsTrainerOfJob()] if self._is_report() else super().get_permissions()

    def get_parsers(self) -> list[Any]:
        return [ReportParser()] if self._is_report() else super().get_parsers()

    def _is_report(self) -> bool:
        return self.request is not None and self.request.method == "POST"

    @extend_schema(
        tags=["jobs"],
        operation_id="list_job_events",
        parameters=examples.EVENTS_PARAMETERS,
        responses=examples.EVENTS,
    )
    def get(self, request: Request, run_id: int) -> Response:
        return super().get(request, run_id)

    @extend_schema(
        tags=["trainer"],
        operation_id="report_events",
        request=examples.REPORTS,
        responses=examples.RECEIVED,
        auth=[{"jobToken": []}],
    )
    def post(self, request: Request, run_id: int) -> Response:
        received = callbacks.receive_reports(request.user.job, request.data, db=current_database())
        return Response(asdict(received))


class UploadsView(APIView):
    authentication_classes = [JobTokenAuthentication]
    permission_classes = [IsTrainerOfJob]

    @extend_schema(
        tags=["trainer"],
        operation_id="request_uploads",
        request=UploadsSerializer,
        responses=examples.UPLOADS,
        auth=[{"jobToken": []}],
    )
    def post(self, request: Request, run_id: int) -> Response:
        body = UploadsSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        files = callbacks.upload_addresses(request.user.job, body.validated_data["files"])
        return Response({"files": files})
