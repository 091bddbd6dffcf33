"""All addresses of the project."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularAPIView

from gligabao.health import healthz, readyz
from gligabao.schema import SchemaPageView

api = [
    path("gb/training/", include(("training.api.urls", "training-api"))),
    path("gb/training/", include(("datasets.api.urls", "datasets-api"))),
    path("schema", SpectacularAPIView.as_view(), name="schema"),
    path("schema/page", SchemaPageView.as_view(url_name="schema"), name="schema-page"),
]

console = [
    path("", include("training.console.urls")),
    path("", include("datasets.console.urls")),
    path("", include("gligabao.console.urls")),
]

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="console:overview", query_string=True), name="home"),
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("v1/", include(api)),
    path("console/", include((console, "console"))),
    path("login/", LoginView.as_view(template_name="login.html"), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("admin/", admin.site.urls),
]
