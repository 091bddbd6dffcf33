"""Addresses under /console/settings/."""

from __future__ import annotations

from django.urls import path

from gligabao.console import account

urlpatterns = [
    path("settings/", account.profile, name="settings"),
    path("settings/password", account.password, name="settings-password"),
    path("settings/language", account.language, name="settings-language"),
    path("settings/tokens/", account.tokens, name="settings-tokens"),
    path("settings/tokens/<str:token_key>/revoke", account.revoke, name="settings-revoke"),
    path("settings/about/", account.about, name="settings-about"),
]
