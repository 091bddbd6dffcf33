"""Datasets in JSON."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from datasets.models import Dataset, DatasetStatus
from datasets.services import live_status


class DatasetSummarySerializer(serializers.ModelSerializer):
    """A row of the list. `status` is looked up now: a missing file shows at once."""

    status = serializers.SerializerMethodField()

    class Meta:
        model = Dataset
        fields = (
            "id",
            "filename",
            "name",
            "description",
            "size_bytes",
            "num_records",
            "sha256",
            "format",
            "status",
            "created_at",
            "updated_at",
            "synced_at",
        )

    def get_status(self, dataset: Dataset) -> DatasetStatus:
        return live_status(dataset, db=dataset._state.db)


class ReportErrorSerializer(serializers.Serializer):
    line = serializers.IntegerField(allow_null=True)
    column = serializers.IntegerField(allow_null=True)
    path = serializers.CharField(allow_null=True)
    code = serializers.CharField()
    message = serializers.CharField()


class ReportWarningSerializer(serializers.Serializer):
    code = serializers.CharField()
    count = serializers.IntegerField()
    message = serializers.CharField()
    line = serializers.IntegerField(allow_null=True)
    lines = serializers.ListField(child=serializers.IntegerField())


class ReportSerializer(serializers.Serializer):
    """What validation found: the first 100 errors, and totals."""

    error = serializers.CharField(allow_null=True)
    code = serializers.CharField(allow_null=True)
    errors = ReportErrorSerializer(many=True)
    error_count = serializers.IntegerField()
    codes = serializers.DictField(child=serializers.IntegerField())
    warnings = ReportWarningSerializer(many=True)
    num_records = serializers.IntegerField()
    format = serializers.CharField(allow_null=True)
    rows_compared = serializers.IntegerField(help_text="Rows that were looked at for duplicates.")
    role_order_line = serializers.IntegerField(allow_null=True)


class DatasetSerializer(DatasetSummarySerializer):
    """One dataset with its report."""

    report = serializers.SerializerMethodField()

    class Meta(DatasetSummarySerializer.Meta):
        fields = (*DatasetSummarySerializer.Meta.fields, "report")

    def get_report(self, dataset: Dataset) -> dict[str, Any]:
        return dataset.report


class DatasetListSerializer(serializers.Serializer):
    datasets = DatasetSummarySerializer(many=True)


class UploadSerializer(serializers.Serializer):
    """The form of an upload, for the schema; `upload.receive` reads it."""

    file = serializers.FileField(help_text="A JSONL file; its name is the dataset's name in jobs.")
    name = serializers.CharField(required=False)
    description = serializers.CharField(required=False)


class RowSerializer(serializers.Serializer):
    """One row; texts are `{"text", "length", "is_cut"}`, cut after 2 kB."""

    line = serializers.IntegerField()
    index = serializers.IntegerField()
    problems = serializers.ListField(child=serializers.DictField())
    messages = serializers.ListField(child=serializers.DictField(), required=False)
    num_messages = serializers.IntegerField(required=False)
    tools = serializers.JSONField(required=False)
    text = serializers.DictField(required=False)
    raw = serializers.DictField(required=False, help_text="The line as it is, if it is not valid.")


class RowsSerializer(serializers.Serializer):
    rows = RowSerializer(many=True)
    next = serializers.IntegerField(allow_null=True)
