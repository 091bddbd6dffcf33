"""Which checkpoint folders count."""

import pytest

from trainer.checkpoints import (
    Totals,
    mark_complete,
    newest_checkpoint,
    remove_unfinished,
    valid_checkpoint,
)


def make_checkpoint(folder, step, *, is_marked=True):
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "adapter_model.safetensors").write_bytes(b"weights")
    (path / "optimizer.pt").write_bytes(b"moments")
    if is_marked:
        mark_complete(path, Totals(step=step, tokens=10 * step, loss_sum=2.0 * step))
    return path


def test_newest_marked_checkpoint_is_found(tmp_path):
    make_checkpoint(tmp_path, 50)
    make_checkpoint(tmp_path, 100)
    make_checkpoint(tmp_path, 150, is_marked=False)

    found = newest_checkpoint(tmp_path, before_step=200)

    assert found.path.name == "checkpoint-100"
    assert found.totals == Totals(step=100, tokens=1000, loss_sum=200.0)


def test_a_checkpoint_of_the_last_step_leaves_nothing_to_do(tmp_path):
    make_checkpoint(tmp_path, 50)
    make_checkpoint(tmp_path, 100)

    assert newest_checkpoint(tmp_path, before_step=100).path.name == "checkpoint-50"


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: (path / "optimizer.pt").write_bytes(b"mom"),
        lambda path: (path / "optimizer.pt").unlink(),
        lambda path: (path / "complete.json").write_text('{"totals": {'),
        lambda path: (path / "complete.json").write_text("[]"),
        lambda path: (path / "complete.json").unlink(),
    ],
)
def test_damaged_checkpoints_do_not_count(tmp_path, damage):
    path = make_checkpoint(tmp_path, 50)
    damage(path)

    assert valid_checkpoint(path) is None
    assert newest_checkpoint(tmp_path, before_step=100) is None


def test_unfinished_checkpoints_are_removed(tmp_path):
    kept = make_checkpoint(tmp_path, 50)
    cut_off = make_checkpoint(tmp_path, 100, is_marked=False)

    remove_unfinished(tmp_path)

    assert kept.exists()
    assert not cut_off.exists()


def test_folders_that_are_not_there_hold_no_checkpoint(tmp_path):
    assert newest_checkpoint(tmp_path / "none", before_step=10) is None
