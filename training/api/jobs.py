"""/v1/gb/training/jobs: start, list, watch, stop, retry, rename, delete."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from gligabao.databases import current_database
from gligabao.errors import InvalidRequest
from gligabao.rest import check_query, page_of, query_limit, query_number
from training.api import examples
from training.api.serializers import (
    AttemptSerializer,
    CheckpointSerializer,
    JobSerializer,
    RetryJobSerializer,
    StartJobSerializer,
    StopJobSerializer,
    UpdateJobSerializer,
)
from training.checkpoints import job_checkpoints
from training.models import JobEvent, TrainingJob
from training.providers import get_provider
from training.series import MAX_POINTS, job_series
from training.services import jobs
from training.services.jobs import JobRequest
from training.states import JobStatus

MAX_LOG_LINES = 1000
MAX_SEARCH = 200  # characters, as many as a name can have
DEFAULT_POINTS = 2000


class JobsView(APIView):
    @extend_schema(
        tags=["jobs"],
        operation_id="list_jobs",
        parameters=[
            *examples.LIST_PARAMETERS,
            OpenApiParameter("status", str, description="Only jobs of this status."),
            OpenApiParameter(
                "q", str, description="Text in the name, the note, the dataset or a tag."
            ),
        ],
        responses=examples.LIST_OF_JOBS,
    )
    def get(self, request: Request) -> Response:
        check_query(request, "limit", "before", "status", "q")
        rows = page_of(_filtered(request), request, default_limit=50)
        return Response({"jobs": JobSerializer(rows, many=True).data})

    @extend_schema(
        tags=["jobs"],
        operation_id="start_job",
        request=StartJobSerializer,
        parameters=[OpenApiParameter("Idempotency-Key", str, OpenApiParameter.HEADER)],
        responses={201: JobSerializer, 200: JobSerializer},
        examples=examples.START_JOB,
    )
    def post(self, request: Request) -> Response:
        body = StartJobSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        started = jobs.start_job(
            JobRequest(**body.validated_data),
            db=current_database(),
            user_id=request.user.pk,
            idempotency_key=request.headers.get("Idempotency-Key"),
            path=request.path,
        )
        return Response(JobSerializer(started.job).data, status=201 if started.is_new else 200)


class JobView(APIView):
    @extend_schema(tags=["jobs"], operation_id="get_job", responses=JobSerializer)
    def get(self, request: Request, run_id: int) -> Response:
        return Response(JobSerializer(jobs.get_job(run_id, db=current_database())).data)

    @extend_schema(
        tags=["jobs"],
        operation_id="update_job",
        request=UpdateJobSerializer,
        responses=JobSerializer,
    )
    def patch(self, request: Request, run_id: int) -> Response:
        body = UpdateJobSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        job = jobs.update_job(run_id, body.validated_data, db=current_database())
        return Response(JobSerializer(job).data)

    @extend_schema(tags=["jobs"], operation_id="delete_job", responses={204: None})
    def delete(self, request: Request, run_id: int) -> Response:
        jobs.delete_job(run_id, db=current_database())
        return Response(status=204)


class StopJobView(APIView):
    @extend_schema(
        tags=["jobs"],
        operation_id="stop_job",
        request=StopJobSerializer,
        responses={202: examples.STOPPING},
    )
    def post(self, request: Request, run_id: int) -> Response:
        StopJobSerializer(data=request.data).is_valid(raise_exception=True)
        by = request.user.get_username()
        status = jobs.stop_job(run_id, db=current_database(), by=by)
        return Response({"id": run_id, "status": status or "stopping"}, status=202)


class RetryJobView(APIView):
    @extend_schema(
        tags=["jobs"],
        operation_id="retry_job",
        request=RetryJobSerializer,
        responses={201: JobSerializer},
    )
    def post(self, request: Request, run_id: int) -> Response:
        body = RetryJobSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        job = jobs.retry_job(
            run_id,
            db=current_database(),
            user_id=request.user.pk,
            resume=body.validated_data["resume"],
        )
        return Response(JobSerializer(job).data, status=201)


class JobEventsView(APIView):
    """The stored events of a job, page by page. (A trainer posts to the same address.)"""

    def get(self, request: Request, run_id: int) -> Response:
        check_query(request, "from", "limit")
        job = jobs.get_job(run_id, db=current_database())
        start = query_number(request, "from", default=0)
        limit = query_limit(request, default=500)
        rows = JobEvent.objects.using(current_database()).filter(run=job, seq__gte=start)
        page = list(rows.order_by("seq")[: limit + 1])
        events = [_event(row) for row in page[:limit]]
        return Response({"events": events, "next": page[limit].seq if len(page) > limit else None})


class JobLogsView(APIView):
    @extend_schema(tags=["jobs"], operation_id="get_job_logs", responses=examples.LOGS)
    def get(self, request: Request, run_id: int) -> Response:
        check_query(request)
        job = jobs.get_job(run_id, db=current_database())
        lines = []
        if job.provider_job_id:
            lines = get_provider(job.provider).logs(job.provider_job_id, limit=MAX_LOG_LINES)
        return Response(
            {
                "lines": [
                    {
                        "at": line.at.strftime("%Y-%m-%dT%H:%M:%SZ") if line.at else None,
                        "stream": line.stream,
                        "text": line.text,
                    }
                    for line in lines
                ]
            }
        )


class JobMetricsView(APIView):
    @extend_schema(
        tags=["jobs"],
        operation_id="get_job_metrics",
        parameters=[OpenApiParameter("points", int, description="At most so many per series.")],
        responses=examples.METRICS,
    )
    def get(self, request: Request, run_id: int) -> Response:
        check_query(request, "points")
        points = query_number(request, "points", default=DEFAULT_POINTS)
        if not 2 <= points <= MAX_POINTS:
            raise InvalidRequest(
                f"points={points} is out of range. Must be from 2 to {MAX_POINTS}.",
                code="invalid_query",
            )
        job = jobs.get_job(run_id, db=current_database())
        return Response(job_series(job, db=current_database(), points=points))


class JobAttemptsView(APIView):
    @extend_schema(
        tags=["jobs"], operation_id="list_job_attempts", responses=examples.LIST_OF_ATTEMPTS
    )
    def get(self, request: Request, run_id: int) -> Response:
        check_query(request)
        job = jobs.get_job(run_id, db=current_database())
        rows = job.attempts.using(current_database()).order_by("attempt")
        return Response({"attempts": AttemptSerializer(rows, many=True).data})


class JobCheckpointsView(APIView):
    @extend_schema(
        tags=["jobs"],
        operation_id="list_job_checkpoints",
        responses=examples.LIST_OF_CHECKPOINTS,
        examples=examples.CHECKPOINTS,
    )
    def get(self, request: Request, run_id: int) -> Response:
        check_query(request)
        job = jobs.get_job(run_id, db=current_database())
        rows = job_checkpoints(job, db=current_database())
        return Response({"checkpoints": CheckpointSerializer(rows, many=True).data})


def _filtered(request: Request) -> QuerySet[TrainingJob]:
    rows = TrainingJob.objects.using(current_database())
    status = request.query_params.get("status")
    if status is not None:
        if status not in JobStatus.values:
            raise InvalidRequest(
                f"status={status[:100]!r} is not a status. Known: {', '.join(JobStatus.values)}.",
                code="invalid_query",
            )
        rows = rows.filter(status=status)
    text = request.query_params.get("q", "")
    if len(text) > MAX_SEARCH:
        raise InvalidRequest(
            f"q has {len(text)} characters. Search for at most {MAX_SEARCH}.", code="invalid_query"
        )
    if text:
        rows = rows.search(text)
    return rows


def _event(row: JobEvent) -> dict[str, Any]:
    return {
        "seq": row.seq,
        "type": row.type,
        "attempt": row.attempt,
        "data": row.data,
        "created_at": row.created_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
