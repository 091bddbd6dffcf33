"""What a trainer on this machine finds in its environment."""

from __future__ import annotations

import os
import re
from pathlib import Path

TRAINER_PATH = Path(__file__).resolve().parents[2] / "trainer_image"

# What a trainer may see of our environment: nothing that opens a database or an account of ours.
PASSED_ON = re.compile(
    r"(PATH|HOME|USER|LANG|LC_.*|TZ|TMPDIR|VIRTUAL_ENV|LD_LIBRARY_PATH|DYLD_.*|XDG_CACHE_HOME"
    r"|PIP_.*|SSL_CERT_.*|REQUESTS_CA_BUNDLE|(?i:https?|no|all)_(?i:proxy)"
    r"|CUDA_.*|NVIDIA_.*|HIP_.*|ROCR_.*|NCCL_.*|TORCH.*|PYTORCH_.*|TRITON_.*|HF_.*"
    r"|OMP_.*|MKL_.*|OPENBLAS_.*|KMP_.*)"
)


def trainer_environment(models_dir: Path) -> dict[str, str]:
    """The environment of a trainer, without the key of its spec."""
    passed_on = {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}
    return passed_on | {
        "PYTHONPATH": str(TRAINER_PATH),
        "PYTHONUNBUFFERED": "1",
        "GLIGABAO_MODELS_DIR": str(models_dir),
    }
