"""/v1/gb/training/models: list, detail, files, rename, delete, and prompts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from asgiref.sync import async_to_sync
from django.http import HttpResponseBase, HttpResponseRedirect, StreamingHttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from gligabao.databases import current_database
from gligabao.errors import GligabaoError
from gligabao.rest import check_query, dumps, page_of
from training.api import examples
from training.api.serializers import (
    InferSerializer,
    TrainedModelSerializer,
    UpdateModelSerializer,
)
from training.models import TrainedModel
from training.providers.base import InferEvent
from training.services import trained_models


class TrainedModelsView(APIView):
    @extend_schema(
        tags=["models"],
        operation_id="list_models",
        parameters=examples.LIST_PARAMETERS,
        responses=examples.LIST_OF_MODELS,
    )
    def get(self, request: Request) -> Response:
        check_query(request, "limit", "before")
        rows = TrainedModel.objects.using(current_database())
        page = page_of(rows, request, default_limit=100)
        return Response({"models": TrainedModelSerializer(page, many=True).data})


class TrainedModelView(APIView):
    @extend_schema(tags=["models"], operation_id="get_model", responses=TrainedModelSerializer)
    def get(self, request: Request, model_id: int) -> Response:
        model = trained_models.get_model(model_id, db=current_database())
        return Response(TrainedModelSerializer(model).data)

    @extend_schema(
        tags=["models"],
        operation_id="update_model",
        request=UpdateModelSerializer,
        responses=TrainedModelSerializer,
    )
    def patch(self, request: Request, model_id: int) -> Response:
        body = UpdateModelSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        model = trained_models.update_model(model_id, body.validated_data, db=current_database())
        return Response(TrainedModelSerializer(model).data)

    @extend_schema(tags=["models"], operation_id="delete_model", responses={204: None})
    def delete(self, request: Request, model_id: int) -> Response:
        trained_models.delete_model(model_id, db=current_database())
        return Response(status=204)


class ModelFileView(APIView):
    @extend_schema(
        tags=["models"],
        operation_id="get_model_file",
        parameters=[OpenApiParameter("path", str, OpenApiParameter.PATH)],
        responses={302: None},
    )
    def get(self, request: Request, model_id: int, path: str) -> HttpResponseBase:
        model = trained_models.get_model(model_id, db=current_database())
        return HttpResponseRedirect(trained_models.file_address(model, path))


class InferView(APIView):
    @extend_schema(
        tags=["models"],
        operation_id="infer",
        request=InferSerializer,
        responses=examples.INFER_ANSWER,
        examples=examples.INFER,
    )
    def post(self, request: Request, model_id: int) -> HttpResponseBase:
        body = InferSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        asked = body.validated_data
        model = trained_models.get_model(model_id, db=current_database())
        answer = trained_models.infer(
            model,
            messages=asked.get("messages") or [{"role": "user", "content": asked["prompt"]}],
            max_tokens=asked["max_tokens"],
            temperature=asked["temperature"],
            base=asked["base"],
        )
        if asked["stream"]:
            return _streamed(model, answer)
        return Response({"model_id": model.pk, **async_to_sync(whole_answer)(answer)})


async def whole_answer(answer: AsyncIterator[InferEvent]) -> dict[str, Any]:
    """The finished answer; notes only where there are any."""
    result: dict[str, Any] = {}
    notes = []
    async for event in answer:
        if event.kind == "note":
            notes.append(event.text)
        elif event.kind == "done":
            result = {"response": event.text, "finish_reason": event.finish_reason}
    return result | ({"notes": notes} if notes else {})


def _streamed(model: TrainedModel, answer: AsyncIterator[InferEvent]) -> StreamingHttpResponse:
    response = StreamingHttpResponse(_messages(model, answer), content_type="text/event-stream")
    response.headers["Cache-Control"] = "no-cache"
    response.headers["X-Accel-Buffering"] = "no"
    return response


async def _messages(model: TrainedModel, answer: AsyncIterator[InferEvent]) -> AsyncIterator[bytes]:
    try:
        async for event in answer:
            if event.kind == "token":
                yield _message("token", {"text": event.text})
            elif event.kind == "note":
                yield _message("note", {"text": event.text})
            else:
                done = {
                    "model_id": model.pk,
                    "response": event.text,
                    "finish_reason": event.finish_reason,
                }
                yield _message("done", done)
    except GligabaoError as error:
        yield _message("error", error.as_json())


def _message(kind: str, data: dict[str, Any]) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + dumps(data) + b"\n\n"
