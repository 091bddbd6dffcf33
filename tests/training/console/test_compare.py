"""Runs beside each other."""

import pytest

from tests.factories import HYPERPARAMS, make_job
from tests.reading import page_of

pytestmark = pytest.mark.django_db


def test_curves_results_and_what_differs(client_as, report):
    one = make_job(name="one")
    two = make_job(name="two", hyperparams={**HYPERPARAMS, "lora_rank": 16})
    for job, loss in ((one, 1.5), (two, 1.25)):
        report(job, 0, type="progress", step=1, loss=3.0)
        report(job, 1, type="progress", step=2, loss=loss)
        report(job, 2, type="eval", step=2, eval_loss=loss + 1)
    client = client_as("viewer")

    page = page_of(client, f"/console/jobs/compare/?id={two.pk}&id={one.pk}&id={two.pk}")

    lines = page.json_of("chart-data")["lines"]
    assert [line["label"] for line in lines] == ["two", "one"]
    assert lines[0]["points"] == [[1, 3.0], [2, 1.25]]
    for text in ("1.25", "1.5", "2.25", "2.5", "lora_rank"):
        assert text in page.text
    assert "weight_decay" not in page.text
    assert "learning_rate" not in page.text_of("results")
    whole = page_of(client, f"/console/jobs/compare/?id={two.pk}&id={one.pk}&all=1")
    assert "learning_rate" in whole.text


def test_equal_settings_are_said(client_as):
    jobs = [make_job(), make_job()]
    query = "&".join(f"id={job.pk}" for job in jobs)

    page = page_of(client_as("viewer"), f"/console/jobs/compare/?{query}")

    assert "They have the same settings." in page.text


def test_six_at_most_and_unknown_ones_are_named(client_as):
    jobs = [make_job() for _ in range(7)]
    client = client_as("viewer")

    page = page_of(client, "/console/jobs/compare/?" + "&".join(f"id={job.pk}" for job in jobs))
    assert len(page.json_of("chart-data")["lines"]) == 6
    assert "Six runs are compared at most" in page.text
    page = page_of(client, f"/console/jobs/compare/?id={jobs[0].pk}&id=999&id=x&id={'9' * 40}")
    assert "There is no run 999." in page.text


def test_nothing_chosen_says_what_to_do(client_as):
    page = page_of(client_as("viewer"), "/console/jobs/compare/")

    assert "Nothing to compare yet" in page.text
    assert page.all("a", href="/console/jobs/")
