"""Shapes of the training API: request bodies and the fields of each row, by name."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from gligabao.rest import (
    StrictBooleanField,
    StrictCharField,
    StrictIntegerField,
    StrictSerializer,
)
from training.hyperparams import HYPERPARAMS, METHODS
from training.models import JobAttempt, TrainedModel, TrainingJob

MAX_PROMPT_CHARACTERS = 200_000
MAX_NEW_TOKENS = 4096
INFER_ROLES = ("system", "developer", "user", "assistant", "tool")

HYPERPARAMS_SCHEMA = {
    "type": "object",
    "properties": {
        name: {"description": allowed.meaning, **allowed.schema}
        | ({} if allowed.default is None else {"default": allowed.default})
        for name, allowed in HYPERPARAMS.items()
    },
    "additionalProperties": False,
}


@extend_schema_field(HYPERPARAMS_SCHEMA)
class HyperparamsField(serializers.DictField):
    """Any object: the service checks names, ranges and what contradicts itself."""


class StartJobSerializer(StrictSerializer):
    """What may be asked for; the service checks what it means."""

    num_train_steps = StrictIntegerField(required=False, help_text="1 to 1,000,000; default 100.")
    model_size = StrictCharField(required=False, max_length=64)
    base_model = StrictCharField(required=False, max_length=64)
    dataset = StrictCharField(required=False, max_length=1000, help_text="A *.jsonl file name.")
    method = StrictCharField(
        required=False, max_length=16, help_text=f"{', '.join(METHODS)}; default lora."
    )
    provider = StrictCharField(required=False, max_length=32)
    hyperparams = HyperparamsField(required=False)
    max_seconds = StrictIntegerField(required=False, help_text="At most 86400; default 7200.")
    name = StrictCharField(required=False, allow_blank=True, max_length=200)


class UpdateJobSerializer(StrictSerializer):
    name = StrictCharField(required=False, allow_blank=True, max_length=200)
    note = StrictCharField(required=False, allow_blank=True, max_length=10_000)
    tags = serializers.ListField(
        required=False, child=StrictCharField(min_length=1, max_length=64), max_length=50
    )


class RetryJobSerializer(StrictSerializer):
    resume = StrictBooleanField(
        required=False, default=False, help_text="Go on from the last checkpoint."
    )


class StopJobSerializer(StrictSerializer):
    """The request has no fields."""


class JobSerializer(serializers.ModelSerializer):
    """A job's row. `retry_of` is the id of the job it repeats.

    `last_loss` is the loss last reported, `final_loss` the mean of all steps, known at the end.
    """

    hyperparams = HyperparamsField(read_only=True)
    retry_of = serializers.IntegerField(source="retry_of_id", allow_null=True, read_only=True)

    class Meta:
        model = TrainingJob
        fields = (
            "id",
            "job_id",
            "provider_job_id",
            "status",
            "model_size",
            "dataset",
            "num_train_steps",
            "last_step",
            "last_loss",
            "final_loss",
            "error",
            "started_at",
            "created_at",
            "finished_at",
            "name",
            "note",
            "tags",
            "base_model",
            "model_source",
            "method",
            "provider",
            "hyperparams",
            "max_seconds",
            "dataset_sha256",
            "attempt",
            "outcome",
            "reason",
            "warnings",
            "last_loss_nonfinite",
            "requested_by",
            "retry_of",
            "resume",
            "submitted_at",
            "last_seen_at",
            "stop_requested_at",
            "is_stopping",
            "is_stale",
        )
        read_only_fields = fields


class AttemptSerializer(serializers.ModelSerializer):
    class Meta:
        model = JobAttempt
        fields = ("attempt", "boot", "provider_job_id", "started_at", "ended_at", "reason")
        read_only_fields = fields


class CheckpointSerializer(serializers.Serializer):
    """A checkpoint, as `training.checkpoints.JobCheckpoint` has it."""

    step = serializers.IntegerField()
    path = serializers.CharField()
    size_bytes = serializers.IntegerField(allow_null=True)
    attempt = serializers.IntegerField()
    loss = serializers.FloatField(allow_null=True)
    eval_loss = serializers.FloatField(allow_null=True)
    is_best = serializers.BooleanField()
    created_at = serializers.DateTimeField()


class TrainedModelSerializer(serializers.ModelSerializer):
    """A trained model's row. `base_model` is the repository, `base_model_id` the catalog's id."""

    run_id = serializers.IntegerField(allow_null=True, read_only=True)

    class Meta:
        model = TrainedModel
        fields = (
            "id",
            "name",
            "note",
            "run_id",
            "job_id",
            "base_model",
            "base_model_id",
            "base_model_revision",
            "model_source",
            "model_size",
            "method",
            "dataset",
            "dataset_sha256",
            "num_examples",
            "num_train_steps",
            "final_loss",
            "params",
            "path",
            "files",
            "size_bytes",
            "storage_bytes",
            "verified_at",
            "created_at",
        )
        read_only_fields = fields


class UpdateModelSerializer(StrictSerializer):
    name = StrictCharField(required=False, min_length=1, max_length=200)
    note = StrictCharField(required=False, allow_blank=True, max_length=10_000)


class MessageSerializer(StrictSerializer):
    role = serializers.ChoiceField(choices=INFER_ROLES)
    content = StrictCharField(allow_blank=True, max_length=MAX_PROMPT_CHARACTERS)


class PromptCharField(StrictCharField):
    """A prompt may hold any character, NUL too: it is tokenised, not stored."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.validators = [
            validator
            for validator in self.validators
            if type(validator).__name__ != "ProhibitNullCharactersValidator"
        ]


class InferSerializer(StrictSerializer):
    prompt = PromptCharField(required=False, max_length=MAX_PROMPT_CHARACTERS)
    messages = MessageSerializer(many=True, required=False, min_length=1, max_length=200)
    max_tokens = StrictIntegerField(
        required=False, default=256, min_value=1, max_value=MAX_NEW_TOKENS
    )
    temperature = serializers.FloatField(required=False, default=0.0, min_value=0, max_value=2)
    base = StrictBooleanField(required=False, default=False, help_text="Ask the base model.")
    stream = StrictBooleanField(required=False, default=False, help_text="Server-sent events.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("prompt" in attrs) == ("messages" in attrs):
            raise serializers.ValidationError("Send either prompt or messages.")
        return attrs


class UploadsSerializer(StrictSerializer):
    files = serializers.ListField(child=serializers.DictField(), min_length=1, max_length=1000)
