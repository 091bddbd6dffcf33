"""Jobs of other kinds on a real installation: full, stopped early, on too long examples.

Trainer, files, checkpoints and answers are real; the jobs run two at a time.
"""

import json
import subprocess
import sys

import pytest

from tests.faults.installation import ROOT, Installation, wait_until

CASES = ROOT / "tests" / "cases"
CONTRACT = ROOT / "trainer_image" / "contract" / "events.v1.jsonl"
API = "/v1/gb/training"
EVALUATED = {
    "eval_fraction": 0.2, "eval_steps": 2, "early_stopping_patience": 2, "checkpoint_every": 2,
    "learning_rate": 0.05,
}  # fmt: skip
STEPS = 200  # never reached
# Models as an older version or another tool might have left them: without tokenizer and template,
# and with embeddings that do not fit.
ODD_MODELS = """
import hashlib, io, pathlib
from gligabao.storage import get_storage
from training.models import TrainedModel

a11 = pathlib.Path({a11!r}).read_bytes()
model = TrainedModel.objects.get(run_id={run_id})
parts = ("adapter_config.json", "adapter_model.safetensors")
stored = {{path: get_storage().open(f"{{model.path}}/{{path}}").read() for path in parts}}
for name, contents in (("a13", stored), ("a11", {{**stored, "adapter_model.safetensors": a11}})):
    model.pk, model.run_id, model.job_id, model.path = None, None, name, f"{{name}}/1"
    model.files = [
        {{"path": path, "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}}
        for path, data in contents.items()
    ]
    for path, data in contents.items():
        get_storage().put(f"{{model.path}}/{{path}}", io.BytesIO(data))
    model.save(force_insert=True)
    print(model.pk)
"""


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    installation = Installation(
        tmp_path_factory.mktemp("kinds-of-jobs"), {"GLIGABAO_LOCAL_SLOTS": "2"}
    )
    installation.start()
    yield installation
    installation.stop()


@pytest.fixture(scope="module")
def api(installation):
    with installation.api() as api:
        api.timeout = 60
        yield api


@pytest.fixture(scope="module")
def jobs(installation, api):
    """The rows of all jobs by name, once all are over."""
    for name in ("D21.jsonl", "D21-all.jsonl"):
        with (CASES / name).open("rb") as file:
            assert api.post(f"{API}/datasets", files={"file": (name, file)}).status_code == 201
    settings = [f"--set={name}={value}" for name, value in EVALUATED.items()]
    subprocess.run(
        [sys.executable, "manage.py", "train", "--detach", "--base-model=tiny", f"--steps={STEPS}",
         "--name=evaluated", *settings],
        cwd=ROOT, env=installation.env, capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    installation.start_job(name="full", method="full", steps=3, dataset="D21.jsonl")
    installation.start_job(name="nothing left", steps=3, dataset="D21-all.jsonl")

    def ended():
        rows = api.get(f"{API}/jobs").json()["jobs"]
        return all(row["finished_at"] for row in rows) and {row["name"]: row for row in rows}

    return wait_until(ended, 180, "the end of all jobs")


@pytest.fixture(scope="module")
def models(api, jobs):
    """The rows of the trained models by the name of their job."""
    rows = api.get(f"{API}/models").json()["models"]
    return {name: row for row in rows for name, job in jobs.items() if job["id"] == row["run_id"]}


def ask(api, model_id, **body):
    return api.post(
        f"{API}/models/{model_id}/infer", json={"prompt": "Hello", "max_tokens": 4, **body}
    )


def test_full_fine_tune_makes_a_model_that_answers(api, jobs, models):
    assert (jobs["full"]["status"], jobs["full"]["error"]) == ("completed", "")
    model = models["full"]
    paths = {file["path"] for file in model["files"]}

    tuned, base = ask(api, model["id"]), ask(api, model["id"], base=True)

    assert {"config.json", "model.safetensors", "chat_template.jinja"} <= paths
    assert not any(path.startswith("adapter") for path in paths)
    assert model["params"] == jobs["full"]["hyperparams"]
    assert "lora_rank" not in model["params"]
    assert (tuned.status_code, base.status_code) == (200, 200), tuned.text + base.text
    assert "notes" not in tuned.json()


def test_d21_examples_that_are_too_long_are_said_in_the_row(jobs, models):
    (warning,) = jobs["full"]["warnings"]

    assert warning == {
        "code": "examples_dropped", "message": "1 of 3 examples dropped: longer than 256 tokens",
    }  # fmt: skip
    assert models["full"]["num_examples"] == 2


def test_d21_all_a_job_without_examples_fails_with_the_reason(jobs, models):
    job = jobs["nothing left"]

    assert (job["status"], job["reason"], job["last_step"]) == ("failed", "dataset_invalid", 0)
    assert job["error"].startswith("All 4 examples are longer than 256 tokens: shorten them")
    assert "nothing left" not in models


def test_job_that_gets_no_better_stops_early_with_its_best_weights(api, jobs, models):
    job = jobs["evaluated"]
    assert (job["status"], job["error"]) == ("completed", "")
    events = api.get(f"{API}/jobs/{job['id']}/events").json()["events"]
    (claim,) = [event["data"] for event in events if event["data"].get("reported") == "completed"]
    series = api.get(f"{API}/jobs/{job['id']}/metrics").json()["series"]["eval_loss"]
    checkpoints = api.get(f"{API}/jobs/{job['id']}/checkpoints").json()["checkpoints"]

    assert job["last_step"] == claim["stopped_early_at"] < STEPS
    assert claim["stopped_early_at"] == claim["best_step"] + 2 * EVALUATED["eval_steps"]
    assert min(loss for _, loss in series) == pytest.approx(claim["best_eval_loss"], abs=1e-4)
    assert [row["step"] for row in checkpoints if row["is_best"]] == [claim["best_step"]]
    assert job["hyperparams"].items() >= EVALUATED.items()
    assert ask(api, models["evaluated"]["id"]).status_code == 200


def test_reports_of_an_evaluated_job_are_those_of_the_contract(api, jobs):
    shown = {}
    for line in CONTRACT.read_text().splitlines():
        event = json.loads(line)
        shown[event["type"], event.get("status")] = set(event)
    events = api.get(f"{API}/jobs/{jobs['evaluated']['id']}/events").json()["events"]

    for kind in ("eval", "checkpoint"):
        found = [set(event["data"]) for event in events if event["type"] == kind]
        assert found
        assert all(fields | {"boot", "seq"} == shown[kind, None] for fields in found), found
    (claim,) = [event["data"] for event in events if event["data"].get("reported") == "completed"]
    own = set(claim) - {"reported", "stopped_early_at"}
    assert own | {"boot", "seq"} == shown["status", "completed"]


def test_a13_and_a11_models_of_other_tools(installation, api, jobs):
    script = ODD_MODELS.format(a11=str(CASES / "A11.safetensors"), run_id=jobs["evaluated"]["id"])
    without_tokenizer, with_embeddings = installation.manage("shell", "-c", script).split()[-2:]

    a13, a11 = ask(api, without_tokenizer), ask(api, with_embeddings)

    assert a13.status_code == 200, a13.text
    assert "base model's are used" in json.dumps(a13.json()["notes"])
    assert a11.status_code == 500
    assert "embed_tokens has 34 rows" in a11.json()["error"]
