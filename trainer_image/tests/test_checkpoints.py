"""Which checkpoint folders count, which one a run goes on from, and which are dropped."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from in_process import Reports, make_spec

from trainer.checkpoints import (
    NEEDED,
    Best,
    Damaged,
    check_digests,
    ingredients,
    read_checkpoint,
    write_checkpoint,
    write_folder,
)
from trainer.keeper import Keeper
from trainer.totals import Totals

WEIGHTS = "adapter_model.safetensors"
NONE_YET = Best()


def messages(reports):
    return [one["message"] for one in reports.of_type("warning")]


def fill(folder):
    for name in (*NEEDED, WEIGHTS):
        (folder / name).write_bytes(f"content of {name}".encode())


def make_checkpoint(spec, step, *, best=NONE_YET, **of_another_run):
    path = Path(spec.checkpoint_dir) / f"checkpoint-{step}"
    totals = Totals(step=step, tokens=10 * step, loss_sum=2.0 * step, unreported=(1.5, 2.5))
    made_of = ingredients(spec) | of_another_run
    write_checkpoint(path, fill, totals=totals, best=best, made_of=made_of)
    return path


@pytest.fixture
def spec(tmp_path):
    return make_spec(tmp_path, num_train_steps=200)


@pytest.fixture
def reports():
    return Reports()


def test_newest_checkpoint_is_found_with_what_the_run_had_counted(spec, reports):
    make_checkpoint(spec, 50)
    make_checkpoint(spec, 100)

    found = Keeper(spec, reports).find()

    assert found.path.name == "checkpoint-100"
    assert found.totals == Totals(100, 1000, 200.0, unreported=(1.5, 2.5))
    assert reports.all == []


def test_a_checkpoint_of_more_steps_than_the_run_has_is_not_its_own(spec, reports):
    make_checkpoint(spec, 200)
    make_checkpoint(spec, 201)

    assert Keeper(spec, reports).find().path.name == "checkpoint-200"


def change_a_byte(path):
    content = (path / "optimizer.pt").read_bytes()
    (path / "optimizer.pt").write_bytes(content[:-1] + b"?")


def forget_in_marker(path):
    marker = json.loads((path / "complete.json").read_text())
    marker["files"] = [file for file in marker["files"] if file["path"] != "rng_state.pth"]
    (path / "complete.json").write_text(json.dumps(marker))
    (path / "rng_state.pth").unlink()


def rename_to_a_huge_number(path):
    path.rename(path.with_name(f"checkpoint-{10**30}"))


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda path: (path / WEIGHTS).write_bytes(b"cont"), f"{WEIGHTS} does not have its size"),
        (change_a_byte, "optimizer.pt was changed or damaged"),
        (lambda path: (path / "optimizer.pt").unlink(), "optimizer.pt is missing"),
        (lambda path: (path / "scheduler.pt").unlink(), "scheduler.pt is missing"),
        (lambda path: (path / "rng_state.pth").unlink(), "rng_state.pth is missing"),
        (forget_in_marker, "rng_state.pth is missing"),
        (lambda path: (path / "complete.json").unlink(), "complete.json is missing"),
        (lambda path: (path / "complete.json").write_text('{"totals": {'), "cannot be read"),
        (lambda path: (path / "complete.json").write_text("[]"), "cannot be read"),
        (lambda path: (path / "complete.json").write_text('{"files": []}'), "be understood"),
        (lambda path: [shutil.rmtree(path), path.mkdir()], "complete.json is missing"),
    ],
)
def test_damaged_checkpoints_are_named_removed_and_an_older_one_is_used(
    spec, reports, damage, named
):
    make_checkpoint(spec, 50)
    path = make_checkpoint(spec, 100)
    damage(path)

    found = Keeper(spec, reports).find()

    assert found.path.name == "checkpoint-50"
    assert not path.exists()
    (message,) = messages(reports)
    assert message.startswith("checkpoint-100 ")
    assert named in message


def test_a_huge_number_in_a_name_is_no_progress(spec, reports):
    make_checkpoint(spec, 50)
    rename_to_a_huge_number(make_checkpoint(spec, 100))

    assert Keeper(spec, reports).find().path.name == "checkpoint-50"
    assert re.search(r"checkpoint-10{30} .* it is of step 100", *messages(reports))


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"lora_rank": 4}, "lora_rank is 4 there and 8 here"),
        ({"dataset_sha256": "0" * 64}, f"dataset_sha256 is {'0' * 64} there"),
        ({"learning_rate": 0.5, "seed": 8}, "learning_rate is 0.5 there and 0.01 here, seed is 8"),
        ({"method": "full"}, "method is full there and lora here"),
    ],
)
def test_checkpoints_of_another_run_are_named_and_left_alone(spec, reports, other, named):
    path = make_checkpoint(spec, 50, **other)

    assert Keeper(spec, reports).find() is None

    assert path.exists()
    (message,) = messages(reports)
    assert f"it belongs to another run: {named}" in message


def test_what_only_changes_how_often_things_are_said_is_no_other_run(tmp_path, reports):
    make_checkpoint(make_spec(tmp_path, num_train_steps=100, logging_steps=1), 50)

    later = make_spec(tmp_path, num_train_steps=300, logging_steps=7, checkpoint_every=9)

    assert Keeper(later, reports).find().totals.step == 50


def test_what_was_being_written_at_a_kill_is_removed(spec, reports, tmp_path):
    kept = make_checkpoint(spec, 50)
    cut_off = kept.with_name("checkpoint-100.partial")
    shutil.copytree(kept, cut_off)

    assert Keeper(spec, reports).find().path == kept
    assert not cut_off.exists()
    assert reports.all == []


def test_an_error_leaves_the_earlier_folder_and_no_other(tmp_path):
    path = tmp_path / "checkpoint-50"
    write_folder(path, fill, number=1)

    def break_off(folder):
        fill(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_folder(path, break_off, number=2)

    assert json.loads((path / "complete.json").read_text())["number"] == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint-50"]


def test_two_checkpoints_are_kept_and_the_best_weights_that_they_need(spec, reports, tmp_path):
    keeper = Keeper(spec, reports)
    for step, best in ((10, Best(10, 2.0)), (20, Best(20, 1.0)), (30, Best(20, 1.0, 1))):
        if best.step == step:
            assert keeper.write_best(lambda folder: (folder / "w").write_bytes(b"w"), step)
        keeper.write(fill, Totals(step=step), best, best.loss if best.step == step else 1.25)

    assert sorted(path.name for path in tmp_path.joinpath("checkpoints").iterdir()) == [
        "best-20",
        "checkpoint-20",
        "checkpoint-30",
    ]
    assert [(one["step"], one["eval_loss"], one["is_best"]) for one in reports.all] == [
        (10, 2.0, True),
        (20, 1.0, True),
        (30, 1.25, False),
    ]
    files = tmp_path.joinpath("checkpoints", "checkpoint-30").iterdir()
    size = sum(path.stat().st_size for path in files if path.name != "complete.json")
    assert reports.all[-1]["size_bytes"] == size


def test_a_lack_of_memory_is_no_lack_of_room(spec, reports):
    def take_too_much(folder):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    with pytest.raises(torch.OutOfMemoryError):
        Keeper(spec, reports).write(take_too_much, Totals(step=10), NONE_YET, None)

    assert reports.all == []


def test_a_folder_that_cannot_be_made_costs_its_checkpoints_only(tmp_path, reports):
    (tmp_path / "a-file").write_text("")
    spec = make_spec(tmp_path, checkpoint_dir=str(tmp_path / "a-file" / "checkpoints"))

    Keeper(spec, reports).write(fill, Totals(step=10), NONE_YET, None)

    (message,) = messages(reports)
    assert message.startswith("The checkpoint of step 10 could not be kept")
    assert message.endswith("it resumes from the start.")


def test_new_best_weights_replace_those_that_no_checkpoint_needs(spec, reports, tmp_path):
    keeper = Keeper(spec, reports)
    for step in (10, 20):
        assert keeper.write_best(lambda folder: (folder / "w").write_bytes(b"w"), step)

    assert [path.name for path in tmp_path.joinpath("checkpoints").iterdir()] == ["best-20"]


def test_another_jobs_checkpoint_brings_its_best_weights_along(spec, reports, tmp_path):
    keeper = Keeper(spec, reports)
    keeper.write_best(lambda folder: (folder / "w").write_bytes(b"best"), 20)
    keeper.write(fill, Totals(step=30), Best(20, 1.0, 1), None)
    later = make_spec(tmp_path / "later", num_train_steps=200, resume_from=spec.checkpoint_dir)

    found = Keeper(later, reports).find()

    own = tmp_path / "later" / "checkpoints" / "best-20"
    assert found.path == tmp_path / "checkpoints" / "checkpoint-30"
    assert (own / "w").read_bytes() == b"best"
    check_digests(own)


def test_a_checkpoint_whose_best_weights_are_gone_is_damaged(spec, reports, tmp_path):
    make_checkpoint(spec, 50, best=Best(50, 1.0))

    assert Keeper(spec, reports).find() is None
    assert "complete.json is missing" in messages(reports)[0]


def test_a_folder_that_is_not_there_holds_no_checkpoint(tmp_path, reports):
    with pytest.raises(Damaged):
        read_checkpoint(tmp_path / "checkpoint-1")
    assert Keeper(make_spec(tmp_path, num_train_steps=5), reports).find() is None
