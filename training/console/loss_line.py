"""A loss line as SVG, for a page that is complete without a script. Pure.

A browser with scripts draws its own chart (static/js/line_chart.js) in this place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from training.console.numbers import measured

WIDTH, HEIGHT = 720, 240
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 28  # room for the numbers at the axes

Point = Sequence  # [step, loss]; loss None where it was no number


@dataclass(frozen=True)
class LossLine:
    """The line of the training loss and that of the eval loss, as SVG.

    Of each the segments (points of one polyline) and the dots (a stretch of one point); marks
    where the training loss has a gap, the axes' ends, and words.
    """

    segments: list[str]
    dots: list[tuple[str, str]]
    eval_segments: list[str]
    eval_dots: list[tuple[str, str]]
    gaps: list[str]
    lowest: str
    highest: str
    first_step: str
    last_step: str
    words: str


def loss_line(points: Sequence[Point], evals: Sequence[Point] = ()) -> LossLine | None:
    """The lines of these points, steps rising; None without a single number."""
    numbers = [loss for _step, loss in (*points, *evals) if loss is not None]
    if not numbers:
        return None
    low, high = min(numbers), max(numbers)
    steps = [step for step, _loss in (*points, *evals)]
    first, last = min(steps), max(steps)

    def place(step: int, loss: float) -> tuple[float, float]:
        return _scaled(step, first, last, LEFT, WIDTH - RIGHT), _scaled(
            loss, low, high, HEIGHT - BOTTOM, TOP
        )

    def placed(values: Sequence[Point]) -> tuple[list[str], list[tuple[str, str]]]:
        runs = [[place(step, loss) for step, loss in run] for run in _runs(values)[0]]
        return (
            [" ".join(f"{x:g},{y:g}" for x, y in run) for run in runs if len(run) > 1],
            [(f"{x:g}", f"{y:g}") for run in runs if len(run) == 1 for x, y in run],
        )

    (segments, dots), (eval_segments, eval_dots) = placed(points), placed(evals)
    gaps = _runs(points)[1]
    return LossLine(
        segments=segments,
        dots=dots,
        eval_segments=eval_segments,
        eval_dots=eval_dots,
        gaps=[f"{_scaled(step, first, last, LEFT, WIDTH - RIGHT):g}" for step in gaps],
        lowest=measured(low),
        highest=measured(high),
        first_step=str(first),
        last_step=str(last),
        words=" ".join(
            filter(None, (_words(_("Training loss"), points), _words(_("Eval loss"), evals)))
        ),
    )


def _runs(points: Sequence[Point]) -> tuple[list[list[Point]], list[int]]:
    """Stretches of points with a number, and the steps of those without."""
    runs: list[list[Point]] = [[]]
    gaps = []
    for step, loss in points:
        if loss is None:
            gaps.append(step)
            runs.append([])
        else:
            runs[-1].append((step, loss))
    return [run for run in runs if run], gaps


def _scaled(value: float, low: float, high: float, start: int, end: int) -> float:
    """Where a value of low..high lies on start..end, to a tenth of a pixel."""
    share = (value - low) / (high - low) if high > low else 0.5
    return round(start + share * (end - start), 1)


def _words(name: str, points: Sequence[Point]) -> str:
    known = [(step, loss) for step, loss in points if loss is not None]
    if not known:
        return ""
    (first_step, first), (last_step, last) = known[0], known[-1]
    words = _(
        "%(name)s from %(first)s at step %(first_step)s to %(last)s at step %(last_step)s; "
        "lowest %(lowest)s."
    ) % {
        "name": name,
        "first": measured(first),
        "first_step": first_step,
        "last": measured(last),
        "last_step": last_step,
        "lowest": measured(min(loss for _step, loss in known)),
    }
    num_gaps = len(points) - len(known)
    if num_gaps:
        gaps = _("At %(gaps)s of %(all)s steps the loss was no number.")
        words += " " + gaps % {"gaps": num_gaps, "all": len(points)}
    return words
