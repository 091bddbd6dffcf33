"""`manage.py infer`: an answer as it comes."""

import pytest

from gligabao.errors import ProviderRejected
from tests.factories import make_trained_model
from tests.fakes import FakeProvider
from tests.training.commands.running import run
from training.providers.base import InferEvent

pytestmark = pytest.mark.django_db


class Answering(FakeProvider):
    """A provider that answers every prompt alike."""

    def __init__(self, *events):
        super().__init__()
        self.events = events
        self.asked = []

    async def infer(self, request):
        self.asked.append(request)
        for event in self.events:
            if isinstance(event, Exception):
                raise event
            yield event


@pytest.fixture
def answer(monkeypatch):
    """Makes the provider `local` one that answers so."""
    from training import providers

    def use(*events):
        provider = Answering(*events)
        monkeypatch.setitem(providers.PROVIDERS, "local", lambda: provider)
        providers.get_provider.cache_clear()
        return provider

    yield use
    providers.get_provider.cache_clear()


ANSWER = (
    InferEvent("note", "loading the model"),
    InferEvent("token", "Its name\n"),
    InferEvent("token", "is \x1b[31mBao."),
    InferEvent("done", "Its name\nis \x1b[31mBao.", "stop", 5),
)


def test_tokens_go_to_stdout_and_cannot_steer_the_terminal(answer):
    answer(*ANSWER)

    result = run("infer", make_trained_model().pk, "What is it called?")

    assert result.out == "Its name\nis \\x1b[31mBao.\n"
    assert "loading the model" in result.err


def test_json_keeps_the_text_as_it_is(answer):
    answer(*ANSWER)
    model = make_trained_model()

    events = run("infer", model.pk, "What?", "--json").json_lines

    assert [event["type"] for event in events] == ["note", "token", "token", "done"]
    assert events[-1] == {
        "type": "done",
        "model_id": model.pk,
        "response": "Its name\nis \x1b[31mBao.",
        "finish_reason": "stop",
    }


def test_asks_what_was_given(answer):
    provider = answer(*ANSWER)

    run(
        "infer", make_trained_model().pk, "Hello", "--system", "Be short.", "--base",
        "--max-tokens", 9, "--temperature", 0.5,
    )  # fmt: skip

    request = provider.asked[0]
    assert [(message["role"], message["content"]) for message in request.messages] == [
        ("system", "Be short."),
        ("user", "Hello"),
    ]
    assert (request.max_tokens, request.temperature, request.adapter_dir) == (9, 0.5, None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--max-tokens", 0), "max_tokens: "),
        (("--temperature", 3), "temperature: "),
        (("--system", ""), ""),
    ],
)
def test_limits_are_those_of_the_api(answer, arguments, words):
    answer(*ANSWER)

    result = run("infer", make_trained_model().pk, "Hello", *arguments)

    assert (words in result.error, bool(result.error)) == (True, bool(words))


def test_error_of_the_provider_is_a_plain_sentence(answer):
    answer(InferEvent("token", "Its"), ProviderRejected("The prompt is too long."))

    result = run("infer", make_trained_model().pk, "Hello")

    assert (result.code, result.error) == (1, "The prompt is too long.")


def test_unknown_model():
    assert run("infer", 99, "Hello").error == "No trained model 99."
