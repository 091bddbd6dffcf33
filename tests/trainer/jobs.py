"""Real trainers as subprocesses: their specs, their folders, what they report."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import subprocess
import sys
from pathlib import Path

TRAINER_IMAGE = Path(__file__).resolve().parents[2] / "trainer_image"
CASES = Path(__file__).resolve().parents[1] / "cases"
SPEC_KEY = "the-key-of-the-test-installation"
JOB_TOKEN = "the-token-of-this-job-0123456789"
TINY_TARGETS = r".*\.language_model\.layers\.\d+\.(?:self_attn|mlp)\.(?:q|k|v|o|gate|up|down)_proj"
JOB_SECONDS = 120  # commonly a tiny job takes 7


def trainer_environment(models_dir: Path, **more: str) -> dict[str, str]:
    passed_on = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return (
        passed_on
        | {
            "PYTHONPATH": str(TRAINER_IMAGE),
            "GLIGABAO_MODELS_DIR": str(models_dir),
            "GLIGABAO_SPEC_KEY": SPEC_KEY,
            "OMP_NUM_THREADS": "1",
        }
        | more
    )


def chat_rows(*pairs: tuple[str, str]) -> str:
    """A chat dataset of questions and answers, as JSON lines."""
    rows = [
        {"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a}]}
        for q, a in pairs
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def sign(text: str, key: str = SPEC_KEY) -> str:
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


class Job:
    """One job folder; the trainer runs in it as often as `start` is called."""

    def __init__(self, folder: Path, models_dir: Path, dataset: Path, **changed) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.models_dir = models_dir
        self.spec = {
            "contract": 1,
            "job_id": folder.name,
            "nonce": "9d0c6f6f0f3f4d1f8a52c1f0b7a3e6d4",
            "installation_id": "test",
            "model": "gligabao/tiny-gemma-4",
            "revision": "1",
            "model_id": "tiny",
            "model_source": "built",
            "method": "lora",
            "lora_target_pattern": TINY_TARGETS,
            "dataset_path": str(dataset),
            "dataset_url": None,
            "dataset_sha256": hashlib.sha256(dataset.read_bytes()).hexdigest(),
            "dataset_format": "chat",
            "num_train_steps": 5,
            "seed": 7,
            "max_seconds": 600,
            "checkpoint_dir": str(folder / "checkpoints"),
            "resume_from": None,
            "callback_url": None,
            "job_token": JOB_TOKEN,
            "uploads": None,
            "expires_at": "2099-01-01T00:00:00Z",
            "hyperparams": {
                "learning_rate": 0.01,
                "lora_rank": 8,
                "lora_alpha": 16,
                "batch_size": 4,
                "max_length": 256,
                "checkpoint_every": 50,
                "logging_steps": 1,
            }
            | changed.pop("hyperparams", {}),
        } | changed

    def start(self, *options: str, signed_with: str = SPEC_KEY, **environment) -> subprocess.Popen:
        text = json.dumps(self.spec)
        envelope = {"spec": text, "signature": sign(text, signed_with)}
        (self.folder / "spec.json").write_text(json.dumps(envelope))
        with (self.folder / "trainer.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-P", *options, "-m", "trainer", "--spec", "spec.json"],
                cwd=self.folder,
                env=trainer_environment(self.models_dir, **environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def run(self, *options: str, **how) -> int:
        """Run the trainer to its end and return its exit code."""
        with self.start(*options, **how) as process:
            try:
                return process.wait(JOB_SECONDS)
            finally:
                process.kill()

    @property
    def log(self) -> str:
        return (self.folder / "trainer.log").read_text()

    @property
    def events(self) -> list[dict]:
        path = self.folder / "events.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def of_type(self, kind: str) -> list[dict]:
        return [event for event in self.events if event["type"] == kind]

    @property
    def statuses(self) -> list[str]:
        return [event["status"] for event in self.of_type("status")]

    def losses(self) -> dict[int, float]:
        return {event["step"]: event["loss"] for event in self.of_type("progress")}
