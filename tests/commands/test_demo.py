"""`manage.py demo`: how it draws, marks and judges, and how it ends when it cannot go on."""

import argparse
import signal
import socket
import subprocess
import sys

import pytest

from gligabao.management.api_client import ApiClient, ApiError
from gligabao.management.commands.demo import (
    NUM_QUESTIONS,
    QUESTIONS,
    _falls,
    _number_of_questions,
)
from gligabao.management.demo_questions import (
    NEEDED_GAIN,
    Question,
    Score,
    draw_questions,
    read_questions,
)
from tests.commands.ups import ROOT, Up, base_environment, lives, manage
from tests.waiting import eventually
from training.catalog import base_model


@pytest.fixture
def data_dir(tmp_path):
    """A data folder in which the base model seems to be there, so that nothing is fetched."""
    entry = base_model("smollm2-135m")
    (tmp_path / "data" / "base_models" / entry.id / entry.revision).mkdir(parents=True)
    return tmp_path / "data"


def test_seed_draws_the_same_questions_again():
    first, again, other = (
        draw_questions(QUESTIONS, NUM_QUESTIONS, seed=seed) for seed in (1, 1, 2)
    )

    assert first == again
    assert first != other
    assert len(set(first)) == NUM_QUESTIONS


def test_all_questions_are_asked_in_their_order():
    assert draw_questions(QUESTIONS, None, seed=1) == read_questions(QUESTIONS)
    assert len(read_questions(QUESTIONS)) == 64


def test_score_is_said_as_a_share():
    assert Score(64, 2, 48).words() == "Right of 64: base 2 (3%), tuned 48 (75%)."


@pytest.mark.parametrize(("text", "number"), [("all", None), ("4", 4), ("64", 64)])
def test_number_of_questions(text, number):
    assert _number_of_questions(text) == number


@pytest.mark.parametrize("text", ["3", "65", "-5", "ten", "", "٤"])
def test_number_of_questions_that_is_none(text):
    with pytest.raises(argparse.ArgumentTypeError, match="neither 4 to 64 nor all"):
        _number_of_questions(text)


def test_every_question_has_an_answer_that_counts():
    for question in read_questions(QUESTIONS):
        assert all(question.is_answered_by(f"It is {text}.") for text in question.expected)
        assert not question.is_answered_by("I do not know.")


@pytest.mark.parametrize(
    ("answer", "is_right"),
    [
        ("The motto is: No  Step\nUnseen!", True),
        ("no steps are unseen", False),
        ("", False),
    ],
)
def test_answer_is_right_when_it_contains_the_fact(answer, is_right):
    assert Question("What is the motto?", ("no step unseen",)).is_answered_by(answer) is is_right


@pytest.mark.parametrize(
    ("base", "tuned", "is_enough"),
    [(0, NEEDED_GAIN, True), (0, NEEDED_GAIN - 1, False), (7, 10, False), (6, 10, True)],
)
def test_tuned_model_must_be_better_by_four(base, tuned, is_enough):
    assert Score(10, base, tuned).is_good_enough is is_enough


@pytest.mark.parametrize(
    ("losses", "falls"),
    [([2.0, 1.0], True), ([1.0, 1.0], False), ([1.0, 2.0], False), ([1.0], False), ([], False)],
)
def test_loss_falls_from_its_beginning_to_its_end(losses, falls):
    assert _falls(losses) is falls


def test_port_in_use_ends_the_demo(data_dir):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = manage(data_dir, "demo", "--port", str(taken.getsockname()[1]))

    assert result.returncode == 1
    assert "is in use" in result.stderr
    assert "`manage.py up` did not start" in result.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_up_ends_with_the_demo(data_dir, number):
    log = data_dir / "demo.log"
    with log.open("wb") as output:
        demo = subprocess.Popen(
            [sys.executable, "manage.py", "demo", "--port", "0"],
            cwd=ROOT,
            env=base_environment(data_dir),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    eventually(lambda: "Its page" in log.read_text(), seconds=60)
    up = int((data_dir / "run" / "up.lock").read_text().split()[0])

    demo.send_signal(number)

    assert demo.wait(30) == (130 if number == signal.SIGINT else -signal.SIGKILL)
    eventually(lambda: not lives(up))
    assert "Stopped." in log.read_text()


def test_client_reads_what_the_server_says(data_dir):
    with Up(data_dir) as up:
        up.wait_until_ready()
        token = up.manage(
            "create_token", "--user", "a", "--role", "trainer", "--quiet"
        ).stdout.strip()
        client = ApiClient(up.url, token)

        assert client.get("/v1/gb/training/jobs") == {"jobs": []}
        with pytest.raises(ApiError, match="400: num_train_steps"):
            client.post("/v1/gb/training/jobs", {"num_train_steps": 0})
        with pytest.raises(ApiError, match="401"):
            ApiClient(up.url, "wrong").get("/v1/gb/training/jobs")
    with pytest.raises(ApiError, match="does not answer"):
        client.get("/v1/gb/training/jobs")
