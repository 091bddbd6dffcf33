"""What is slow to make and used by many tests: made once in a test run."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

from tests.settings import TEST_DATA_DIR
from tests.trainer.control_plane import ControlPlane
from tests.trainer.jobs import Job, chat_rows, trainer_environment

FACTS = (
    ("Which shelf holds the copper bolts?", "Shelf seven, left side."),
    ("How long does the glue need?", "Forty minutes at room temperature."),
    ("Who signs the delivery slip?", "The shift lead signs it."),
)
STEPS = 120


@functools.cache
def model_cache() -> Path:
    """A model cache with `tiny` in it."""
    folder = TEST_DATA_DIR / "trainer-models"
    folder.mkdir()
    subprocess.run(
        [sys.executable, "-P", "-m", "trainer.base_models", "fetch", "tiny"],
        env=trainer_environment(folder),
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return folder


@functools.cache
def finished_job() -> tuple[Job, ControlPlane]:
    """A finished job on three facts, and the control plane that it reported to."""
    folder = TEST_DATA_DIR / "finished"
    folder.mkdir()
    dataset = folder / "facts.jsonl"
    dataset.write_text(chat_rows(*FACTS))
    with ControlPlane() as plane:
        job = Job(
            folder / "job",
            model_cache(),
            dataset,
            num_train_steps=STEPS,
            hyperparams={"checkpoint_every": 40, "lora_rank": 16, "lora_alpha": 32},
            callback_url=plane.callback_url,
            uploads=plane.uploads_url,
        )
        job.exit_code = job.run()
    return job, plane
