"""Behind a proxy that ends TLS: two settings, both off by default."""

import pytest
from django.contrib.auth.models import User
from django.test import Client, RequestFactory

pytestmark = pytest.mark.django_db


def log_in(origin, **headers):
    User.objects.create_superuser("root", password="a-long-password")
    client = Client(enforce_csrf_checks=True, headers={"Host": "train.example"} | headers)
    client.get("/admin/login/")
    return client.post(
        "/admin/login/",
        {
            "username": "root",
            "password": "a-long-password",
            "csrfmiddlewaretoken": client.cookies["csrftoken"].value,
            "next": "/admin/",
        },
        headers={"Origin": origin},
    )


def test_u04_with_both_settings_the_login_works(settings):
    settings.ALLOWED_HOSTS = ["train.example"]
    settings.CSRF_TRUSTED_ORIGINS = ["https://train.example"]
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

    answer = log_in("https://train.example", **{"X-Forwarded-Proto": "https"})

    assert answer.status_code == 302


def test_u04_without_them_another_origin_is_refused(settings):
    settings.ALLOWED_HOSTS = ["train.example"]

    assert log_in("https://train.example").status_code == 403


def test_u04_the_forwarded_header_alone_changes_nothing(settings):
    request = RequestFactory(headers={"X-Forwarded-Proto": "https"}).get("/")

    assert not request.is_secure()
    assert settings.SECURE_PROXY_SSL_HEADER is None
