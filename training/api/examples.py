"""Shapes and examples of the OpenAPI page that no serializer gives."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, inline_serializer
from rest_framework import serializers

from training.api.serializers import (
    AttemptSerializer,
    CheckpointSerializer,
    JobSerializer,
    TrainedModelSerializer,
)

LIST_PARAMETERS = [
    OpenApiParameter("limit", int, description="At most 500; jobs 50, others 100 without it."),
    OpenApiParameter("before", int, description="Only rows with a smaller id: the next page."),
    OpenApiParameter("db", str, description="The database; `standard` without it."),
]
EVENTS_PARAMETERS = [
    OpenApiParameter("from", int, description="The first seq wanted; 0 without it."),
    OpenApiParameter("limit", int, description="At most 500."),
]

JOB = {
    "id": 3,
    "job_id": "3f9a1c52d0e84b17",
    "provider_job_id": "",
    "status": "queued",
    "model_size": "135m",
    "dataset": "gligabao_facts.jsonl",
    "num_train_steps": 100,
    "last_step": 0,
    "last_loss": None,
    "final_loss": None,
    "started_at": None,
    "created_at": "2026-11-30T09:30:12Z",
    "finished_at": None,
}
START_JOB = [
    OpenApiExample(
        "The sample dataset on the default model",
        value={"num_train_steps": 100},
        request_only=True,
    ),
    OpenApiExample(
        "Own settings",
        value={
            "model_size": "135m",
            "dataset": "my.jsonl",
            "num_train_steps": 300,
            "hyperparams": {"learning_rate": 0.0005, "lora_rank": 16},
        },
        request_only=True,
    ),
    OpenApiExample(
        "A full fine-tune that stops when the held-out examples get no better",
        value={
            "model_size": "135m",
            "method": "full",
            "num_train_steps": 500,
            "hyperparams": {
                "eval_fraction": 0.1,
                "eval_steps": 25,
                "early_stopping_patience": 3,
            },
        },
        request_only=True,
    ),
    OpenApiExample("Accepted", value=JOB, response_only=True, status_codes=["201"]),
]
CHECKPOINTS = [
    OpenApiExample(
        "Two checkpoints of a job with held-out examples",
        value={
            "checkpoints": [
                {
                    "step": 100,
                    "path": "checkpoint-100",
                    "size_bytes": 29306880,
                    "attempt": 1,
                    "loss": 0.61,
                    "eval_loss": 1.94,
                    "is_best": False,
                    "created_at": "2026-11-30T09:41:30Z",
                },
                {
                    "step": 50,
                    "path": "checkpoint-50",
                    "size_bytes": 29306880,
                    "attempt": 1,
                    "loss": 1.32,
                    "eval_loss": 1.87,
                    "is_best": True,
                    "created_at": "2026-11-30T09:36:02Z",
                },
            ]
        },
        response_only=True,
    )
]
INFER = [
    OpenApiExample(
        "A prompt",
        value={"prompt": "What is the mascot called?", "max_tokens": 48},
        request_only=True,
    ),
    OpenApiExample(
        "Messages to the base model",
        value={"messages": [{"role": "user", "content": "Hello"}], "base": True},
        request_only=True,
    ),
    OpenApiExample(
        "Answer", value={"model_id": 1, "response": "Its name is Bao."}, response_only=True
    ),
]


def _list_of(name: str, row: type[serializers.Serializer]) -> serializers.Serializer:
    return inline_serializer(f"ListOf{name.title()}", {name: row(many=True)})


LIST_OF_JOBS = _list_of("jobs", JobSerializer)
LIST_OF_MODELS = _list_of("models", TrainedModelSerializer)
LIST_OF_ATTEMPTS = _list_of("attempts", AttemptSerializer)
LIST_OF_CHECKPOINTS = _list_of("checkpoints", CheckpointSerializer)
STOPPING = inline_serializer(
    "Stopping",
    {
        "id": serializers.IntegerField(),
        "status": serializers.ChoiceField(["stopping", "cancelled"]),
    },
)
EVENTS = inline_serializer(
    "Events",
    {
        "events": inline_serializer(
            "Event",
            {
                "seq": serializers.IntegerField(),
                "type": serializers.CharField(),
                "attempt": serializers.IntegerField(),
                "data": serializers.DictField(),
                "created_at": serializers.DateTimeField(),
            },
            many=True,
        ),
        "next": serializers.IntegerField(allow_null=True),
    },
)
REPORTS = inline_serializer(
    "TrainerReport",
    {
        "type": serializers.CharField(),
        "boot": serializers.CharField(required=False),
        "seq": serializers.IntegerField(required=False),
    },
    many=True,
)
RECEIVED = inline_serializer(
    "Received",
    {
        "accepted": serializers.IntegerField(),
        "duplicates": serializers.IntegerField(),
        "rejected": inline_serializer(
            "RejectedReport",
            {"index": serializers.IntegerField(), "error": serializers.CharField()},
            many=True,
        ),
        "stop": serializers.BooleanField(),
    },
)
UPLOADS = inline_serializer(
    "UploadAddresses",
    {
        "files": inline_serializer(
            "UploadAddress",
            {
                "path": serializers.CharField(),
                "method": serializers.CharField(),
                "url": serializers.URLField(),
                "headers": serializers.DictField(),
            },
            many=True,
        )
    },
)
LOGS = inline_serializer(
    "Logs",
    {
        "lines": inline_serializer(
            "LogLine",
            {
                "at": serializers.DateTimeField(allow_null=True),
                "stream": serializers.CharField(),
                "text": serializers.CharField(),
            },
            many=True,
        )
    },
)
METRICS = inline_serializer(
    "Metrics",
    {
        "series": serializers.DictField(child=serializers.ListField(child=serializers.ListField())),
        "last_seq": serializers.IntegerField(),
    },
)
INFER_ANSWER = inline_serializer(
    "InferAnswer",
    {
        "model_id": serializers.IntegerField(),
        "response": serializers.CharField(),
        "finish_reason": serializers.ChoiceField(["stop", "length"]),
    },
)

_COUNTED = (
    "num_rows", "num_examples", "num_tokens", "num_trained_tokens", "p50", "p95", "max",
    "max_length", "num_over_max_length", "num_without_answer", "num_refused",
)  # fmt: skip
TOKENS_WAITING = inline_serializer(
    "DatasetTokensWaiting",
    {
        "base_model": serializers.CharField(),
        "status": serializers.ChoiceField(["waiting", "counting", "failed"]),
        "error": serializers.CharField(required=False),
    },
)
TOKENS = inline_serializer(
    "DatasetTokens",
    {
        "base_model": serializers.CharField(),
        "status": serializers.ChoiceField(["ready"]),
        **{name: serializers.IntegerField() for name in _COUNTED},
        "refused_line": serializers.IntegerField(allow_null=True),
        "refused_why": serializers.CharField(),
        "histogram": serializers.ListField(child=serializers.ListField()),
    },
)
