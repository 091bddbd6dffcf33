"""The page of the OpenAPI schema, with its scripts from a package and no inline script."""

from __future__ import annotations

from drf_spectacular.views import SpectacularSwaggerSplitView


class SchemaPageView(SpectacularSwaggerSplitView):
    """Swagger UI in two files, so that the Content-Security-Policy can forbid inline scripts."""
