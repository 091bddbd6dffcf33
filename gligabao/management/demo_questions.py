"""The demo's questions: drawn by a seed, asked of base and tuned, marked right or wrong."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NEEDED_GAIN = 4  # right answers that the tuned model must have over the base model


@dataclass(frozen=True)
class Question:
    """A question on a taught fact, and the texts of which a right answer contains one."""

    text: str
    expected: tuple[str, ...]

    def is_answered_by(self, answer: str) -> bool:
        """Compared without regard to case and spacing."""
        said = _plain(answer)
        return any(_plain(text) in said for text in self.expected)


@dataclass
class Score:
    """How many of the answers so far were right."""

    num_asked: int = 0
    base: int = 0
    tuned: int = 0

    def note(self, *, base: bool, tuned: bool) -> None:
        self.num_asked += 1
        self.base += base
        self.tuned += tuned

    def words(self) -> str:
        """Such as `Right of 64: base 2 (3%), tuned 48 (75%).`"""
        base, tuned = (f"{n} ({n / self.num_asked:.0%})" for n in (self.base, self.tuned))
        return f"Right of {self.num_asked}: base {base}, tuned {tuned}."

    @property
    def is_good_enough(self) -> bool:
        return self.tuned >= self.base + NEEDED_GAIN


def read_questions(path: Path) -> Sequence[Question]:
    """All of them, in their order; none is in the training data."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    return [Question(line["question"], tuple(line["expected"])) for line in lines]


def draw_questions(path: Path, number: int | None, *, seed: int) -> Sequence[Question]:
    """The same questions for the same seed; all of them, in order, without a number."""
    questions = read_questions(path)
    if number is None:
        return questions
    return random.Random(seed).sample(questions, number)  # noqa: S311  no secret


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
