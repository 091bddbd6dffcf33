"""The three ways in which a job can end early, as exceptions."""

from __future__ import annotations

OUT_OF_MEMORY_SIGNS = ("can't allocate memory", "out of memory", "failed to allocate")


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
    first_line = (str(error).strip() or "no message").splitlines()[0][:300]
    # torch.OutOfMemoryError is a RuntimeError too, so torch need not be imported to see it.
    is_torch_error = isinstance(error, RuntimeError)
    if isinstance(error, MemoryError) or (
        is_torch_error and any(sign in str(error).lower() for sign in OUT_OF_MEMORY_SIGNS)
    ):
        return JobFailed(
            "out_of_memory",
            "The machine ran out of memory: use a smaller batch_size or max_length, "
            f"or more memory. ({first_line})",
        )
    return JobFailed("trainer_error", f"{type(error).__name__}: {first_line}")
