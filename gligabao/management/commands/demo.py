"""`manage.py demo`: train the sample on this machine, then compare base and tuned."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from django.conf import settings
from django.core.management import BaseCommand, CommandError
from knox.models import AuthToken

from gligabao.access import TRAINER
from gligabao.accounts import FIRST_ADMIN, make_token
from gligabao.management.api_client import ApiClient, ApiError
from gligabao.management.arguments import DEFAULT_PORT, port
from gligabao.management.demo_questions import (
    NEEDED_GAIN,
    Question,
    Score,
    draw_questions,
    read_questions,
)
from gligabao.management.installation import close_databases, lock_file
from gligabao.supervisor import end_with_parent
from gligabao.terminal import printable
from training.event_text import event_text
from training.states import FINAL, JobStatus

USER = "demo"
BASE_MODEL = "smollm2-135m"
DEFAULT_STEPS = 120
NUM_QUESTIONS = 10
MAX_TOKENS = 48
QUESTIONS = settings.BASE_DIR / "datasets" / "sample" / "questions.jsonl"
JOBS = "/v1/gb/training/jobs"
MODELS = "/v1/gb/training/models"
START_SECONDS = 60  # for `up` to be ready
END_SECONDS = 15
INTERRUPTED = 130
COMPARED_STEPS = 10  # at each end of the loss line


class Command(BaseCommand):
    help = "Fine-tune a small model on the sample dataset and compare it with its base."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--seed", type=int, default=1, help="of the training and questions")
        parser.add_argument("--steps", type=int, default=DEFAULT_STEPS, help="training steps")
        parser.add_argument(
            "--port", type=port, default=DEFAULT_PORT, help="0 lets the system choose"
        )
        parser.add_argument(
            "--questions",
            type=_number_of_questions,
            default=NUM_QUESTIONS,
            metavar="N",
            help=f"how many are asked; all asks all {len(read_questions(QUESTIONS))}",
        )
        parser.add_argument("--keep", action="store_true", help="leave it running at the end")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with _base_model_fetch() as wait_for_base_model, _running_up(options["port"]) as up:
                client = ApiClient(_url_when_ready(up), _token())
                wait_for_base_model()
                is_good = self._show(client, options)
                if options["keep"]:
                    self.say(f"It stays up at {client.url}/ until Ctrl-C.")
                    up.wait()
        except ApiError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            raise CommandError("Interrupted.", returncode=INTERRUPTED) from None
        if not is_good:
            raise CommandError(f"The tuned model needs {NEEDED_GAIN} more right than the base.")

    def say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()

    def _show(self, client: ApiClient, options: dict[str, Any]) -> bool:
        """Train, ask, and tell whether the tuned model is enough better."""
        seed = options["seed"]
        job = client.post(
            JOBS,
            {
                "base_model": BASE_MODEL,
                "num_train_steps": options["steps"],
                "hyperparams": {"seed": seed},
                "name": f"demo, seed {seed}",
            },
        )
        self._say_where(client, job)
        started = time.monotonic()
        model_id = self._follow(client, job["id"])
        self.say(f"Trained in {time.monotonic() - started:.0f} s: model {model_id}.\n")
        score = self._ask(
            client, model_id, draw_questions(QUESTIONS, options["questions"], seed=seed)
        )
        self.say(score.words())
        if options["questions"] is not None:
            self.say(
                f"Other questions: make demo SEED={seed + 1}. "
                "All of them: make demo DEMO_ARGS='--questions all'"
            )
        return score.is_good_enough

    def _say_where(self, client: ApiClient, job: dict[str, Any]) -> None:
        self.say(f"\nJob {job['id']} started: {job['base_model']}, {job['num_train_steps']} steps.")
        self.say(f"Its page   {client.url}/console/jobs/{job['id']}/")
        self.say(f"All jobs   {client.url}/console/jobs/")
        self.say(f"Log in     as {FIRST_ADMIN}; the first start printed the password.")
        self.say(f"           A new one: manage.py changepassword {FIRST_ADMIN}")
        self.say(f'Try        curl -H "Authorization: Bearer {client.token}" {client.url}{JOBS}\n')

    def _follow(self, client: ApiClient, run_id: int) -> int:
        """Print each event until the job ends; the id of its model. Raises CommandError."""
        losses = []
        for event in client.events(run_id):
            text = event_text(event["type"], event, attempt=event.get("attempt") or 1)
            self.say(printable(f"{event['seq']:>5} {event['type']:<10} {text}"))
            if event["type"] == "progress" and event.get("loss") is not None:
                losses.append(event["loss"])
            if event["type"] == "status" and event["status"] in FINAL:
                break
        if event["status"] != JobStatus.COMPLETED:
            raise CommandError(f"The job ended as {event['status']}.")
        if not _falls(losses):
            raise CommandError("The loss did not fall.")
        return event["model_id"]

    def _ask(self, client: ApiClient, model_id: int, questions: Sequence[Question]) -> Score:
        score = Score()
        for question in questions:
            answers = {
                name: _answer(client, model_id, question.text, is_base=name == "base")
                for name in ("base", "tuned")
            }
            right = {name: question.is_answered_by(text) for name, text in answers.items()}
            score.note(**right)
            self.say(f"Question {score.num_asked}: {question.text}")
            for name, text in answers.items():
                mark = "right" if right[name] else "wrong"
                self.say(printable(f"  {name:<5} {mark}  {' '.join(text.split())}"))
            self.say(f"  expected     {' or '.join(question.expected)}\n")
        return score


def _number_of_questions(text: str) -> int | None:
    """`--questions`: None for all."""
    if text == "all":
        return None
    most = len(read_questions(QUESTIONS))
    if not text.isascii() or not text.isdigit() or not NEEDED_GAIN <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is neither {NEEDED_GAIN} to {most} nor all")
    return int(text)


@contextlib.contextmanager
def _base_model_fetch() -> Iterator[Callable[[], None]]:
    """Fetch the base model while `up` starts; what it yields waits for that to be done."""
    # A step of its own, with the trainer's path: the control plane never loads torch.
    environment = os.environ | {
        "PYTHONPATH": str(settings.BASE_DIR / "trainer_image"),
        "GLIGABAO_MODELS_DIR": str(settings.MODELS_DIR),
    }
    fetch = _start(("-P", "-m", "trainer.base_models", "fetch", BASE_MODEL), environment)

    def wait() -> None:
        if fetch.wait() != 0:
            raise CommandError(f"The base model {BASE_MODEL} could not be fetched.")

    try:
        yield wait
    finally:
        _end(fetch)


@contextlib.contextmanager
def _running_up(port: int) -> Iterator[subprocess.Popen[bytes]]:
    manage = str(settings.BASE_DIR / "manage.py")
    up = _start((manage, "up", "--port", str(port)), os.environ)
    try:
        yield up
    finally:
        _end(up)


def _start(arguments: Sequence[str], environment: Any) -> subprocess.Popen[bytes]:
    """A child in a session of its own: a Ctrl-C is passed on by us, once."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=end_with_parent,
    )


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
    try:
        child.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _url_when_ready(up: subprocess.Popen[bytes]) -> str:
    """The address of this `up`, once it can work. Raises CommandError."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if up.poll() is not None:
            raise CommandError("`manage.py up` did not start; it says why above.")
        # Its own word, not only an answer at the port, which could be a stranger's.
        words = lock_file().read_text(encoding="ascii").split() if lock_file().exists() else []
        if len(words) == 2 and words[0] == str(up.pid) and _is_ready(words[1]):
            return words[1]
        time.sleep(0.1)
    raise CommandError(f"`manage.py up` was not ready within {START_SECONDS} seconds.")


def _is_ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/readyz", timeout=5) as answer:  # noqa: S310  our own server
            return answer.status == 200
    except (HTTPError, URLError, OSError):
        return False


def _token() -> str:
    """A token for the demo; those of earlier demos are revoked."""
    AuthToken.objects.filter(user__username=USER).delete()
    _, token = make_token(USER, TRAINER)
    close_databases()
    return token


def _answer(client: ApiClient, model_id: int, question: str, *, is_base: bool) -> str:
    body = {"prompt": question, "max_tokens": MAX_TOKENS, "base": is_base}
    return client.post(f"{MODELS}/{model_id}/infer", body)["response"]


def _falls(losses: Sequence[float]) -> bool:
    """Whether the mean loss at the end is below that at the beginning."""
    number = min(COMPARED_STEPS, len(losses) // 2)
    return number > 0 and sum(losses[-number:]) < sum(losses[:number])
