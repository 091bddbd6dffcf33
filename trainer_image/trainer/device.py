"""Picks the device, the number type and the number of threads, and says why."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from .errors import JobFailed

if TYPE_CHECKING:
    import torch

MAX_ONE_THREAD_PARAMETERS = 20_000_000  # below, threads wait for each other more than they work


@dataclass(frozen=True)
class Device:
    """Where to compute. `why` explains the number type."""

    name: str  # cpu or cuda
    dtype: torch.dtype
    why: str

    @property
    def dtype_name(self) -> str:
        return str(self.dtype).removeprefix("torch.")


def prepare_environment(*, offline: bool) -> None:
    """Settings that libraries read while they are imported; call it before importing torch."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TQDM_DISABLE", "1")  # bars draw over themselves; a log cannot
    # OpenMP threads wait by spinning. On a machine that does other work too they starve each
    # other: seen was a step of 7.8 s instead of 0.7. Short spins cost 8 % on a quiet machine.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    # What these libraries will rename some day is no news for the reader of a job's log.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"(transformers|trl|peft)\b")
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"  # the files are here: no look-up, no waiting


def pick_device() -> Device:
    """The best device of this machine."""
    import torch  # heavy

    if torch.cuda.is_available():
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return Device("cuda", torch.bfloat16, "the GPU computes in bfloat16")
        return Device("cuda", torch.float32, "the GPU has no bfloat16")
    if torch.cpu.get_capabilities().get("avx512_bf16", False):
        return Device("cpu", torch.bfloat16, "the CPU has avx512_bf16")
    return Device("cpu", torch.float32, "the CPU has no avx512_bf16")


def check_method(method: str, device: Device) -> None:
    """Raise JobFailed if this machine cannot do it; called before a model is fetched.

    bitsandbytes (0.50.2) computes on a CPU too. But once a model was in evaluation mode there, its
    four-bit layers pass no gradient on, and training goes on with a wrong one.
    """
    if method != "qlora":
        return
    if device.name != "cuda":
        raise JobFailed(
            "trainer_error",
            "qlora needs a CUDA GPU, and this machine has none: its four-bit weights save the "
            "memory of a GPU. Use the method lora here, or hardware with a GPU.",
        )
    if find_spec("bitsandbytes") is None:
        raise JobFailed(
            "trainer_error",
            "qlora needs the package bitsandbytes, which is not installed: "
            "install trainer_image/requirements-gpu.txt.",
        )


def set_num_threads(num_parameters: int) -> int:
    """Choose the CPU threads for a model of this size and return their number."""
    import torch  # heavy

    if "OMP_NUM_THREADS" not in os.environ:
        is_tiny = num_parameters < MAX_ONE_THREAD_PARAMETERS
        torch.set_num_threads(1 if is_tiny else usable_cores())
    return torch.get_num_threads()


def usable_cores() -> int:
    """Physical cores that this process may run on; two threads of one core count once."""
    cpus = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    cores = {_siblings(cpu) for cpu in cpus}
    return max(1, len(cores) or (os.cpu_count() or 1))


def _siblings(cpu: int) -> str:
    path = f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return str(cpu)  # unknown: every CPU is its own core
