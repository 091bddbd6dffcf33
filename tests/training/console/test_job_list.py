"""The list of runs and the overview, as the server sends them."""

import json
import re
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.factories import end_job, make_job, make_trained_model
from tests.reading import Page, page_of

pytestmark = pytest.mark.django_db(databases=["default", "second"])

CASES = Path(__file__).parent.parent.parent / "cases"
HOSTILE = json.loads((CASES / "U07.json").read_text())["put_the_text"]


def ids(page):
    return [int(row["data-key"]) for row in page.all("tr") if "data-key" in row]


def test_visitor_is_sent_to_the_login_and_back(client):
    response = client.get("/console/jobs/?db=second")

    assert response.status_code == 302
    assert response.url == "/login/?next=/console/jobs/%3Fdb%3Dsecond"
    assert "log in" in Page(client.get(response.url).content.decode()).text.lower()


def test_user_without_a_role_sees_nothing():
    client = Client()
    client.force_login(User.objects.create_user("none"))

    for address in ("", "jobs/", "jobs/1/", "jobs/1/log/", "jobs/new/", "jobs/compare/", "models/"):
        assert client.get(f"/console/{address}").status_code == 403


def test_start_page_leads_to_the_overview(client_as):
    client = client_as("viewer")

    assert client.get("/?db=second").url == "/console/?db=second"
    assert client.get("/console/").status_code == 200


def test_empty_overview_says_the_first_steps(client_as):
    page = page_of(client_as("trainer"), "/console/")

    assert page.text_of("steps-title") == "The first three steps"
    assert page.all("a", href="/console/jobs/new/")
    assert len(page.all("h1")) == 1


def test_overview_shows_what_runs_and_what_ended(client_as, report):
    running, ended = make_job(name="running"), end_job(make_job(name="ended"))
    report(running, 0, type="progress", step=30, loss=1.25)
    model = make_trained_model(run=ended, name="tiny-mine")

    page = page_of(client_as("viewer"), "/console/")

    assert ids(page) == [running.pk, ended.pk]
    assert page.all("a", href=f"/console/models/{model.pk}/")
    assert page.text_of("nav-jobs-count") == "1"
    assert not page.all("a", href="/console/jobs/new/"), "a viewer starts nothing"


def test_empty_list_says_the_next_step(client_as):
    page = page_of(client_as("trainer"), "/console/jobs/")

    assert "No runs yet" in page.text
    assert page.all("a", href="/console/jobs/new/")


def test_list_shows_each_run(client_as, report):
    job = make_job(name="mine", dataset="facts.jsonl", tags=["baseline"])
    report(job, 0, type="progress", step=30, loss=1.25)
    report(job, 1, type="progress", step=31, loss=1.2)

    page = page_of(client_as("viewer"), "/console/jobs/")

    for text in ("mine", "Queued", "tiny", "facts.jsonl", "31 / 100", "31 %", "1.2", "baseline"):
        assert text in page.text
    assert page.all("progress", value="31")
    assert page.all("a", href=f"/console/jobs/{job.pk}/")
    assert page.all("svg", class_="spark")


def test_number_of_queries_does_not_grow(client_as, report, django_assert_max_num_queries):
    client = client_as("viewer")
    for _ in range(5):
        report(make_job(), 0, type="progress", step=1, loss=1.0)
    for address, number in (("/console/jobs/", 8), ("/console/", 11)):
        with django_assert_max_num_queries(number):
            client.get(address)


def test_long_list_has_pages(client_as):
    jobs = [make_job(events=False) for _ in range(51)]
    client = client_as("viewer")

    assert len(ids(page_of(client, "/console/jobs/"))) == 50
    assert ids(page_of(client, "/console/jobs/?page=2")) == [jobs[0].pk]


@pytest.mark.parametrize(
    "query", ["page=x", "page=-1", f"page={'9' * 30}", "sort=rm", "status=none", "q=%00", "page="]
)
def test_odd_addresses_show_the_first_page(client_as, query):
    job = make_job()

    assert ids(page_of(client_as("viewer"), f"/console/jobs/?{query}")) == [job.pk]


def test_search_and_filters(client_as):
    one = make_job(name="Öl und Wasser", dataset="a.jsonl", tags=["größe"])
    two = end_job(make_job(name="other", note="see 100%", dataset="b.jsonl"))
    client = client_as("viewer")

    for query, found in {
        "q=öl": [], "q=Öl": [one.pk], "q=größe": [one.pk], "q=b.jsonl": [two.pk],
        "q=100%25": [two.pk], "status=completed": [two.pk],
        "status=completed&status=queued": [two.pk, one.pk], "status=failed": [],
        f"q={one.job_id}": [one.pk],
    }.items():  # fmt: skip
        if query != "q=öl":  # SQLite folds the case of ASCII only
            assert ids(page_of(client, f"/console/jobs/?{query}")) == found, query
    page = page_of(client, "/console/jobs/?q=nothing")
    assert "No runs match" in page.text
    assert page.all("input", name="q", value="nothing")


def test_sorting(client_as):
    low = make_job(name="b", last_loss=0.5)
    none = make_job(name="c")
    high = make_job(name="a", last_loss=2.0)
    client = client_as("viewer")

    for sort, order in {
        "loss": [low, high, none], "-loss": [high, low, none], "name": [high, low, none],
        "-id": [high, none, low], "id": [low, none, high],
    }.items():  # fmt: skip
        page = page_of(client, f"/console/jobs/?sort={sort}&q=")
        assert ids(page) == [job.pk for job in order], sort
    page = page_of(client, "/console/jobs/?sort=-loss&q=x")
    assert page.all("th", aria_sort="descending") or "No runs match" in page.text
    assert page_of(client, "/console/jobs/?sort=-loss").all("a", href="?sort=loss")


def test_p04_bar_is_clamped_and_the_numbers_are_not(client_as, report):
    job = make_job()
    for step in json.loads((CASES / "P04.json").read_text())["steps"]:
        report(job, **step["body"])
    client = client_as("viewer")

    page = page_of(client, "/console/jobs/")
    assert "108 / 100" in page.text
    assert page.all("progress", max="100", value="100")
    page = page_of(client, f"/console/jobs/{job.pk}/")
    assert "Step 108 of 100 (100 %)" in page.text_of("step")
    assert page.all("progress", max="100", value="100")


def test_other_database_is_kept_in_every_address(client_as):
    job = make_job(db="second", name="there")
    make_trained_model(db="second", run=job)
    client = client_as("trainer")

    for address in (
        "",
        "jobs/",
        f"jobs/{job.pk}/",
        f"jobs/{job.pk}/log/",
        f"jobs/compare/?id={job.pk}",
    ):
        joint = "&" if "?" in address else "?"
        page = page_of(client, f"/console/{address}{joint}db=second")
        assert "there" in page.text
        addresses = [value for _, attributes in page.tags for name, value in attributes.items()
                     if name in ("href", "action") or name.endswith("-url")]  # fmt: skip
        ours = [value for value in addresses if re.search(r"^/console/|/jobs/|/events", value)]
        chooser = {f"/console/?db={name}" for name in ("standard", "pg")}
        wrong = [
            value
            for value in ours
            if "db=second" not in value and value not in chooser
            and value not in ("/console/settings/", "/console/jobs/compare/")
        ]  # fmt: skip
        assert len(ours) >= 5
        assert not wrong, address


def test_u07_markup_in_rows_is_text(client_as, report):
    job = make_job(
        name=HOSTILE, dataset=HOSTILE, base_model=HOSTILE[:60], tags=[HOSTILE], note=HOSTILE
    )
    report(job, 0, type="log", text=HOSTILE)
    report(job, 1, type="warning", code=HOSTILE, message=HOSTILE)
    report(job, 2, type="status", status="failed", error=HOSTILE)
    end_job(job, status="completed")
    make_trained_model(run=job, name=HOSTILE)
    client = client_as("trainer")

    for address in ("", "jobs/", f"jobs/{job.pk}/", f"jobs/compare/?id={job.pk}", "models/"):
        page = page_of(client, f"/console/{address}")
        assert HOSTILE in page.text
        assert not page.all("img")
        for tag, attributes in page.tags:
            assert not any(name.startswith("on") or name == "style" for name in attributes)
            if tag == "script":
                assert attributes.get("src") or attributes.get("type") == "application/json"


def test_error_pages_have_no_inline_style_or_script(client_as):
    client = client_as("viewer")

    page = Page(client.get("/console/nothing").content.decode())

    assert page.text_of("h1") == "Not found"
    assert client.get("/console/nothing").headers["Content-Security-Policy"]
