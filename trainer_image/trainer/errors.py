"""The three ways in which a job can end early, as exceptions."""

from __future__ import annotations

import errno
import os

OUT_OF_MEMORY_SIGNS = (
    "can't allocate memory",
    "out of memory",
    "failed to allocate",
    "alloc_failed",  # cuBLAS and cuDNN
    "bad_alloc",
)
# No room, a used-up quota, or a limit on the size of files.
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class SpecRefused(Exception):
    """The spec is not signed, not current or not understood. Nothing was loaded or reported."""


class Stopped(Exception):
    """Somebody asked for the end, or the machine is going away."""


class JobFailed(Exception):
    """The job cannot end well. `reason` is a word of the contract, the message one sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def as_job_failure(error: Exception) -> JobFailed:
    """The reason and sentence for any error that ended a job."""
    if isinstance(error, JobFailed):
        return error
    if is_out_of_memory(error):
        return JobFailed(
            "out_of_memory",
            "The machine ran out of memory: use a smaller batch_size or max_length, "
            f"or more memory. ({first_line(error)})",
        )
    if is_disk_full(error):
        return JobFailed(
            "trainer_error",
            f"The disk is full ({first_line(error)}): free some space on it and retry; "
            "with `resume` it goes on from the last checkpoint.",
        )
    return JobFailed("trainer_error", f"{type(error).__name__}: {first_line(error)}")


def is_out_of_memory(error: Exception) -> bool:
    """The machine or the GPU had no more memory to give."""
    # torch.OutOfMemoryError is a RuntimeError too, so torch need not be imported to see it.
    text = str(error).lower()
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(sign in text for sign in OUT_OF_MEMORY_SIGNS)
    )


def is_disk_full(error: Exception) -> bool:
    """The disk takes no more. Safetensors has an error of its own, with the system's words."""
    if isinstance(error, OSError):
        return error.errno in DISK_FULL
    return any(os.strerror(number) in str(error) for number in DISK_FULL)


def first_line(error: Exception) -> str:
    """What an error says, short enough for a sentence."""
    return (str(error).strip() or "no message").splitlines()[0][:300]
