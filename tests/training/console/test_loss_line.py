"""A loss line as SVG."""

from training.console.loss_line import loss_line


def test_no_number_is_no_line():
    assert loss_line([]) is None
    assert loss_line([[1, None]]) is None


def test_line_fills_its_box():
    line = loss_line([[10, 2.4], [20, 2.0], [30, 1.82], [40, 1.6]])

    assert line.segments == ["56,12 273.3,112 490.7,157 708,212"]
    assert (line.highest, line.lowest, line.first_step, line.last_step) == (
        "2.4",
        "1.6",
        "10",
        "40",
    )
    assert line.words == "Training loss from 2.4 at step 10 to 1.6 at step 40; lowest 1.6."


def test_one_point_is_a_dot_in_the_middle():
    line = loss_line([[5, 1.0]])

    assert (line.segments, line.dots) == ([], [("382", "112")])


def test_gap_parts_the_line_and_is_marked():
    line = loss_line([[0, 1.0], [1, 2.0], [2, None], [3, 2.0], [4, 1.0]])

    assert len(line.segments) == 2
    assert line.gaps == ["382"]


def test_eval_loss_is_a_second_line_on_the_same_axes():
    line = loss_line([[10, 2.0], [20, 1.0]], [[15, 3.0], [20, 2.0], [30, 2.5]])

    assert line.segments == ["56,112 382,212"]
    assert line.eval_segments == ["219,12 382,112 708,62"]
    assert (line.highest, line.lowest, line.last_step) == ("3", "1", "30")
    assert line.words == (
        "Training loss from 2 at step 10 to 1 at step 20; lowest 1. "
        "Eval loss from 3 at step 15 to 2.5 at step 30; lowest 2."
    )


def test_eval_loss_alone_is_a_line_too():
    line = loss_line([[1, None]], [[1, 2.0]])

    assert (line.segments, line.eval_dots) == ([], [("382", "112")])
    assert line.words == "Eval loss from 2 at step 1 to 2 at step 1; lowest 2."
