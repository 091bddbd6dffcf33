"""The OpenAPI schema: who may ask, the addresses that DRF does not serve, and its page."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.views import SpectacularSwaggerSplitView


class SchemaPageView(SpectacularSwaggerSplitView):
    """Swagger UI in two files and in our own frame: the Content-Security-Policy forbids inline
    scripts and styles."""

    template_name = "schema_page.html"


class BearerScheme(OpenApiAuthenticationExtension):
    target_class = "gligabao.rest.BearerAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "A token from `manage.py create_token`.",
        }


class SessionScheme(OpenApiAuthenticationExtension):
    target_class = "gligabao.rest.SessionAuthentication"
    name = "login"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": "sessionid",
            "description": "The console's login; writing needs its CSRF token too.",
        }


class JobTokenScheme(OpenApiAuthenticationExtension):
    target_class = "training.api.authentication.JobTokenAuthentication"
    name = "jobToken"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "The job's own token, which its trainer was given.",
        }


FEED = {
    "operationId": "follow_events",
    "description": (
        "Server-sent events. With `run_id` the job's stored events after `Last-Event-ID` (or from "
        "`from`), then the live ones, each with `id: <seq>`. Without it the live events of all "
        "jobs, with no ids. A `: keepalive` comment comes every 15 seconds."
    ),
    "tags": ["jobs"],
    "security": [{"token": []}, {"login": []}],
    "parameters": [
        {"in": "query", "name": "db", "schema": {"type": "string"}},
        {"in": "query", "name": "run_id", "schema": {"type": "integer"}},
        {"in": "query", "name": "from", "schema": {"type": "integer"}},
        {"in": "header", "name": "Last-Event-ID", "schema": {"type": "string"}},
    ],
    "responses": {
        "200": {
            "description": "The stream; it stays open.",
            "content": {
                "text/event-stream": {
                    "schema": {"type": "string"},
                    "example": (
                        'id: 4\nevent: progress\ndata: {"db":"standard","run_id":3,'
                        '"job_id":"3f9a1c52d0e84b17","seq":4,"type":"progress","step":20,'
                        '"loss":1.234}\n\n'
                    ),
                }
            },
        },
        "404": {"description": "No such job."},
    },
}


def add_feed(result: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    """Add the live feed, which is a plain async view and so unknown to DRF."""
    result["paths"]["/v1/gb/training/events"] = {"get": FEED}
    return result


class UploadSessionScheme(SessionScheme):
    """Uploads read the CSRF token from the header alone; see `datasets.api.upload`."""

    target_class = "datasets.api.upload.HeaderSessionAuthentication"
    name = "loginWithHeader"
