"""/v1/gb/training/datasets/{filename}/tokens: how many tokens a model makes of the rows."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from datasets.services import get_dataset
from gligabao.databases import current_database
from gligabao.rest import check_query, query_number
from training.api import examples
from training.models import TokenStatistics
from training.models.token_statistics import TokenStatus
from training.services.jobs import default_base_model
from training.services.token_statistics import checked_max_length, token_statistics
from training.token_summary import summary


class DatasetTokensView(APIView):
    @extend_schema(
        tags=["datasets"],
        operation_id="get_dataset_tokens",
        summary="Count the tokens of a dataset",
        description="A worker counts when this is first asked for: until then a 202 says how far "
        "it is. The base model without `base_model` is that of a job without one, and "
        "`max_length` that of the base model.",
        parameters=[
            OpenApiParameter("base_model", str),
            OpenApiParameter("max_length", int),
            OpenApiParameter("db", str),
        ],
        responses={200: examples.TOKENS, 202: examples.TOKENS_WAITING},
    )
    def get(self, request: Request, filename: str) -> Response:
        check_query(request, "base_model", "max_length")
        db = current_database()
        get_dataset(filename, db=db)
        base_model_id = request.query_params.get("base_model") or default_base_model()
        given = None
        if "max_length" in request.query_params:
            given = query_number(request, "max_length", default=0)
        row = token_statistics(filename, base_model_id, db=db)
        max_length = checked_max_length(given, base_model_id)
        is_ready = row.status == TokenStatus.READY
        return Response(_answer(row, max_length), status=200 if is_ready else 202)


def _answer(row: TokenStatistics, max_length: int) -> dict[str, Any]:
    answer: dict[str, Any] = {"base_model": row.base_model, "status": row.status}
    if row.status == TokenStatus.FAILED:
        return answer | {"error": row.error}
    if row.status != TokenStatus.READY:
        return answer
    found = summary(row.lengths, row.firsts, max_length=max_length)
    return answer | {
        "num_rows": row.num_rows,
        "num_examples": found.count,
        "num_tokens": found.num_tokens,
        "num_trained_tokens": row.num_trained,
        "p50": found.p50,
        "p95": found.p95,
        "max": found.max,
        "max_length": max_length,
        "num_over_max_length": found.num_over,
        "num_without_answer": found.num_without_answer,
        "num_refused": row.num_refused,
        "refused_line": row.refused_line,
        "refused_why": row.refused_why,
        "histogram": [[one.start, one.stop, one.count] for one in found.bins],
    }
