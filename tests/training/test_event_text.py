"""Events as one line of text."""

import pytest

from training.event_text import event_text, number_text


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("progress", {"step": 3, "loss": 1.40219, "timestamp": 9.5}, "step 3 · loss 1.402"),
        ("progress", {"step": 3, "loss": None, "nonfinite": "nan"}, "step 3 · loss NaN"),
        ("progress", {"step": 3, "loss": None, "nonfinite": "inf"}, "step 3 · loss Infinity"),
        ("progress", {"step": 3, "loss": None}, "step 3"),
        ("status", {"status": "training", "is_stopping": True}, "training · is_stopping yes"),
        ("log", {"text": "saved", "stream": "stdout"}, "saved"),
        ("warning", {"code": "few", "message": ["not", "text"]}, 'code few · ["not", "text"]'),
        (
            "checkpoint",
            {"step": 4, "eval_loss": 1.5, "is_best": True},
            "step 4 · eval_loss 1.5 · is_best yes",
        ),
        (
            "status",
            {"status": "uploading", "best_eval_loss": 1.5, "stopped_early_at": 60},
            "uploading · best_eval_loss 1.5 · stopped_early_at 60",
        ),
        (
            "dataset",
            {"message": "read", "num_held_out": 3, "sample": "Shelf 7.<end>"},
            "read · num_held_out 3 · sample Shelf 7.<end>",
        ),
        ("unheard-of", {"text": "x"}, ""),
    ],
)
def test_line_of_an_event(kind, data, text):
    assert event_text(kind, data) == text


def test_status_names_the_attempt_from_the_second_on():
    assert event_text("status", {"status": "running"}, attempt=2) == "running · attempt 2"


@pytest.mark.parametrize(
    ("value", "text"),
    [(7, "7"), (2.0, "2"), (0.000012345, "1.234e-05"), (12345.6, "12346"), (0.5, "0.5")],
)
def test_numbers_are_short(value, text):
    assert number_text(value) == text


def test_long_text_is_cut():
    assert len(event_text("log", {"text": "x" * 5000})) == 1000
