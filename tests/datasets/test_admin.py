"""The raw rows in Django's admin: to be looked at only."""

import pytest
from django.contrib.auth.models import User

from datasets.services import default_dataset

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("model", ["dataset", "datasetversion"])
def test_rows_can_be_seen_and_not_changed(client, model):
    client.force_login(User.objects.create_superuser("root"))
    default_dataset("default")
    row = f"/admin/datasets/{model}/1/change/"

    listing = client.get(f"/admin/datasets/{model}/")

    assert listing.status_code == 200
    assert client.get(f"/admin/datasets/{model}/add/").status_code == 403
    assert client.post(row, {}).status_code in (302, 403)
    assert client.post(f"/admin/datasets/{model}/1/delete/").status_code in (302, 403)
