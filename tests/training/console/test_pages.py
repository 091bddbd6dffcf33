"""The two pages as the server sends them, complete without a script."""

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from tests.factories import end_job, make_job, make_trained_model
from tests.training.console.reading import Page
from training.contract import parse_report, server_event
from training.events import append_events
from training.models import TrainingJob

pytestmark = pytest.mark.django_db(databases=["default", "second"])

CASES = Path(__file__).parent.parent.parent / "cases"
HOSTILE = json.loads((CASES / "U07.json").read_text())["put_the_text"]


@pytest.fixture
def client_as(user_with_role):
    """Makes browsers that are logged in: client_as("viewer")."""

    def make(role):
        client = Client(raise_request_exception=False)
        client.force_login(user_with_role(role))
        return client

    return make


def report(job, seq, db="default", **fields):
    append_events(job.pk, [parse_report({"boot": "b", "seq": seq, **fields})], db=db)


def play(job, case):
    for step in json.loads((CASES / f"{case}.json").read_text())["steps"]:
        report(job, **step["body"])


def page_of(client, address):
    response = client.get(address)
    assert response.status_code == 200, response.content[:500]
    return Page(response.content.decode())


def test_visitor_is_sent_to_the_login_and_back(client):
    response = client.get("/console/jobs/?db=second")

    assert response.status_code == 302
    assert response.url == "/login/?next=/console/jobs/%3Fdb%3Dsecond"
    assert "log in" in Page(client.get(response.url).content.decode()).text.lower()


def test_user_without_a_role_sees_nothing():
    client = Client()
    client.force_login(User.objects.create_user("none"))

    for address in ("jobs/", "jobs/1/", "jobs/rows", "jobs/1/state", "jobs/1/checkpoints"):
        assert client.get(f"/console/{address}").status_code == 403


def test_start_page_leads_to_the_runs(client_as):
    client = client_as("viewer")

    assert client.get("/").url == "/console/jobs/"
    assert client.get("/console/?db=second").url == "/console/jobs/?db=second"


def test_empty_list_says_the_next_step(client_as):
    page = page_of(client_as("viewer"), "/console/jobs/")

    assert "manage.py train" in page.text_of("no-jobs")
    assert len(page.all("h1")) == 1


def test_list_shows_each_run(client_as):
    job = make_job(name="mine", dataset="facts.jsonl")
    report(job, 0, type="progress", step=30, loss=1.25)

    page = page_of(client_as("viewer"), "/console/jobs/")

    assert f"Run {job.pk}: mine" in page.text
    for text in ("Queued", "tiny", "facts.jsonl", "30 / 100", "1.25"):
        assert text in page.text
    assert page.all("progress", value="30")
    assert page.all("a", href=f"/console/jobs/{job.pk}/")


def test_list_is_one_query_however_many_runs(client_as, django_assert_max_num_queries):
    client = client_as("viewer")
    for _ in range(5):
        make_job()
    with django_assert_max_num_queries(6):
        client.get("/console/jobs/")


def test_long_list_has_pages(client_as):
    jobs = [make_job(events=False) for _ in range(51)]
    client = client_as("viewer")

    first = page_of(client, "/console/jobs/")
    second = page_of(client, f"/console/jobs/?before={jobs[1].pk}")

    assert first.all("a", href=f"/console/jobs/?before={jobs[1].pk}")
    assert second.all("a", href=f"/console/jobs/{jobs[0].pk}/")
    assert not second.all("script"), "only the newest page is live"


@pytest.mark.parametrize("before", ["x", "-1", "9" * 30, ""])
def test_odd_page_is_the_first(client_as, before):
    assert client_as("viewer").get(f"/console/jobs/?before={before}").status_code == 200


def test_p04_bar_is_clamped_and_the_numbers_are_not(client_as):
    job = make_job()
    play(job, "P04")
    client = client_as("viewer")

    for address in ("/console/jobs/", f"/console/jobs/{job.pk}/"):
        page = page_of(client, address)
        assert "108 / 100" in page.text
        assert page.all("progress", max="100", value="100")


def test_p01_nan_is_shown_in_list_head_and_line(client_as):
    job = make_job()
    report(job, 0, type="progress", step=1, loss=2.0)
    report(job, 1, type="progress", step=2, loss=None, nonfinite="nan")
    report(job, 2, type="progress", step=3, loss=1.0)
    report(job, 3, type="progress", step=4, loss=None, nonfinite="nan")
    client = client_as("viewer")

    page = page_of(client, f"/console/jobs/{job.pk}/")

    assert "NaN" in page_of(client, "/console/jobs/").text_of("jobs")
    assert page.text_of("loss") == "NaN"
    assert "from 2 at step 1 to 1 at step 3" in page.text_of("loss-words")
    assert "At 2 of 4 steps the loss was no number" in page.text_of("loss-words")
    assert len(page.all("path", class_="gap")) == 2
    assert len(page.all("circle")) == 2, "a line ends at a gap"


def test_p06_time_left_is_of_this_stretch(client_as):
    job = make_job()
    play(job, "P06")
    report(job, 9, type="progress", step=60, elapsed_seconds=1035.0)

    page = page_of(client_as("viewer"), f"/console/jobs/{job.pk}/")

    assert page.text_of("time_left") == "about 4 min"


def test_run_shows_why_it_failed(client_as):
    job = make_job()
    report(job, 0, type="warning", code="dropped", message="1 of 3 examples dropped")
    ended = server_event("status", status="failed", reason="out_of_memory",
                         error="exit code 137, often out of memory", final_loss=None,
                         model_id=None)  # fmt: skip
    append_events(job.pk, [ended], db="default")

    page = page_of(client_as("trainer"), f"/console/jobs/{job.pk}/")

    assert page.text_of("status_text") == "Failed"
    assert "Lower batch_size" in page.text_of("reason")
    assert page.text_of("error") == "exit code 137, often out of memory"
    assert page.text_of("warnings") == "1 of 3 examples dropped"
    assert "disabled" in page.all("button", id="stop")[0]


def test_run_shows_its_checkpoints_and_evaluations(client_as):
    job = make_job(hyperparams={"eval_fraction": 0.2})
    client = client_as("viewer")
    address = f"/console/jobs/{job.pk}/"
    page = page_of(client, address)
    assert "hidden" in page.all("table", id="checkpoints")[0]
    assert page.text_of("evaluation") == "not evaluated yet"

    report(job, 0, type="progress", step=10, loss=2.5)
    report(job, 1, type="eval", step=10, eval_loss=1.5)
    report(job, 2, type="checkpoint", step=10, path="checkpoint-10", size_bytes=29306880)
    report(job, 3, type="eval", step=20, eval_loss=1.75)
    report(job, 4, type="checkpoint", step=20, path="checkpoint-20", size_bytes=29306880)
    report(job, 5, type="status", status="completed", final_loss=2.25, stopped_early_at=20)

    page = page_of(client, address)
    assert "hidden" not in page.all("table", id="checkpoints")[0]
    text = page.text_of("checkpoints")
    assert text.index("20 29.3 MB 2.5 1.75 20") < text.index("10 (best) 29.3 MB 2.5 1.5 20")
    assert page.text_of("evaluation") == "1.5 at step 10; stopped early at step 20"
    assert (page.text_of("loss-words").count("Eval loss"), page.text_of("final_loss")) == (
        1,
        "2.25",
    )
    assert page.all("polyline", class_="eval")
    rows = client.get(f"{address}checkpoints").json()["rows"]
    assert [row["step"] for row in rows] == ["20", "10 (best)"]


def test_run_shows_what_its_weights_change(client_as):
    job = make_job()
    client = client_as("viewer")
    address = f"/console/jobs/{job.pk}/"
    assert page_of(client, address).text_of("effect") == ""

    report(job, 0, type="status", status="training")
    assert page_of(client, address).text_of("effect") == ""
    effect = {"base_loss": 4.58, "tuned_loss": 0.0231, "max_logit_difference": 12.5}
    report(job, 1, type="status", status="completed", effect=effect)

    words = "loss 4.58 with the base model, 0.0231 tuned"
    assert page_of(client, address).text_of("effect") == words


@pytest.mark.parametrize("effect", ["yes", {"base_loss": None}, {"tuned_loss": 1}, [1]])
def test_an_effect_that_is_no_measure_is_left_out(client_as, effect):
    job = make_job()
    report(job, 0, type="status", status="completed", effect=effect)

    assert page_of(client_as("viewer"), f"/console/jobs/{job.pk}/").text_of("effect") == ""


def test_run_shows_its_model(client_as):
    job = end_job(make_job(), final_model=1)
    model = make_trained_model(run=job, name="tiny-mine")

    page = page_of(client_as("viewer"), f"/console/jobs/{job.pk}/")

    assert page.text_of("model") == "tiny-mine"
    assert page.all("a", href=f"/v1/gb/training/models/{model.pk}")


def test_silent_run_says_since_when(client_as):
    job = make_job()
    report(job, 0, type="status", status="training")
    TrainingJob.objects.update(last_seen_at=timezone.now() - timedelta(minutes=3))

    page = page_of(client_as("viewer"), f"/console/jobs/{job.pk}/")

    assert page.text_of("silence").startswith("No news since 20")


def test_feed_holds_the_last_200_newest_first(client_as):
    job = make_job()
    reports = [{"type": "log", "seq": seq, "text": f"line {seq}"} for seq in range(250)]
    append_events(job.pk, [parse_report(one) for one in reports], db="default")

    rows = page_of(client_as("viewer"), f"/console/jobs/{job.pk}/").all("li")
    seqs = [int(row["data-seq"]) for row in rows if "data-seq" in row]

    assert seqs == list(range(250, 50, -1))


def test_u07_markup_in_rows_is_text(client_as):
    job = make_job(name=HOSTILE, dataset=HOSTILE, base_model=HOSTILE[:60])
    report(job, 0, type="log", text=HOSTILE)
    report(job, 1, type="warning", code=HOSTILE, message=HOSTILE)
    report(job, 2, type="status", status="failed", error=HOSTILE)
    end_job(job, status="completed")
    make_trained_model(run=job, name=HOSTILE)
    client = client_as("viewer")

    for address in ("/console/jobs/", f"/console/jobs/{job.pk}/"):
        page = page_of(client, address)
        assert HOSTILE in page.text
        assert not page.all("img")
        for tag, attributes in page.tags:
            assert not any(name.startswith("on") or name == "style" for name in attributes)
            if tag == "script":
                assert attributes.get("type") in ("module", "application/json")


def test_roles_viewer_has_no_stop_button(client_as):
    job = make_job()
    viewer, trainer = client_as("viewer"), client_as("trainer")

    assert not page_of(viewer, f"/console/jobs/{job.pk}/").all("button", id="stop")
    assert page_of(trainer, f"/console/jobs/{job.pk}/").all("button", id="stop")
    assert viewer.post(f"/console/jobs/{job.pk}/stop").status_code == 403
    job.refresh_from_db()
    assert job.stop_requested_at is None


def test_stop_ends_a_queued_run(client_as, fake_provider):
    job = make_job()

    response = client_as("trainer").post(f"/console/jobs/{job.pk}/stop")

    assert (response.status_code, response.url) == (302, f"/console/jobs/{job.pk}/")
    job.refresh_from_db()
    assert (job.status, job.error) == ("cancelled", "Stopped by trainer-user.")


def test_stop_needs_the_token_of_the_page(user_with_role, fake_provider):
    job = make_job()
    client = Client(enforce_csrf_checks=True)
    client.force_login(user_with_role("trainer"))

    assert client.post(f"/console/jobs/{job.pk}/stop").status_code == 403
    assert client.get(f"/console/jobs/{job.pk}/stop").status_code == 405
    job.refresh_from_db()
    assert job.status == "queued"


def test_stop_of_a_run_that_is_over_says_so(client_as, fake_provider):
    job = end_job(make_job())

    response = client_as("trainer").post(f"/console/jobs/{job.pk}/stop", follow=True)

    assert "is over already" in Page(response.content.decode()).text


@pytest.mark.parametrize("run_id", [99, 10**30])
def test_unknown_run_is_a_404_page(client_as, run_id):
    client = client_as("trainer")

    for path in ("", "state", "checkpoints"):
        response = client.get(f"/console/jobs/{run_id}/{path}")
        assert response.status_code == 404
        assert Page(response.content.decode()).text_of("h1") == "Not found"
    assert client.post(f"/console/jobs/{run_id}/stop").status_code == 404


def test_other_database_is_kept_in_every_address(client_as, fake_provider):
    job = make_job(db="second", name="there")
    make_trained_model(db="second", run=job)
    client = client_as("trainer")

    for address in ("/console/jobs/?db=second", f"/console/jobs/{job.pk}/?db=second"):
        page = page_of(client, address)
        assert f"Run {job.pk}: there" in page.text
        addresses = [value for _, attributes in page.tags for name, value in attributes.items()
                     if name in ("href", "action") or name.endswith("-url")]  # fmt: skip
        ours = [
            value for value in addresses if re.search(r"/console/|/jobs/|/models/|/events", value)
        ]
        chooser = ["/console/jobs/?db=standard", "/console/jobs/?db=pg"]
        assert len(ours) >= 5
        assert all(value.endswith("db=second") for value in ours if value not in chooser), ours

    response = client.post(f"/console/jobs/{job.pk}/stop?db=second")
    assert response.url == f"/console/jobs/{job.pk}/?db=second"
    job.refresh_from_db(using="second")
    assert job.status == "cancelled"


def test_live_answers_are_what_the_page_shows(client_as):
    job = make_job(name="mine")
    report(job, 0, type="status", status="training")
    client = client_as("viewer")

    rows = client.get("/console/jobs/rows").json()["rows"]
    state = client.get(f"/console/jobs/{job.pk}/state").json()

    assert [row["name"] for row in rows] == [f"Run {job.pk}: mine"]
    page = page_of(client, f"/console/jobs/{job.pk}/")
    for name in ("name", "status_text", "steps", "loss", "started", "finished", "attempt"):
        assert page.text_of(name) == state[name]


def test_error_pages_have_no_inline_style_or_script(client_as):
    client = client_as("viewer")

    page = Page(client.get("/console/nothing").content.decode())

    assert page.text_of("h1") == "Not found"
    assert client.get("/console/nothing").headers["Content-Security-Policy"]
