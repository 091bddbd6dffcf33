"""What a trainer posts with its job token."""

import json

import pytest
import time_machine
from django.test import Client
from django.utils import timezone

from tests.factories import end_job, make_job, token_of
from training.models import JobEvent, TrainingJob

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


def address(job, db="default"):
    name = "standard" if db == "default" else db
    return f"/v1/gb/training/jobs/{job.pk}/events?db={name}"


def post(job, body, token=None, db="default", raw=False):
    headers = {"Authorization": f"Bearer {token or token_of(job)}"}
    data = body if raw else json.dumps(body)
    return Client(headers=headers).post(address(job, db), data, content_type="application/json")


def progress(seq, step=1, loss=1.0):
    return {"seq": seq, "type": "progress", "step": step, "loss": loss}


def test_a_flat_report_is_stored(any_db):
    job = make_job(any_db)

    answer = post(job, progress(0, step=5), db=any_db)

    assert (answer.status_code, answer.json()) == (
        200,
        {"accepted": 1, "duplicates": 0, "rejected": [], "stop": False},
    )
    assert TrainingJob.objects.using(any_db).get(pk=job.pk).last_step == 5


def test_good_reports_of_a_batch_are_kept_and_bad_ones_named():
    job = make_job()

    answer = post(job, [progress(0), {"type": "nonsense"}, progress(1), 7, progress(1)])

    body = answer.json()
    assert (answer.status_code, body["accepted"], body["duplicates"]) == (200, 2, 1)
    assert [item["index"] for item in body["rejected"]] == [1, 3]


@pytest.mark.parametrize(
    "body",
    [
        {"type": "nonsense"},
        {},
        7,
        "x",
        None,
        {"type": "status"},
        {"type": "status", "status": "flying"},
        {"type": "status", "status": "failed", "error": ["x"]},
        {"type": "status", "status": "completed", "files": "x"},
        {"type": "progress", "seq": -1},
        {"type": "progress", "seq": 1.5},
        {"type": "progress", "seq": 2**60},
        {"type": "progress", "seq": True},
        {"type": "progress", "step": "ten"},
        {"type": "progress", "step": 2**60},
        {"type": "progress", "loss": "low"},
        {"type": "progress", "boot": 5},
        {"type": "progress", "boot": "x" * 65},
    ],
)
def test_a_single_bad_report_is_a_400(body):
    job = make_job()

    answer = post(job, body)

    assert answer.status_code == 400, answer.content
    assert JobEvent.objects.filter(source="trainer").count() == 0


@pytest.mark.parametrize("raw", [b"{", b"\xff", b"[" * 100_000, b'{"type": "log", "type": "log"}'])
def test_broken_json_is_a_400(raw):
    assert post(make_job(), raw, raw=True).status_code == 400


def test_over_500_reports_are_a_413():
    job = make_job()

    assert post(job, [progress(n) for n in range(501)]).status_code == 413
    assert post(job, [progress(n) for n in range(500)]).json()["accepted"] == 500


def test_p01_losses_that_are_no_numbers_are_kept_as_null(api_as):
    job = make_job()
    bodies = [
        b'{"seq": 2, "type": "progress", "step": 10, "loss": NaN}',
        b'{"seq": 3, "type": "progress", "step": 20, "loss": Infinity}',
        b'{"seq": 4, "type": "progress", "step": 30, "loss": null}',
        b'{"seq": 5, "type": "progress", "step": 40, "loss": 1e400}',
    ]

    codes = [post(job, body, raw=True).status_code for body in bodies]

    assert codes == [200] * 4
    listed = api_as("viewer").get("/v1/gb/training/jobs").content
    row = json.loads(listed, parse_constant=pytest.fail)["jobs"][0]
    assert (row["last_step"], row["last_loss"], row["last_loss_nonfinite"]) == (40, None, "inf")
    data = [event.data for event in job.events.filter(source="trainer").order_by("seq")]
    assert [item.get("nonfinite") for item in data] == ["nan", "inf", None, "inf"]
    assert [item["loss"] for item in data] == [None] * 4


def test_p04_more_steps_than_asked_for_are_kept_as_said():
    job = make_job()
    for seq, step in ((1, 60), (2, 120), (3, 108)):
        post(job, progress(seq, step))

    assert TrainingJob.objects.get(pk=job.pk).last_step == 108


def test_l08_three_copies_are_one_event():
    job = make_job()
    post(job, [progress(n, step=n) for n in range(4)])

    answers = [post(job, progress(3, step=3)) for _ in range(2)]

    assert [answer.json()["duplicates"] for answer in answers] == [1, 1]
    assert job.events.filter(source="trainer").count() == 4


def test_a_stop_is_told_in_the_answer():
    job = make_job()
    post(job, {"seq": 0, "type": "status", "status": "training"})
    TrainingJob.objects.filter(pk=job.pk).update(stop_requested_at=timezone.now())

    assert post(job, progress(1)).json()["stop"] is True


def test_u10_tokens_open_only_their_own_job(user_with_role, api_as):
    job, other = make_job(), make_job()
    token = token_of(job)
    session = Client()
    session.force_login(user_with_role("admin"))

    assert post(other, progress(0), token=token).status_code == 403
    assert (
        Client().post(address(job), progress(0), content_type="application/json").status_code == 401
    )
    assert (
        session.post(address(job), progress(0), content_type="application/json").status_code == 403
    )
    assert (
        post(job, progress(0), token=token[:-1] + ("A" if token[-1] != "A" else "B")).status_code
        == 401
    )
    listing = Client(headers={"Authorization": f"Bearer {token}"})
    assert listing.get("/v1/gb/training/jobs").status_code == 401
    in_query = Client().post(
        address(job) + f"&token={token}", progress(0), content_type="application/json"
    )
    assert in_query.status_code == 401
    assert job.events.filter(source="trainer").count() == 0


def test_u10_after_the_end_reports_are_taken_for_a_day_and_change_nothing():
    job = end_job(make_job())

    answer = post(job, {"seq": 9, "type": "status", "status": "failed"})
    assert (answer.status_code, answer.json()["stop"]) == (200, True)
    with time_machine.travel(timezone.now() + timezone.timedelta(hours=24, seconds=1)):
        assert post(job, progress(10)).status_code == 401

    assert TrainingJob.objects.get(pk=job.pk).status == "completed"


def test_the_token_is_nowhere_in_the_api(api_as):
    job = make_job()
    admin = api_as("admin")

    for path in ("", "/events", "/attempts"):
        content = admin.get(f"/v1/gb/training/jobs/{job.pk}{path}").content.decode()
        assert token_of(job) not in content
        assert job.token_hash not in content
        assert job.nonce not in content


def test_u05_secrets_in_a_report_are_removed_at_receipt(api_as):
    job = make_job()
    token = token_of(job)
    error = (
        "PUT failed: HTTPError 403 for url: https://r2.example/b/adapter.bin?X-Amz-Algorithm="
        "AWS4-HMAC-SHA256&X-Amz-Credential=AKIAEXAMPLE%2F20261026&X-Amz-Signature=deadbeefdeadbeef"
        "deadbeefdeadbeefdeadbeefdeadbeefdeadbeefdeadbeef&X-Amz-Security-Token=IQoEXAMPLE ; "
        f"headers: Authorization: Bearer {token} ; env HF_TOKEN=hf_EXAMPLEEXAMPLEEXAMPLEEXAMPLE12 "
        "MODAL_TOKEN_SECRET=as-EXAMPLE"
    )
    post(job, {"seq": 0, "type": "status", "status": "uploading"})

    post(job, {"seq": 1, "type": "status", "status": "failed", "error": error})

    admin = api_as("admin")
    seen = "".join(
        admin.get(f"/v1/gb/training/jobs/{job.pk}{path}").content.decode()
        for path in ("", "/events")
    )
    for secret in (
        "deadbeefdeadbeef",
        "IQoEXAMPLE",
        "hf_EXAMPLE",
        "as-EXAMPLE",
        "AKIAEXAMPLE",
        token,
    ):
        assert secret not in seen
    assert "r2.example/b/adapter.bin" in seen


def test_uploads_are_addressed_until_the_outcome_is_fixed():
    job = make_job()
    headers = {"Authorization": f"Bearer {token_of(job)}"}
    file = {"path": "adapter_config.json", "size_bytes": 2, "sha256": "a" * 64}

    def ask(files):
        return Client(headers=headers).post(
            f"/v1/gb/training/jobs/{job.pk}/uploads",
            {"files": files},
            content_type="application/json",
        )

    answer = ask([file])
    assert answer.status_code == 200
    address = answer.json()["files"][0]
    assert (address["path"], address["method"]) == ("adapter_config.json", "PUT")
    assert ask([file | {"path": "../x.json"}]).status_code == 400
    assert ask([file | {"path": "weights.bin"}]).status_code == 400
    assert ask([]).status_code == 400
    assert ask([file, file]).status_code == 400
    post(job, {"seq": 0, "type": "status", "status": "failed", "error": "x"})
    assert ask([file]).status_code == 409
