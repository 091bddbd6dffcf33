"""Examples for the OpenAPI schema."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample

_SUMMARY: dict[str, Any] = {
    "id": 3,
    "filename": "my.jsonl",
    "name": "Bolts and glue",
    "description": "Questions from the workshop.",
    "size_bytes": 48213,
    "num_records": 120,
    "sha256": "3f2c0e0f5d1b6b1d7a5f0c9b7e8a9d6c1b2a3f4e5d6c7b8a9f0e1d2c3b4a5f60",
    "format": "chat",
    "status": "ready",
    "created_at": "2026-03-01T09:30:00Z",
    "updated_at": "2026-03-01T09:30:00Z",
    "synced_at": None,
}
_REPORT: dict[str, Any] = {
    "error": None,
    "code": None,
    "errors": [],
    "error_count": 0,
    "codes": {},
    "warnings": [
        {
            "code": "blank_lines",
            "count": 1,
            "message": "Blank lines were skipped.",
            "line": 4,
            "lines": [4],
        }
    ],
    "num_records": 120,
    "format": "chat",
    "rows_compared": 120,
    "role_order_line": None,
}
_BROKEN = _REPORT | {
    "error": "Line 2: No message is from the assistant.",
    "code": "no_assistant",
    "errors": [
        {
            "line": 2,
            "column": None,
            "path": "messages",
            "code": "no_assistant",
            "message": "No message is from the assistant.",
        }
    ],
    "error_count": 1,
    "codes": {"no_assistant": 1},
    "num_records": 119,
}

LIST = OpenApiExample("List", {"datasets": [_SUMMARY]}, response_only=True, status_codes=["200"])
ROW = OpenApiExample(
    "Dataset", _SUMMARY | {"report": _REPORT}, response_only=True, status_codes=["200", "201"]
)
REPORT = OpenApiExample("Report", _BROKEN, response_only=True, status_codes=["400"])
ROWS = OpenApiExample(
    "Rows",
    {
        "rows": [
            {
                "line": 1,
                "index": 0,
                "problems": [],
                "messages": [
                    {
                        "role": "user",
                        "content": {"text": "Which shelf?", "length": 12, "is_cut": False},
                    },
                    {
                        "role": "assistant",
                        "content": {"text": "Shelf seven.", "length": 12, "is_cut": False},
                    },
                ],
                "num_messages": 2,
                "tools": None,
            }
        ],
        "next": None,
    },
    response_only=True,
    status_codes=["200"],
)
