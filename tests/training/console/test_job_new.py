"""The form that starts a run."""

import pytest

from gligabao.errors import NotConfigured
from tests.factories import make_dataset, make_job
from tests.reading import Page, page_of
from training.hyperparams import job_hyperparams
from training.models import TrainingJob

pytestmark = pytest.mark.django_db(databases=["default", "second"])

ADDRESS = "/console/jobs/new/"


def chosen(page):
    return {one["value"] for one in page.all("option") if "selected" in one}


def filled(page, **changed):
    """What the form would send as it is, with changes."""
    values = {one["name"]: one.get("value") or "" for one in page.all("input") if "name" in one}
    values |= {"base_model": "tiny", "dataset": "mine.jsonl", "method": "lora"}
    return values | changed


def test_form_starts_a_run(client_as, fake_provider):
    make_dataset()
    client = client_as("trainer")
    page = page_of(client, f"{ADDRESS}?dataset=mine.jsonl&base_model=tiny")
    assert {"mine.jsonl", "tiny"} <= chosen(page)

    response = client.post(
        ADDRESS,
        filled(page, num_train_steps="30", name="first", **{"hyperparams.learning_rate": "0.01"}),
    )

    job = TrainingJob.objects.get()
    assert response.url == f"/console/jobs/{job.pk}/"
    assert (job.base_model, job.dataset, job.num_train_steps) == ("tiny", "mine.jsonl", 30)
    assert (job.name, job.hyperparams["learning_rate"]) == ("first", 0.01)
    assert job.hyperparams["lora_rank"] == 8, "what is left empty is the model's"


def test_double_click_starts_one_run(client_as, fake_provider):
    make_dataset()
    client = client_as("trainer")
    values = filled(page_of(client, ADDRESS))

    answers = [client.post(ADDRESS, values) for _ in range(2)]

    assert answers[0].url == answers[1].url
    assert TrainingJob.objects.count() == 1


def test_sample_and_the_usual_model_are_chosen(client_as, fake_provider):
    page = page_of(client_as("trainer"), ADDRESS)

    assert {"gligabao_facts.jsonl", "smollm2-135m"} <= chosen(page)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"num_train_steps": "0"}, "greater than or equal to 1"),
        ({"num_train_steps": "x"}, "whole number"),
        ({"dataset": "<b>.jsonl"}, "There is no dataset “<b>.jsonl” here"),
        ({"base_model": "none"}, "not one of the available choices"),
        ({"hyperparams.learning_rate": "9"}, "less than or equal to 1"),
        ({"hyperparams.max_length": "4096"}, "over the context"),
        ({"method": "qlora"}, "is not offered for tiny"),
        ({"hyperparams.early_stopping_patience": "3"}, "set eval_fraction above 0"),
        ({"method": "full", "hyperparams.lora_rank": "4"}, "has no LoRA"),
    ],
)
def test_wrong_values_are_named_and_kept(client_as, fake_provider, changed, words):
    make_dataset()
    client = client_as("trainer")
    values = filled(page_of(client, ADDRESS), name="typed", max_seconds="777", **changed)

    response = client.post(ADDRESS, values)

    page = Page(response.content.decode())
    assert response.status_code == 400
    assert words in page.text
    assert page.text_of("problems").startswith("One thing is not right yet.")
    assert page.all("input", name="name", value="typed")
    assert page.all("input", name="max_seconds", value="777")
    name = list(changed)[-1]
    (field,) = [one for tag in ("input", "select") for one in page.all(tag, name=name)]
    assert (field["aria-invalid"], field["aria-describedby"].split()[-1]) == (
        "true",
        f"id_{name}_error",
    )
    assert not TrainingJob.objects.exists()


def test_what_the_provider_lacks_is_said_on_top(client_as, fake_provider):
    make_dataset()
    fake_provider.check_error = NotConfigured("The provider local has no credentials.")
    client = client_as("trainer")

    response = client.post(ADDRESS, filled(page_of(client, ADDRESS)))

    assert response.status_code == 503
    assert "provider" in Page(response.content.decode()).text_of("problems").lower()


def test_run_is_taken_as_a_pattern(client_as, fake_provider):
    make_dataset()
    job = make_job(name="first", num_train_steps=77)
    client = client_as("trainer")

    page = page_of(client, f"{ADDRESS}?like={job.pk}")

    assert page.all("input", name="num_train_steps", value="77")
    assert page.all("input", name="hyperparams.learning_rate", value="0.002")
    assert client.post(ADDRESS, filled(page)).url == f"/console/jobs/{job.pk + 1}/"
    again = TrainingJob.objects.get(pk=job.pk + 1)
    assert (again.name, again.num_train_steps) == ("first", 77)
    assert again.hyperparams == job_hyperparams(job.hyperparams, method="lora", model_defaults={})
    for odd in ("x", "9" * 30, "999"):
        assert client.get(f"{ADDRESS}?like={odd}").status_code == 200


def test_page_of_a_run_offers_one_like_it(client_as):
    job = make_job()

    assert page_of(client_as("trainer"), f"/console/jobs/{job.pk}/").all(
        "a", href=f"{ADDRESS}?like={job.pk}"
    )
    assert not page_of(client_as("viewer"), f"/console/jobs/{job.pk}/").all(
        "a", href=f"{ADDRESS}?like={job.pk}"
    )


def test_dataset_that_is_not_ready_cannot_be_chosen(client_as, fake_provider):
    dataset = make_dataset()
    type(dataset).objects.filter(pk=dataset.pk).update(status="invalid")

    page = page_of(client_as("trainer"), ADDRESS)

    assert "disabled" in page.all("option", value="mine.jsonl")[0]


def test_viewer_starts_nothing(client_as):
    assert client_as("viewer").get(ADDRESS).status_code == 403


def test_other_database(client_as, fake_provider):
    make_dataset(db="second")
    client = client_as("trainer")

    response = client.post(f"{ADDRESS}?db=second", filled(page_of(client, f"{ADDRESS}?db=second")))

    job = TrainingJob.objects.using("second").get()
    assert response.url == f"/console/jobs/{job.pk}/?db=second"
