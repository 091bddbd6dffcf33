"""The page of one run as the server sends it, complete without a script."""

import json
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from tests.factories import HYPERPARAMS, end_job, make_dataset, make_job, make_trained_model
from tests.fakes import FakeRun
from tests.reading import Page, page_of
from training.contract import parse_report, server_event
from training.events import append_events
from training.models import TrainingJob

pytestmark = pytest.mark.django_db(databases=["default", "second"])

CASES = Path(__file__).parent.parent.parent / "cases"


def fail(job, **data):
    ended = server_event("status", status="failed", final_loss=None, model_id=None, **data)
    append_events(job.pk, [ended], db="default")


def phases(page):
    return [
        (one["data-key"], one["class"])
        for one in page.all("li")
        if one.get("data-key") and "class" in one and not one["data-key"].startswith("event")
    ]


def test_p01_nan_is_shown_in_list_head_and_chart(client_as, report):
    job = make_job()
    for step, loss in ((1, 2.0), (2, None), (3, 1.0), (4, None)):
        report(
            job,
            step,
            type="progress",
            step=step,
            loss=loss,
            **({} if loss else {"nonfinite": "nan"}),
        )
    client = client_as("viewer")

    page = page_of(client, f"/console/jobs/{job.pk}/")

    assert "NaN" in page_of(client, "/console/jobs/").text_of("rows")
    assert page.text_of("stats").startswith("Loss NaN")
    assert "from 2 at step 1 to 1 at step 3" in page.text_of("loss-words")
    assert "At 2 of 4 steps the loss was no number" in page.text_of("loss-words")
    assert len(page.all("path", class_="gap")) == 2
    assert len(page.all("circle", class_="line-1")) == 2, "a line ends at a gap"


def test_p06_time_left_is_of_this_stretch(client_as, report):
    job = make_job()
    for step in json.loads((CASES / "P06.json").read_text())["steps"]:
        report(job, **step["body"])
    report(job, 9, type="progress", step=60, elapsed_seconds=1035.0)

    page = page_of(client_as("viewer"), f"/console/jobs/{job.pk}/")

    assert page.text_of("step").endswith("Step 60 of 100 (60 %) · about 4 min left (40 s to 4 min)")


def test_time_left_has_a_range_where_the_speed_changed(client_as, report):
    job = make_job()
    report(job, 0, type="status", status="training")
    for step, seconds in ((10, 10), (20, 20), (30, 60)):
        report(job, step, type="progress", step=step, elapsed_seconds=seconds)

    page = page_of(client_as("viewer"), f"/console/jobs/{job.pk}/")

    assert page.text_of("step").endswith("about 2 min 55 s left (1 min 10 s to 4 min 40 s)")


@pytest.mark.parametrize(
    ("status", "words"),
    [("queued", "Waits for its turn."), ("started", "Waits for hardware."),
     ("running", "Loads the model and the data.")],
)  # fmt: skip
def test_waiting_run_says_what_it_waits_for(client_as, status, words):
    job = make_job()
    append_events(job.pk, [server_event("status", status=status)], db="default")

    page = page_of(client_as("viewer"), f"/console/jobs/{job.pk}/")

    assert page.text_of("step") == words
    assert dict(phases(page))[status] == "current"


def test_failed_run_says_why_and_where(client_as, report):
    job = make_job()
    report(job, 0, type="warning", code="dropped", message="1 of 3 examples dropped")
    report(job, 1, type="status", status="training")
    fail(job, reason="out_of_memory", error="exit code 137, often out of memory")

    page = page_of(client_as("trainer"), f"/console/jobs/{job.pk}/")

    assert page.all("span", class_="pill failed")
    assert "Lower batch_size" in page.text_of("reason")
    assert "exit code 137, often out of memory" in page.text_of("reason")
    assert page.text_of("warnings") == "1 of 3 examples dropped"
    assert phases(page) == [
        ("queued", "done"), ("started", "done"), ("running", "done"), ("training", "failed"),
        ("uploading", ""), ("completed", ""),
    ]  # fmt: skip
    assert not page.all("svg", class_="icon spin"), "nothing turns any more"


def test_checkpoints_and_evaluations(client_as, report):
    job = make_job(hyperparams={"eval_fraction": 0.2, "checkpoint_every": 10})
    client = client_as("viewer")
    address = f"/console/jobs/{job.pk}/"
    page = page_of(client, address)
    assert page.text_of("checkpoints") == "None yet; one is written every 10 steps."
    assert "Eval loss - not evaluated yet" in page.text_of("stats")

    report(job, 0, type="progress", step=10, loss=2.5)
    report(job, 1, type="eval", step=10, eval_loss=1.5)
    report(job, 2, type="checkpoint", step=10, path="checkpoint-10", size_bytes=29306880)
    report(job, 3, type="eval", step=20, eval_loss=1.75)
    report(job, 4, type="checkpoint", step=20, path="checkpoint-20", size_bytes=29306880)
    report(job, 5, type="status", status="completed", final_loss=2.25, stopped_early_at=20)

    page = page_of(client, address)
    text = page.text_of("checkpoints")
    assert "20 2.5 1.75 29.3 MB" in text.replace("Step Loss Eval loss Size Written ", "")
    assert "10 best" in text
    assert "Eval loss 1.75 best 1.5 at step 10; stopped early at step 20" in page.text_of("stats")
    assert "Mean of all steps 2.25" in page.text_of("stats")
    assert page.all("polyline", class_="line-2")


@pytest.mark.parametrize("effect", ["yes", {"base_loss": None}, {"tuned_loss": 1}, [1]])
def test_an_effect_that_is_no_measure_is_left_out(client_as, report, effect):
    job = make_job()
    report(job, 0, type="status", status="completed", effect=effect)
    make_trained_model(run=end_job(job))

    assert "Effect" not in page_of(client_as("viewer"), f"/console/jobs/{job.pk}/").text_of("files")


def test_completed_run_shows_its_model_and_what_it_changes(client_as, report):
    job = make_job()
    effect = {"base_loss": 4.58, "tuned_loss": 0.0231, "max_logit_difference": 12.5}
    report(job, 0, type="status", status="completed", effect=effect)
    file = {"path": "adapter_model.safetensors", "size_bytes": 4096, "sha256": "b" * 64}
    model = make_trained_model(run=end_job(job), files=[file])

    page = page_of(client_as("viewer"), f"/console/jobs/{job.pk}/")

    assert page.all("a", href=f"/console/models/{model.pk}/")
    assert "adapter_model.safetensors 4.1 kB" in page.text_of("files")
    assert "4.58 with the base model, 0.0231 tuned" in page.text_of("files")


def test_silent_run_says_since_when(client_as, report):
    job = make_job()
    report(job, 0, type="status", status="training")
    TrainingJob.objects.update(last_seen_at=timezone.now() - timedelta(minutes=3))

    page = page_of(client_as("viewer"), f"/console/jobs/{job.pk}/")

    assert page.text_of("silence").startswith("The trainer has said nothing since 20")


def test_feed_holds_the_last_200_newest_first(client_as):
    job = make_job()
    reports = [{"type": "log", "seq": seq, "text": f"line {seq}"} for seq in range(250)]
    append_events(job.pk, [parse_report(one) for one in reports], db="default")

    rows = page_of(client_as("viewer"), f"/console/jobs/{job.pk}/").all("li")
    keys = [row["data-key"] for row in rows if row.get("data-key", "").startswith("event-")]

    assert keys == [f"event-{seq}" for seq in range(250, 50, -1)]


@pytest.mark.parametrize(
    ("query", "kinds"),
    [("", {"status", "log"}), ("events=status", {"status"}), ("events=evals", {"checkpoint"}),
     ("events=all", {"status", "log", "progress", "checkpoint"}), ("events=x", {"status", "log"})],
)  # fmt: skip
def test_events_are_filtered(client_as, report, query, kinds):
    job = make_job()
    report(job, 0, type="log", text="x")
    report(job, 1, type="progress", step=1)
    if "log" not in kinds or "progress" in kinds:
        report(job, 2, type="checkpoint", step=1, path="c")

    rows = page_of(client_as("viewer"), f"/console/jobs/{job.pk}/?{query}").all("li")

    assert {row["class"] for row in rows if row.get("data-key", "").startswith("event-")} == kinds


def test_open_page_is_told_only_what_is_new(client_as, report):
    job = make_job()
    report(job, 0, type="progress", step=1, loss=2.0)
    client = client_as("viewer")
    chart = page_of(client, f"/console/jobs/{job.pk}/").json_of("chart-data")
    assert (chart["is_whole"], chart["lines"]["loss"]) == (True, [[1, 2.0]])

    report(job, 1, type="progress", step=2, loss=1.0)
    report(job, 2, type="log", text="new")
    since = f"since={chart['next_seq']}&attempt=1"
    page = page_of(client, f"/console/jobs/{job.pk}/?{since}")

    news = page.json_of("chart-data")
    assert (news["is_whole"], news["points"], news["next_seq"]) == (False, [["loss", 2, 1.0]], 4)
    assert [row["value"] for row in page.all("li", class_="log")] == ["3"]
    assert not page.all("li", data_key="event-0")
    for odd in ("since=99&attempt=1", "since=0&attempt=2", "since=x&attempt=1", "since=1"):
        assert page_of(client, f"/console/jobs/{job.pk}/?{odd}").json_of("chart-data")["is_whole"]


def test_roles_decide_what_can_be_done(client_as):
    job, over = make_job(), end_job(make_job())
    viewer, trainer, admin = (client_as(role) for role in ("viewer", "trainer", "admin"))

    for verb in ("stop", "retry", "edit"):
        assert not page_of(viewer, f"/console/jobs/{job.pk}/").all(
            "form", action=f"/console/jobs/{job.pk}/{verb}"
        )
        assert viewer.post(f"/console/jobs/{job.pk}/{verb}").status_code == 403
    assert page_of(trainer, f"/console/jobs/{job.pk}/").all(
        "form", action=f"/console/jobs/{job.pk}/stop"
    )
    assert trainer.post(f"/console/jobs/{over.pk}/delete").status_code == 403
    assert admin.post(f"/console/jobs/{over.pk}/delete").url == "/console/jobs/"
    assert not TrainingJob.objects.filter(pk=over.pk).exists()
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


def test_what_is_refused_is_said_on_the_page(client_as, fake_provider):
    job, over = make_job(), end_job(make_job())
    client = client_as("admin")

    for address, words in (
        (f"{over.pk}/stop", "is over already"),
        (f"{job.pk}/retry", "is not over yet"),
        (f"{job.pk}/delete", "is not over yet"),
    ):
        response = client.post(f"/console/jobs/{address}", follow=True)
        assert words in Page(response.content.decode()).text


@pytest.mark.parametrize(("posted", "resumes"), [({}, False), ({"resume": "1"}, True)])
def test_run_is_repeated_and_resumed(client_as, fake_provider, posted, resumes):
    make_dataset()
    old = make_job(name="first", dataset_sha256=make_dataset().sha256)
    fail(old, reason="container_lost", error="gone")

    response = client_as("trainer").post(f"/console/jobs/{old.pk}/retry", posted)

    job = TrainingJob.objects.first()
    assert response.url == f"/console/jobs/{job.pk}/"
    assert (job.retry_of_id, job.resume, job.name) == (old.pk, resumes, "first")
    assert f"run {old.pk}" in page_of(client_as_again(response), f"/console/jobs/{job.pk}/").text


def client_as_again(response):
    return response.client


def test_name_tags_and_note_are_edited(client_as):
    job = make_job()
    client = client_as("trainer")

    client.post(
        f"/console/jobs/{job.pk}/edit",
        {"edit-name": "new", "edit-tags": "a, b,, a", "edit-note": "Look\nhere"},
    )

    job.refresh_from_db()
    assert (job.name, job.tags, job.note) == ("new", ["a", "b"], "Look\nhere")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [("edit-name", "x" * 201, "at most 200"), ("edit-tags", "x" * 65, "more than 64"),
     ("edit-tags", ",".join(map(str, range(51))), "At most 50")],
)  # fmt: skip
def test_wrong_edit_keeps_what_was_typed(client_as, field, value, words):
    job = make_job(name="old")
    typed = {"edit-name": "", "edit-tags": "", "edit-note": "my note", field: value}

    response = client_as("trainer").post(f"/console/jobs/{job.pk}/edit", typed)

    page = Page(response.content.decode())
    assert response.status_code == 400
    assert words in page.text
    assert "my note" in page.text
    assert page.all("input", name=field, value=value)
    job.refresh_from_db()
    assert job.name == "old"


@pytest.mark.parametrize("run_id", [99, 10**30])
def test_unknown_run_is_a_404_page(client_as, run_id):
    client = client_as("admin")

    for path in ("", "log/", "metrics.csv"):
        response = client.get(f"/console/jobs/{run_id}/{path}")
        assert response.status_code == 404
        assert Page(response.content.decode()).text_of("h1") == "Not found"
    for verb in ("stop", "retry", "edit", "delete"):
        assert client.post(f"/console/jobs/{run_id}/{verb}").status_code == 404


def test_csv_holds_every_series(client_as, report):
    job = make_job()
    report(job, 0, type="progress", step=1, loss=-0.25, learning_rate=0.001)
    report(job, 1, type="progress", step=2, loss=None, nonfinite="nan")
    report(job, 2, type="eval", step=2, eval_loss=1.5)

    response = client_as("viewer").get(f"/console/jobs/{job.pk}/metrics.csv")

    assert response.headers["Content-Disposition"] == f'attachment; filename="run-{job.pk}.csv"'
    assert response.content.decode().split("\r\n") == [
        "step,loss,eval_loss,learning_rate", "1,-0.25,,0.001", "2,,1.5,", "",
    ]  # fmt: skip


def test_log_is_shown_and_downloaded(client_as, fake_provider):
    job = make_job(provider_job_id="run-1")
    fake_provider.runs["run-1"] = FakeRun(None, lines=["one", "<b>two</b>"])
    client = client_as("viewer")

    page = page_of(client, f"/console/jobs/{job.pk}/log/")
    assert page.text_of("log-lines") == "one <b>two</b>"
    assert not page.all("b")
    answer = client.get(f"/console/jobs/{job.pk}/log/?download=1")
    assert answer.content.decode() == "one\n<b>two</b>\n"
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert "attachment" in answer.headers["Content-Disposition"]


def test_same_run_as_command_and_as_curl(client_as):
    """What is copied starts the same run, whatever its names hold."""
    name = 'it\'s $(touch x) "now"'
    job = make_job(name=name, dataset="my file.jsonl", hyperparams={**HYPERPARAMS, "packing": True})

    page = page_of(client_as("viewer"), f"/console/jobs/{job.pk}/")

    def words(text):
        script = f'show() {{ printf "%s\\0" "$@"; }}; GLIGABAO_TOKEN=t; show {text}'
        out = subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout
        return out.decode().split("\0")[:-1]

    command = words("".join(page._texts["command"]))
    assert command[:2] == ["manage.py", "train"]
    assert (command[command.index("--name") + 1], command[command.index("--dataset") + 1]) == (
        name,
        "my file.jsonl",
    )
    assert "packing=true" in command
    curl = words("".join(page._texts["curl"]))
    assert curl[1] == "http://testserver/v1/gb/training/jobs"
    assert "Authorization: Bearer t" in curl
    body = json.loads(curl[curl.index("-d") + 1])
    assert (body["name"], body["hyperparams"]["packing"]) == (name, True)
