"""Numbers of a distribution of tokens."""

import pytest

from training.token_summary import BINS, summary


def test_numbers_of_a_distribution():
    lengths = {"10": 5, "20": 4, "300": 1}
    firsts = {"4": 8, "250": 1, "-1": 1}

    found = summary(lengths, firsts, max_length=200)

    assert (found.count, found.num_tokens) == (10, 430)
    assert (found.p50, found.p95, found.max) == (10, 300, 300)
    assert (found.num_over, found.num_without_answer) == (1, 2)


def test_bins_hold_every_example_once():
    lengths = {str(n): n for n in range(1, 1000, 7)}

    found = summary(lengths, {}, max_length=1)

    assert len(found.bins) <= BINS
    assert sum(one.count for one in found.bins) == found.count
    assert all(
        one.stop == other.start for one, other in zip(found.bins, found.bins[1:], strict=False)
    )
    assert found.bins[-1].start <= found.max < found.bins[-1].stop


def test_nothing_is_counted_as_nothing():
    found = summary({}, {}, max_length=5)

    assert (found.count, found.p50, found.p95, found.max, found.bins) == (0, 0, 0, 0, ())


@pytest.mark.parametrize(("total", "percent_95"), [(1, 1), (20, 19), (100, 95)])
def test_percentile_is_the_trainers(total, percent_95):
    lengths = {str(n): 1 for n in range(1, total + 1)}

    assert summary(lengths, {}, max_length=1).p95 == percent_95
