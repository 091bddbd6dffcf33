from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

from tests.training.providers.local_runs import make_provider, make_spec
from tests.waiting import eventually
from training.providers.base import Phase, ProviderBusy

PROJECT = Path(__file__).resolve().parents[3]
DYING_WORKER = Path(__file__).with_name("dying_worker.py")


def test_worker_that_dies_at_any_statement_of_the_submission_leaves_one_trainer(tmp_path):
    # Few variables: a submission copies them one by one, and each copy is a statement.
    names = ("PATH", "HOME", "GLIGABAO_DATA_DIR", "DJANGO_SETTINGS_MODULE")
    environment = {name: os.environ[name] for name in names if name in os.environ}
    environment["PYTHONPATH"] = os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")])
    answer = subprocess.run(
        [sys.executable, str(DYING_WORKER), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert answer.returncode == 0, answer.stderr
    rounds = [json.loads(line) for line in answer.stdout.splitlines()]
    statements = sorted(line["statement"] for line in rounds)
    assert statements == list(range(1, len(rounds) + 1))
    assert len(statements) > 100  # it did stop at many places
    assert [line for line in rounds if line["starts"] != 1] == []


def test_many_workers_that_submit_at_once_get_one_run(tmp_path):
    provider = make_provider(tmp_path, "--steps", "3", num_slots=8)
    answers = []

    def work():
        try:
            answers.append(provider.submit(make_spec()))
        except ProviderBusy:
            answers.append(None)

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    run_id = provider.find("job1")
    assert set(answers) <= {run_id, None}
    assert run_id in answers
    assert eventually(lambda: provider.poll(run_id).phase is Phase.ENDED)
    starts = (provider.jobs_dir / "job1" / "starts.txt").read_text().splitlines()
    assert len(starts) == 1
