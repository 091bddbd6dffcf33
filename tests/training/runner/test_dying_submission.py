import json
import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]


def test_a_worker_that_dies_at_any_statement_of_the_submission_leaves_one_trainer(tmp_path):
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | {
        "GLIGABAO_DATA_DIR": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "gligabao.settings",
        "PYTHONPATH": str(PROJECT),
        "GLIGABAO_LOG_LEVEL": "ERROR",
    }

    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("dying_submission.py"))],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-4000:]
    rounds = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rounds) > 25  # it did stop at many places
    assert [line for line in rounds if line["starts"] != 1 or line["finals"] != 1] == []
