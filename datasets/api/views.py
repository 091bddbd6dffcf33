"""`/v1/gb/training/datasets`: list, upload, look into, delete."""

from __future__ import annotations

from typing import NoReturn

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from datasets import services
from datasets.api import examples
from datasets.api.serializers import (
    DatasetListSerializer,
    DatasetSerializer,
    DatasetSummarySerializer,
    ReportSerializer,
    RowsSerializer,
    UploadSerializer,
)
from datasets.api.upload import HeaderSessionAuthentication, UploadParser, receive
from datasets.models import Dataset
from gligabao.databases import current_database
from gligabao.errors import InvalidRequest
from gligabao.rest import (
    BearerAuthentication,
    StrictJSONParser,
    check_query,
    page_of,
    query_limit,
    query_number,
)

DEFAULT_LIMIT = 100
DEFAULT_ROWS = 20
DB = OpenApiParameter("db", str, description="Name of the database; `standard` if left out.")
TAGS = ["datasets"]


class DatasetsView(APIView):
    """The training files of the database."""

    authentication_classes = (BearerAuthentication, HeaderSessionAuthentication)
    parser_classes = (UploadParser, StrictJSONParser)

    @extend_schema(
        operation_id="list_datasets",
        tags=TAGS,
        summary="List datasets, newest first",
        parameters=[
            DB,
            OpenApiParameter("limit", int, description="At most 500."),
            OpenApiParameter("before", int, description="Only those with a smaller id."),
        ],
        responses=DatasetListSerializer,
        examples=[examples.LIST],
    )
    def get(self, request: Request) -> Response:
        check_query(request, "limit", "before")
        datasets = page_of(
            Dataset.objects.using(current_database()), request, default_limit=DEFAULT_LIMIT
        )
        return Response({"datasets": DatasetSummarySerializer(datasets, many=True).data})

    @extend_schema(
        operation_id="upload_dataset",
        tags=TAGS,
        summary="Upload a JSONL file",
        description="New or changed content is a 201, the content that is there already a 200. "
        "A file that does not validate stores nothing and answers the whole report.",
        parameters=[DB],
        request={"multipart/form-data": UploadSerializer},
        responses={
            201: DatasetSerializer,
            200: DatasetSerializer,
            400: OpenApiResponse(ReportSerializer, "The report, or another reason."),
        },
        examples=[examples.ROW, examples.REPORT],
    )
    def post(self, request: Request) -> Response:
        check_query(request)
        if not (request.content_type or "").lower().startswith(UploadParser.media_type):
            _refuse_json(request)
        # A request without a body has no parts; it never gets to the parser.
        parts = getattr(request.data, "parts", ())
        dataset, outcome = receive(parts, db=current_database())
        is_same = outcome is services.Outcome.SAME
        return Response(
            DatasetSerializer(dataset).data,
            status=status.HTTP_200_OK if is_same else status.HTTP_201_CREATED,
        )


class DatasetView(APIView):
    """One training file, by its name."""

    @extend_schema(
        operation_id="get_dataset",
        tags=TAGS,
        summary="Read one dataset with its report",
        parameters=[DB],
        responses=DatasetSerializer,
        examples=[examples.ROW],
    )
    def get(self, request: Request, filename: str) -> Response:
        check_query(request)
        dataset = services.get_dataset(filename, db=current_database())
        return Response(DatasetSerializer(dataset).data)

    @extend_schema(
        operation_id="delete_dataset",
        tags=TAGS,
        summary="Delete an uploaded dataset",
        description="409 while an unfinished job uses it, and for files that were not uploaded.",
        parameters=[DB],
        responses={204: None},
    )
    def delete(self, request: Request, filename: str) -> Response:
        check_query(request)
        services.delete(filename, db=current_database())
        return Response(status=status.HTTP_204_NO_CONTENT)


class DatasetRowsView(APIView):
    """The rows of a training file as the trainer sees them."""

    @extend_schema(
        operation_id="list_dataset_rows",
        tags=TAGS,
        summary="Read rows as the trainer sees them",
        description="Each text is cut after 2 kB and told with its true length. Pages hold at "
        "most 100 rows; `next` is the offset of the next page.",
        parameters=[
            DB,
            OpenApiParameter("offset", int),
            OpenApiParameter("limit", int),
            OpenApiParameter("problems", bool, description="Only rows that the report names."),
        ],
        responses=RowsSerializer,
        examples=[examples.ROWS],
    )
    def get(self, request: Request, filename: str) -> Response:
        check_query(request, "offset", "limit", "problems")
        db = current_database()
        page = services.rows(
            services.get_dataset(filename, db=db),
            offset=query_number(request, "offset", default=0),
            limit=query_limit(request, default=DEFAULT_ROWS),
            problems=_flag(request, "problems"),
            db=db,
        )
        return Response(page)


def _flag(request: Request, name: str) -> bool:
    raw = request.query_params.get(name, "false").lower()
    if raw not in ("true", "false", "1", "0"):
        raise InvalidRequest(f"{name} is not true or false.", code="invalid_query")
    return raw in ("true", "1")


def _refuse_json(request: Request) -> NoReturn:
    """JSON is read, so that a broken body is told as such; there is nothing it could ask for."""
    body = request.data
    fields = ", ".join(sorted(map(repr, body))[:5]) if isinstance(body, dict) and body else "none"
    raise InvalidRequest(
        f"Send the file as multipart/form-data in the field 'file'. Fields found: {fields}; "
        "none of them is known in JSON.",
        code="unknown_field",
    )
