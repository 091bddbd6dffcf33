"""/v1/gb/training/models over HTTP."""

import hashlib
import io
from concurrent.futures import ThreadPoolExecutor

import pytest
from asgiref.sync import async_to_sync

from gligabao.errors import InferenceTimeout
from gligabao.storage import get_storage
from tests.factories import make_trained_model
from training.models import TrainedModel
from training.providers.base import InferEvent

MODELS = "/v1/gb/training/models"
SEED_KEYS = {
    "id", "name", "run_id", "job_id", "base_model", "model_size", "dataset", "dataset_sha256",
    "num_examples", "num_train_steps", "final_loss", "params", "path", "files", "size_bytes",
    "created_at",
}  # fmt: skip

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


@pytest.fixture
def answers(fake_provider):
    """What the inference answers: a list of events, or an error to raise. Requests are kept."""
    fake_provider.infer_requests = []
    fake_provider.infer_events = [
        InferEvent("token", text="Its name "),
        InferEvent("token", text="is Bao."),
        InferEvent("done", text="Its name is Bao.", finish_reason="stop", num_tokens=5),
    ]
    return fake_provider


def stored_model(**artifacts):
    artifacts = {
        "adapter_config.json": b"{}",
        "adapter_model.safetensors": b"ABCD",
    } | artifacts
    model = make_trained_model()
    for path, data in artifacts.items():
        get_storage().put(f"{model.path}/{path}", io.BytesIO(data))
    model.files = [
        {"path": path, "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for path, data in artifacts.items()
    ]
    model.save()
    return model


@async_to_sync
async def text_of(answer):
    return b"".join([part async for part in answer.streaming_content]).decode()


def infer(client, model, **body):
    return client.post(f"{MODELS}/{model.pk}/infer", body, format="json")


def test_models_are_listed_with_the_documented_fields(api_as):
    models = [make_trained_model() for _ in range(3)]

    body = api_as("viewer").get(f"{MODELS}?limit=2").json()

    assert [row["id"] for row in body["models"]] == [models[2].pk, models[1].pk]
    assert set(body["models"][0]) >= SEED_KEYS


def test_an_unknown_model_is_a_404(api_as):
    client = api_as("admin")

    for method, path in (("get", ""), ("patch", ""), ("delete", ""), ("get", "/files/x.json")):
        assert getattr(client, method)(f"{MODELS}/424242{path}").status_code == 404
    assert client.post(f"{MODELS}/424242/infer", {"prompt": "x"}, format="json").status_code == 404


def test_a_prompt_is_one_user_turn_and_is_answered(api_as, answers):
    model = stored_model()

    answer = infer(api_as("trainer"), model, prompt="Who?", max_tokens=7)

    assert answer.status_code == 200, answer.content
    assert answer.json() == {
        "model_id": model.pk, "response": "Its name is Bao.", "finish_reason": "stop",
    }  # fmt: skip
    asked = answers.infer_requests[0]
    assert list(asked.messages) == [{"role": "user", "content": "Who?"}]
    assert (asked.max_tokens, asked.temperature, asked.model_id) == (7, 0.0, "tiny")
    assert asked.adapter_dir is not None


def test_the_base_model_is_asked_without_an_adapter(api_as, answers):
    infer(api_as("trainer"), stored_model(), prompt="Who?", base=True)

    assert answers.infer_requests[0].adapter_dir is None


def test_a_streamed_answer_comes_as_events(api_as, answers):
    model = stored_model()

    answer = infer(api_as("trainer"), model, prompt="Who?", stream=True)
    text = text_of(answer)

    assert answer.headers["Content-Type"] == "text/event-stream"
    assert text.startswith('event: token\ndata: {"text":"Its name "}\n\n')
    assert text.endswith(
        f'event: done\ndata: {{"model_id":{model.pk},"response":"Its name is Bao.",'
        '"finish_reason":"stop"}\n\n'
    )


def test_a_streamed_failure_ends_with_an_error_event(api_as, answers):
    answers.infer_events = [InferEvent("token", text="It"), InferenceTimeout("Over 300 s.")]

    answer = infer(api_as("trainer"), stored_model(), prompt="Who?", stream=True)
    text = text_of(answer)

    assert 'event: error\ndata: {"error":"Over 300 s.","code":"inference_timeout"}' in text


def test_a_generation_that_takes_too_long_is_a_504(api_as, answers):
    answers.infer_events = [InferenceTimeout("Over 300 s.")]

    assert infer(api_as("trainer"), stored_model(), prompt="Who?").status_code == 504


def test_e09_a_nul_in_the_prompt_is_answered(api_as, answers):
    assert infer(api_as("trainer"), stored_model(), prompt="nul \x00 in").status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"prompt": "a", "messages": [{"role": "user", "content": "a"}]},
        {"prompt": ""},
        {"prompt": 5},
        {"messages": []},
        {"messages": [{"role": "robot", "content": "a"}]},
        {"messages": [{"role": "user", "content": 5}]},
        {"messages": [{"role": "user", "content": "a", "x": 1}]},
        {"messages": "a"},
        {"prompt": "a", "max_tokens": 0},
        {"prompt": "a", "max_tokens": 10**9},
        {"prompt": "a", "max_tokens": "5"},
        {"prompt": "a", "temperature": -1},
        {"prompt": "a", "temperature": 3},
        {"prompt": "a", "temperature": "warm"},
        {"prompt": "a", "base": 1},
        {"prompt": "a", "top_p": 1},
    ],
)
def test_bad_prompts_are_a_400(api_as, answers, body):
    answer = infer(api_as("trainer"), stored_model(), **body)

    assert answer.status_code == 400, answer.content
    assert answers.infer_requests == []


def test_a06_damaged_bytes_are_never_used(api_as, answers):
    model = stored_model()
    model.files[1]["sha256"] = "0" * 64
    model.save()

    answer = infer(api_as("trainer"), model, prompt="Who?")

    assert answer.status_code == 500
    assert "adapter_model.safetensors" in answer.json()["error"]
    assert "sha256" in answer.json()["error"]
    assert answers.infer_requests == []


def test_parallel_first_prompts_share_one_verified_folder(answers):
    from training.services.trained_models import verified_files

    model = stored_model()

    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(lambda _: verified_files(model), range(4)))

    assert len(folders) == 1
    folder = folders.pop()
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        file["path"] for file in model.files
    )
    assert [path.name for path in folder.parent.iterdir() if path.name.startswith(".")] == []


def test_files_are_handed_out_by_a_short_lived_address(api_as):
    model = stored_model()
    client = api_as("viewer")

    answer = client.get(f"{MODELS}/{model.pk}/files/adapter_config.json")

    assert answer.status_code == 302
    assert "/artifacts/" in answer.headers["Location"]
    assert client.get(f"{MODELS}/{model.pk}/files/other.json").status_code == 404
    assert client.get(f"{MODELS}/{model.pk}/files/../../x").status_code == 404


def test_a_model_can_be_renamed(api_as):
    model = make_trained_model()
    client = api_as("trainer")

    answer = client.patch(f"{MODELS}/{model.pk}", {"name": "<b>x</b>", "note": "n"}, format="json")

    assert (answer.status_code, answer.json()["name"]) == (200, "<b>x</b>")
    assert client.patch(f"{MODELS}/{model.pk}", {"name": ""}, format="json").status_code == 400
    assert client.patch(f"{MODELS}/{model.pk}", {"files": []}, format="json").status_code == 400


def test_deleting_a_model_removes_its_files(api_as):
    model = stored_model()

    assert api_as("trainer").delete(f"{MODELS}/{model.pk}").status_code == 403
    assert api_as("admin").delete(f"{MODELS}/{model.pk}").status_code == 204

    assert not TrainedModel.objects.exists()
    assert get_storage().stat(f"{model.path}/adapter_config.json") is None


def test_a_viewer_may_not_infer(api_as, answers):
    assert infer(api_as("viewer"), stored_model(), prompt="x").status_code == 403
