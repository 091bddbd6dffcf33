"""The OpenAPI page, in a browser that forbids inline scripts."""

import pytest

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(databases="__all__", transaction=True),
]


def test_the_page_shows_the_operations(visitor_as):
    page = visitor_as("viewer").open("/v1/schema/page")

    page.get_by_text("/v1/gb/training/jobs", exact=True).first.wait_for()

    assert page.locator(".opblock").count() > 15
