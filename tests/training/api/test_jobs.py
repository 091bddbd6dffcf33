"""/v1/gb/training/jobs over HTTP."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections
from django.test import Client
from django.utils import timezone

from gligabao.errors import NotConfigured, ProviderUnreachable
from tests.factories import end_job, make_dataset, make_job, make_trained_model
from training import catalog
from training.models import TrainingJob

JOBS = "/v1/gb/training/jobs"
SEED_KEYS = {
    "id", "job_id", "provider_job_id", "status", "model_size", "dataset", "num_train_steps",
    "last_step", "last_loss", "final_loss", "started_at", "created_at", "finished_at",
}  # fmt: skip

pytestmark = [
    pytest.mark.django_db(databases="__all__", transaction=True),
    pytest.mark.usefixtures("fake_provider"),
]


@pytest.fixture
def trainer(api_as):
    make_dataset()
    return api_as("trainer")


def post(client, body=None, **headers):
    return client.post(JOBS, body if body is not None else {}, format="json", headers=headers)


def test_a_job_starts_queued_with_the_documented_fields(trainer):
    answer = post(trainer, {"num_train_steps": 500, "model_size": "135M", "dataset": "mine.jsonl"})

    assert answer.status_code == 201
    body = answer.json()
    assert set(body) >= SEED_KEYS
    assert body["status"] == "queued"
    assert (body["model_size"], body["base_model"]) == ("135m", "smollm2-135m")
    assert (body["num_train_steps"], body["dataset"]) == (500, "mine.jsonl")
    assert (body["last_step"], body["last_loss"], body["started_at"]) == (0, None, None)
    assert body["created_at"].endswith("Z")
    assert "." not in body["created_at"]


def test_an_empty_body_starts_the_default_job(trainer):
    from datasets.services import sync_from_directory

    sync_from_directory("default")

    body = post(trainer).json()

    assert (body["num_train_steps"], body["model_size"], body["method"]) == (100, "135m", "lora")
    assert body["dataset"]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"num_train_steps": 0}, "num_train_steps"),
        ({"num_train_steps": -5}, "num_train_steps"),
        ({"num_train_steps": 1_000_001}, "num_train_steps"),
        ({"num_train_steps": 10**30}, "num_train_steps"),
        ({"num_train_steps": "5"}, "num_train_steps"),
        ({"num_train_steps": 5.0}, "num_train_steps"),
        ({"num_train_steps": True}, "num_train_steps"),
        ({"num_train_steps": None}, "num_train_steps"),
        ({"model_size": "4b"}, "size"),
        ({"model_size": 4}, "model_size"),
        ({"base_model": "gpt-5"}, "base model"),
        ({"base_model": "tiny", "model_size": "135m"}, "model_size"),
        ({"method": "magic"}, "method"),
        ({"method": "qlora", "base_model": "tiny"}, "use lora or full"),
        ({"method": "qlora", "base_model": "smollm2-135m"}, "use lora or full"),
        ({"provider": "moon"}, "provider"),
        ({"gpu": "H100"}, "gpu"),
        ({"max_cost_usd": "5"}, "max_cost_usd"),
        ({"max_seconds": 86401}, "max_seconds"),
        ({"hyperparams": []}, "hyperparams"),
        ({"hyperparams": {"learning_rate": 0}}, "hyperparams.learning_rate"),
        ({"hyperparams": {"learning_rate": "1e-4"}}, "hyperparams.learning_rate"),
        ({"hyperparams": {"lora_rank": 1.5}}, "hyperparams.lora_rank"),
        ({"hyperparams": None}, "hyperparams"),
        ({"hyperparams": {"packing": 1}}, "hyperparams.packing"),
        ({"hyperparams": {"momentum": 0.9}}, "hyperparams.momentum"),
        ({"hyperparams": {"eval_steps": 10}}, "hyperparams.eval_steps"),
        ({"hyperparams": {"early_stopping_patience": 3}}, "early_stopping_patience"),
        ({"method": "full", "hyperparams": {"lora_rank": 8}}, "hyperparams.lora_rank"),
        ({"hyperparams": {"max_length": 131072}}, "hyperparams.max_length"),
        ({"dataset": "unknown.jsonl"}, "unknown.jsonl"),
        ({"dataset": "../etc/passwd.jsonl"}, "name"),
        ({"dataset": "x.json"}, "name"),
        ({"dataset": ""}, "dataset"),
        ({"name": "a\x00b"}, "name"),
        ({"name": "x" * 201}, "name"),
        ([], "object"),
        ("text", "object"),
        (None, "object"),
    ],
)
def test_bad_values_are_a_400_that_names_the_place(trainer, body, place):
    answer = trainer.post(JOBS, json.dumps(body), content_type="application/json")

    assert answer.status_code == 400, answer.content
    assert place in json.dumps(answer.json())
    assert {"error", "code"} <= set(answer.json())
    assert not TrainingJob.objects.exists()


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"\xff\xfe",
        b'{"name": "\\ud83d"}',
        b'{"num_train_steps": NaN}',
        b'{"num_train_steps": 1, "num_train_steps": 2}',
        b'{"hyperparams": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"hyperparams": ' + b'{"a":' * 500 + b"1" + b"}" * 500 + b"}",
        b'{"num_train_steps": ' + b"9" * 5000 + b"}",
        b'{"hyperparams": {"learning_rate": 1e400}}',
        b"nonsense",
    ],
)
def test_broken_bodies_are_a_400(trainer, raw):
    answer = trainer.post(JOBS, raw, content_type="application/json")

    assert answer.status_code == 400, answer.content
    assert not TrainingJob.objects.exists()


def test_a_method_that_needs_a_gpu_starts_where_there_is_one(trainer, fake_provider):
    fake_provider.has_gpu = True

    answer = post(trainer, {"method": "qlora", "model_size": "135m", "dataset": "mine.jsonl"})

    assert (answer.status_code, answer.json()["method"]) == (201, "qlora")


def test_a_full_fine_tune_has_its_own_defaults(trainer):
    body = {"model_size": "135m", "dataset": "mine.jsonl"}
    lora = post(trainer, body).json()["hyperparams"]

    full = post(trainer, {**body, "method": "full"}).json()["hyperparams"]

    assert full["learning_rate"] < lora["learning_rate"]
    assert set(lora) - set(full) == {"lora_rank", "lora_alpha", "lora_dropout"}


def test_another_content_type_is_refused(trainer):
    assert trainer.post(JOBS, "a=b", content_type="text/plain").status_code == 415


def test_l10_one_key_is_one_job(trainer):
    body = {"num_train_steps": 50, "dataset": "mine.jsonl"}

    first = post(trainer, body, **{"Idempotency-Key": "k-501"})
    again = post(trainer, body, **{"Idempotency-Key": "k-501"})
    other = post(trainer, body | {"num_train_steps": 60}, **{"Idempotency-Key": "k-501"})
    free = [post(trainer, body) for _ in range(2)]

    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 409)
    assert first.json()["id"] == again.json()["id"]
    assert [answer.status_code for answer in free] == [201, 201]
    assert TrainingJob.objects.count() == 3


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_bad_key_is_a_400(trainer, key):
    answer = post(trainer, {"dataset": "mine.jsonl"}, **{"Idempotency-Key": key})

    assert answer.status_code == 400


def test_a_refused_request_does_not_use_the_key_up(trainer):
    assert post(trainer, {"dataset": "no.jsonl"}, **{"Idempotency-Key": "k"}).status_code == 400

    assert post(trainer, {"dataset": "mine.jsonl"}, **{"Idempotency-Key": "k"}).status_code == 201


def test_a_key_belongs_to_one_user_and_one_database(trainer, api_as):
    make_dataset(db="second")
    body = {"dataset": "mine.jsonl"}
    ids = {post(trainer, body, **{"Idempotency-Key": "k"}).json()["job_id"]}

    ids.add(post(api_as("trainer", "other"), body, **{"Idempotency-Key": "k"}).json()["job_id"])
    second = trainer.post(
        f"{JOBS}?db=second", body, format="json", headers={"Idempotency-Key": "k"}
    )
    ids.add(second.json()["job_id"])

    assert len(ids) == 3


def test_a_key_lasts_a_day(trainer):
    import time_machine

    body = {"dataset": "mine.jsonl"}
    first = post(trainer, body, **{"Idempotency-Key": "k"}).json()["id"]

    with time_machine.travel(timezone.now() + timezone.timedelta(hours=24, seconds=1)):
        again = post(trainer, body | {"num_train_steps": 7}, **{"Idempotency-Key": "k"})

    assert again.status_code == 201
    assert again.json()["id"] != first


@pytest.mark.parametrize("db", ["standard", pytest.param("pg", marks=pytest.mark.postgres)])
def test_parallel_requests_with_one_key_make_one_job(trainer, db):
    if db == "pg":
        make_dataset(db="pg")
    together = threading.Barrier(6, timeout=20)
    credentials = trainer._credentials

    def start():
        client = Client(headers={"Authorization": credentials["HTTP_AUTHORIZATION"]})
        together.wait()
        try:
            answer = client.post(
                f"{JOBS}?db={db}",
                {"dataset": "mine.jsonl"},
                content_type="application/json",
                headers={"Idempotency-Key": "k"},
            )
            return answer.status_code, answer.json()["id"]
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: start(), range(6)))

    assert sorted(code for code, _ in answers) == [200] * 5 + [201]
    assert len({job for _, job in answers}) == 1


def test_l18_an_unreachable_provider_is_a_502_and_nothing_is_recorded(trainer, fake_provider):
    fake_provider.check_error = ProviderUnreachable("The app is not deployed.")

    answer = post(trainer, {"dataset": "mine.jsonl"})

    assert answer.status_code == 502
    assert answer.json()["error"] == "The app is not deployed."
    assert trainer.get(JOBS).json() == {"jobs": []}


def test_a_provider_without_credentials_is_a_503(trainer, fake_provider):
    fake_provider.check_error = NotConfigured("Set MODAL_TOKEN_ID.")

    assert post(trainer, {"dataset": "mine.jsonl"}).status_code == 503


def test_a_broker_that_does_not_answer_is_a_502(trainer, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"

    answer = post(trainer, {"dataset": "mine.jsonl"})

    assert answer.status_code == 502
    assert answer.json()["code"] == "broker_unreachable"
    assert not TrainingJob.objects.exists()


def test_an_unknown_database_is_a_404(trainer):
    answer = trainer.post(f"{JOBS}?db=nowhere", {}, format="json")

    assert answer.status_code == 404
    assert answer.json()["code"] == "unknown_database"


def test_databases_are_separate(trainer):
    make_dataset(db="second")
    trainer.post(f"{JOBS}?db=second", {"dataset": "mine.jsonl"}, format="json")

    assert trainer.get(JOBS).json()["jobs"] == []
    assert len(trainer.get(f"{JOBS}?db=second").json()["jobs"]) == 1


def test_d18_a_strict_template_refuses_an_odd_order_with_the_line(trainer, monkeypatch, tmp_path):
    text = catalog.CATALOG_FILE.read_text()
    strict = tmp_path / "catalog.toml"
    strict.write_text(text.replace('role_order = "any"', 'role_order = "strict"', 1))
    monkeypatch.setattr(catalog, "CATALOG_FILE", strict)
    catalog.base_models.cache_clear()
    rows = [
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
        {
            "messages": [
                {"role": "user", "content": "a"},
                {"role": "user", "content": "b"},
                {"role": "assistant", "content": "c"},
            ]
        },
    ]
    import io

    from datasets.services import save_upload

    save_upload(
        io.BytesIO("\n".join(map(json.dumps, rows)).encode()), filename="odd.jsonl", db="default"
    )
    try:
        refused = post(trainer, {"dataset": "odd.jsonl", "base_model": "tiny"})
        taken = post(trainer, {"dataset": "odd.jsonl", "base_model": "smollm2-135m"})
    finally:
        catalog.base_models.cache_clear()

    assert refused.status_code == 400
    assert refused.json()["errors"][0]["line"] == 2
    assert taken.status_code == 201


def test_u02_limits(api_as):
    viewer = api_as("viewer")
    jobs = [make_job(events=False) for _ in range(60)]

    def get(query):
        return viewer.get(f"{JOBS}?{query}")

    assert len(viewer.get(JOBS).json()["jobs"]) == 50
    assert len({job["id"] for job in get("limit=2").json()["jobs"]}) == 2
    assert len(get("limit=500").json()["jobs"]) == 60
    assert len(get("limit=501").json()["jobs"]) == 60
    for bad in ("0", "-1", "abc", "1.5", "", "%EF%BC%91%EF%BC%90", "99999999999999999999"):
        assert get(f"limit={bad}").status_code == 400, bad
    assert get("limit=2&limit=3").status_code == 200
    assert get("nonsense=1").status_code == 400
    assert viewer.get(JOBS).json()["jobs"][0]["id"] == jobs[-1].pk


def test_u02_paging_by_id_repeats_and_misses_nothing(api_as):
    viewer = api_as("viewer")
    wanted = [make_job(events=False).pk for _ in range(7)][::-1]
    seen, query = [], "limit=3"

    while page := viewer.get(f"{JOBS}?{query}").json()["jobs"]:
        seen += [job["id"] for job in page]
        query = f"limit=3&before={seen[-1]}"
        make_job(events=False)

    assert seen == wanted


def test_jobs_are_found_by_status_and_text(api_as):
    viewer = api_as("viewer")
    wanted = make_job(name="night shift", events=False)
    make_job(name="other", events=False)

    found = viewer.get(f"{JOBS}?q=night&status=queued").json()["jobs"]

    assert [job["id"] for job in found] == [wanted.pk]
    assert viewer.get(f"{JOBS}?status=nonsense").status_code == 400


def test_a_search_text_without_end_is_refused(api_as):
    assert api_as("viewer").get(f"{JOBS}?q={'a' * 60_000}").status_code == 400


def test_a_list_is_one_query(api_as, django_assert_num_queries):
    viewer = api_as("viewer")
    for _ in range(5):
        make_job()
    viewer.get(JOBS)

    with django_assert_num_queries(4):  # token, its user, role, jobs
        viewer.get(JOBS)


def test_l11_a_stop_while_queued_ends_at_once_without_the_provider(trainer, fake_provider):
    from training.runner import submit

    run_id = post(trainer, {"dataset": "mine.jsonl"}).json()["id"]

    answer = trainer.post(f"{JOBS}/{run_id}/stop")
    submit.submit_due("default")

    assert (answer.status_code, answer.json()) == (202, {"id": run_id, "status": "cancelled"})
    job = trainer.get(f"{JOBS}/{run_id}").json()
    assert (job["status"], job["reason"]) == ("cancelled", "user_stop")
    assert job["error"] == "Stopped by trainer-user."
    assert job["finished_at"] is not None
    assert fake_provider.submitted == []


def test_a_stop_of_a_running_job_is_recorded_and_may_be_repeated(trainer, fake_provider):
    from training.runner import submit

    run_id = post(trainer, {"dataset": "mine.jsonl"}).json()["id"]
    submit.submit_due("default")

    answers = [trainer.post(f"{JOBS}/{run_id}/stop") for _ in range(2)]

    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0].json() == {"id": run_id, "status": "stopping"}
    job = trainer.get(f"{JOBS}/{run_id}").json()
    assert (job["status"], job["is_stopping"]) == ("started", True)


def test_stop_of_an_ended_or_unknown_job(trainer):
    job = end_job(make_job())

    assert trainer.post(f"{JOBS}/{job.pk}/stop").status_code == 409
    assert trainer.post(f"{JOBS}/424242/stop").status_code == 404
    assert trainer.post(f"{JOBS}/{10**30}/stop").status_code == 404


def test_retry_starts_the_same_again(trainer):
    dataset = make_dataset()
    old = end_job(make_job(dataset_sha256=dataset.sha256, num_train_steps=7), "failed")

    answer = trainer.post(f"{JOBS}/{old.pk}/retry", {"resume": True}, format="json")

    assert answer.status_code == 201
    body = answer.json()
    assert (body["retry_of"], body["num_train_steps"], body["status"]) == (old.pk, 7, "queued")
    assert body["dataset_sha256"] == old.dataset_sha256


def test_retry_of_an_unfinished_job_is_a_409(trainer):
    assert trainer.post(f"{JOBS}/{make_job().pk}/retry").status_code == 409


def test_name_note_and_tags_can_be_changed(trainer):
    job = make_job()

    answer = trainer.patch(
        f"{JOBS}/{job.pk}", {"name": "n", "note": "<b>", "tags": ["a", "b"]}, format="json"
    )

    assert answer.status_code == 200
    assert (answer.json()["note"], answer.json()["tags"]) == ("<b>", ["a", "b"])
    assert trainer.patch(f"{JOBS}/{job.pk}", {"status": "failed"}, format="json").status_code == 400


def test_deleting_a_job_keeps_its_model(api_as):
    admin = api_as("admin")
    job = end_job(make_job())
    model = make_trained_model(run=job, job_id=job.job_id)

    assert admin.delete(f"{JOBS}/{job.pk}").status_code == 204

    model.refresh_from_db()
    assert model.run_id is None
    assert admin.get(f"{JOBS}/{job.pk}").status_code == 404
    assert admin.delete(f"{JOBS}/{make_job().pk}").status_code == 409


def test_logs_come_from_the_provider(trainer, fake_provider):
    from training.runner import submit

    run_id = post(trainer, {"dataset": "mine.jsonl"}).json()["id"]
    submit.submit_due("default")
    job = TrainingJob.objects.get(pk=run_id)
    fake_provider.run_of(job).lines = ["loading", "step 1"]

    lines = trainer.get(f"{JOBS}/{run_id}/logs").json()["lines"]

    assert lines == [
        {"at": None, "stream": "stdout", "text": "loading"},
        {"at": None, "stream": "stdout", "text": "step 1"},
    ]


@pytest.mark.parametrize(
    ("method", "path", "role", "code"),
    [
        ("get", JOBS, None, 401),
        ("post", JOBS, None, 401),
        ("get", JOBS, "viewer", 200),
        ("post", JOBS, "viewer", 403),
        ("delete", f"{JOBS}/1", "trainer", 403),
        ("post", f"{JOBS}/1/stop", "viewer", 403),
        ("post", f"{JOBS}/1/retry", "viewer", 403),
        ("patch", f"{JOBS}/1", "viewer", 403),
    ],
)
def test_roles(api_as, method, path, role, code):
    from rest_framework.test import APIClient

    client = api_as(role) if role else APIClient()

    answer = getattr(client, method)(path)

    assert answer.status_code == code
    if code >= 400:
        assert {"error", "code"} <= set(answer.json())


def test_u04_a_session_from_another_origin_cannot_start_jobs(user_with_role):
    client = Client(enforce_csrf_checks=True)
    client.force_login(user_with_role("trainer"))

    answer = client.post(
        JOBS, {}, content_type="application/json", headers={"Origin": "https://evil.example"}
    )

    assert answer.status_code == 403
    assert not TrainingJob.objects.exists()
