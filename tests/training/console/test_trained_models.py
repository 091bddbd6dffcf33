"""The pages of trained models as the server sends them."""

import json

import pytest

from gligabao.errors import NotConfigured
from tests.factories import end_job, make_job, make_trained_model
from tests.reading import Page, page_of
from training.models import TrainedModel
from training.providers.base import InferEvent

pytestmark = pytest.mark.django_db(databases=["default", "second"])

QUESTION = {"prompt": "Who?", "system": "", "max_tokens": "64", "temperature": "0"}


def done(text, reason="stop"):
    return InferEvent("done", text=text, finish_reason=reason)


def test_list_shows_each_model(client_as, django_assert_max_num_queries):
    client = client_as("viewer")
    assert "No models yet" in page_of(client, "/console/models/").text
    for number in range(3):
        make_trained_model(run=end_job(make_job()), name=f"model {number}", size_bytes=19_800_000)

    with django_assert_max_num_queries(8):
        page = page_of(client, "/console/models/")

    for text in ("model 1", "tiny", "mine.jsonl", "1.5", "19.8 MB"):
        assert text in page.text
    assert "model 2" not in page_of(client, "/console/models/?q=model+1").text
    assert "No model matches" in page_of(client, "/console/models/?q=nothing").text


def test_model_without_its_run(client_as):
    model = make_trained_model()

    page = page_of(client_as("viewer"), f"/console/models/{model.pk}/")

    assert not page.all("a", href="/console/jobs/None/")
    assert "Your role reads only." in page.text


def test_files_and_origin(client_as):
    file = {"path": "adapter_model.safetensors", "size_bytes": 4096, "sha256": "b" * 64}
    model = make_trained_model(run=end_job(make_job()), files=[file])

    page = page_of(client_as("viewer"), f"/console/models/{model.pk}/files/")

    for text in (
        "adapter_model.safetensors",
        "4.1 kB",
        "b" * 64,
        "gligabao/tiny-gemma-4",
        "lora_rank",
    ):
        assert text in page.text
    address = f"/v1/gb/training/models/{model.pk}/files/adapter_model.safetensors"
    assert page.all("a", href=address)


def test_question_is_answered_without_a_script(client_as, fake_provider):
    model = make_trained_model()
    fake_provider.infer_events = [
        InferEvent("note", text="No GPU here."),
        done("<b>Me.</b>", "length"),
    ]

    response = client_as("trainer").post(
        f"/console/models/{model.pk}/", QUESTION | {"base": "on", "system": "Be kind."}
    )

    page = Page(response.content.decode())
    assert page.text.count("<b>Me.</b>") == 2
    assert page.text.count("Cut off: the most tokens were reached.") >= 2
    assert "No GPU here." in page.text
    assert "Who?" in page.text
    tuned, base = fake_provider.infer_requests
    assert (tuned.adapter_dir is None, base.adapter_dir is None) == (False, True)
    assert tuned.messages == [
        {"role": "system", "content": "Be kind."}, {"role": "user", "content": "Who?"},
    ]  # fmt: skip


def test_base_model_is_asked_only_on_request(client_as, fake_provider):
    model = make_trained_model()
    fake_provider.infer_events = [done("Me.")]

    client_as("trainer").post(f"/console/models/{model.pk}/", QUESTION)

    assert len(fake_provider.infer_requests) == 1


def test_why_there_is_no_answer_is_said(client_as, fake_provider):
    model = make_trained_model()
    fake_provider.infer_events = [NotConfigured("The provider local is not ready.")]

    response = client_as("trainer").post(f"/console/models/{model.pk}/", QUESTION)

    assert "The provider local is not ready." in Page(response.content.decode()).text


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"prompt": ""}, "required"), ({"max_tokens": "0"}, "greater than or equal to 1"),
     ({"temperature": "9"}, "less than or equal to 2")],
)  # fmt: skip
def test_wrong_question_keeps_what_was_typed(client_as, fake_provider, changed, words):
    model = make_trained_model()

    response = client_as("trainer").post(
        f"/console/models/{model.pk}/", QUESTION | {"system": "kept"} | changed
    )

    page = Page(response.content.decode())
    assert response.status_code == 400
    assert words in page.text
    assert "kept" in page.text
    assert fake_provider.infer_requests == []


def test_viewer_asks_nothing(client_as, fake_provider):
    model = make_trained_model()
    client = client_as("viewer")

    client.post(f"/console/models/{model.pk}/", QUESTION)

    assert fake_provider.infer_requests == []
    for verb in ("edit", "delete"):
        assert client.post(f"/console/models/{model.pk}/{verb}").status_code == 403


def test_name_and_note_are_edited(client_as):
    model = make_trained_model()
    client = client_as("trainer")

    client.post(f"/console/models/{model.pk}/edit", {"edit-name": "new", "edit-note": "good"})
    model.refresh_from_db()
    assert (model.name, model.note) == ("new", "good")

    response = client.post(f"/console/models/{model.pk}/edit", {"edit-name": "", "edit-note": "x"})
    assert response.status_code == 400
    assert "required" in Page(response.content.decode()).text


def test_admin_deletes(client_as):
    model = make_trained_model()
    client = client_as("admin")

    assert client.post(f"/console/models/{model.pk}/delete").url == "/console/models/"
    assert not TrainedModel.objects.exists()
    assert client.get(f"/console/models/{model.pk}/").status_code == 404
    assert client.post(f"/console/models/{model.pk}/delete").status_code == 404


def test_calls_hold_the_address_and_quote_the_prompt(client_as, fake_provider):
    model = make_trained_model(db="second")
    fake_provider.infer_events = [done("Me.")]
    question = QUESTION | {"prompt": 'it\'s $(me)\n"now"'}

    response = client_as("trainer").post(f"/console/models/{model.pk}/?db=second", question)

    page = Page(response.content.decode())
    address = f"http://testserver/v1/gb/training/models/{model.pk}/infer?db=second"
    assert address in page.text_of("curl")
    body = page.text_of("curl").split("-d ")[1]
    assert (
        json.dumps({"prompt": question["prompt"], "stream": True}).replace("'", "'\"'\"'") in body
    )
    compile("".join(page._texts["python"]), "python", "exec")
