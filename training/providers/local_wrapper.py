"""Stands between a worker and a local trainer: claims the job, starts the trainer, keeps its end.

A script of its own on the standard library alone, started as `python -I local_wrapper.py RUN_ID
SLOT_FD COMMAND...` in the job's folder. It detaches itself, so that it outlives every worker; what
it knows lies in files, so that any worker can read it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

CLAIM_FILE = "run.json"  # who holds the job's nonce: written once, by the first wrapper
TRAINER_FILE = "trainer.json"  # the trainer's process
EXIT_FILE = "exit.json"  # how the trainer ended

NOT_STARTED = 127  # what a shell answers for a command that it cannot run
SIGNAL_BASE = 128  # what a shell adds to the number of a signal
PR_SET_PDEATHSIG = 1  # linux/prctl.h
CGROUP_ROOT = Path("/sys/fs/cgroup")


# --- Processes, by number and start time: a number alone is used again ---------------------------


def identify(pid: int) -> dict[str, Any] | None:
    """What tells this process from a later one of the same number; None if it does not live.

    A zombie does not live: it has ended and waits only for its parent to notice.
    """
    started = _start_on_linux(pid) if sys.platform == "linux" else _start_elsewhere(pid)
    return {"pid": pid, "pid_started": started} if started else None


def is_living(process: dict[str, Any] | None) -> bool:
    """True while the very process that `identify` described lives."""
    return process is not None and identify(process["pid"]) == {
        "pid": process["pid"],
        "pid_started": process["pid_started"],
    }


def _start_on_linux(pid: int) -> str | None:
    """Boot and clock ticks since that boot, so that no process of an earlier boot matches."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name is in brackets and may hold anything; the fields follow the last one.
    fields = stat.rpartition(")")[2].split()
    if fields[0] in "ZXx":
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}:{fields[19]}"  # field 22 of the line


def _start_elsewhere(pid: int) -> str | None:
    answer = subprocess.run(
        ["ps", "-o", "state=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    state, _, started = answer.stdout.strip().partition(" ")
    return started.strip() if state and not state.startswith("Z") else None


# --- Files that are complete at once ---------------------------------------------------------


def write_once(path: Path, content: dict[str, Any]) -> bool:
    """Create the file with this content; False if it was there already."""
    draft = _draft(path, content)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def _draft(path: Path, content: dict[str, Any]) -> Path:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    return draft


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


# --- Evidence of memory ----------------------------------------------------------------------


def count_memory_kills(root: Path = CGROUP_ROOT, own: Path = Path("/proc/self/cgroup")) -> int:
    """How often the system has ended processes of our control groups for want of memory."""
    total = 0
    for file in _memory_files(root, own):
        with contextlib.suppress(OSError):  # not every group can be read from inside a container
            found = re.search(r"^oom_kill (\d+)$", file.read_text(encoding="ascii"), re.MULTILINE)
            total += int(found[1]) if found else 0
    return total


def _memory_files(root: Path, own: Path) -> list[Path]:
    """The counters of our group and of those above it, for both versions of control groups."""
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    files = []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if not controllers:
            tops, name = (root, root / "unified"), "memory.events"
        elif "memory" in controllers.split(","):
            tops, name = (root / "memory",), "memory.oom_control"
        else:
            continue
        path = Path(group.lstrip("/"))
        files += [top / level / name for top in tops for level in (path, *path.parents)]
    return files


# --- The run ---------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    run_id, slot, *command = arguments
    settled_read, settled_write = os.pipe()
    if os.fork():
        os.close(settled_write)
        # The worker waits for this: afterwards it is certain which run holds the job.
        return 0 if os.read(settled_read, 1) else 1
    os.close(settled_read)
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    folder = Path.cwd()
    is_ours = claim(folder, run_id)
    os.write(settled_write, b"1")
    os.close(settled_write)
    if is_ours:
        run_trainer(folder, command, slot=int(slot))
    return 0


def claim(folder: Path, run_id: str) -> bool:
    """Put our run under the job's nonce; False if another run holds it."""
    myself = identify(os.getpid())
    return write_once(folder / CLAIM_FILE, {"run_id": run_id, **myself, "started_at": _now()})


def run_trainer(folder: Path, command: list[str], *, slot: int) -> None:
    """Run the trainer to its end and keep its exit code."""
    kills_before = count_memory_kills()
    stop_wishes: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stop_wishes.append(number))
    try:
        trainer = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            pass_fds=[slot],  # the slot is taken for as long as one of us lives
            process_group=0,
            preexec_fn=_end_with_parent(os.getpid()),
        )
    except OSError as error:
        print(f"The trainer cannot be started: {error}", file=sys.stderr, flush=True)
        keep_exit(folder, NOT_STARTED, was_out_of_memory=False)
        return
    # Not by Popen's methods: they may reap the trainer behind the back of `wait_for`.
    signal.signal(signal.SIGTERM, lambda number, frame: os.kill(trainer.pid, number))
    for number in stop_wishes:
        os.kill(trainer.pid, number)
    if process := identify(trainer.pid):  # else it has ended already
        write_once(folder / TRAINER_FILE, process)
    exit_code = wait_for(trainer)
    was_killed = exit_code == SIGNAL_BASE + signal.SIGKILL
    keep_exit(
        folder,
        exit_code,
        was_out_of_memory=was_killed and count_memory_kills() > kills_before,
    )


def _end_with_parent(parent: int) -> Callable[[], None]:
    """What the child does before it becomes the trainer: bind its life to the wrapper's."""
    if sys.platform != "linux":
        return lambda: None
    import ctypes  # slow to load, and of use on Linux only

    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def bind() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the wrapper died before the call
            os.kill(os.getpid(), signal.SIGKILL)

    return bind


def wait_for(trainer: subprocess.Popen) -> int:
    """Wait for the end of the trainer, end what it left behind, return its exit code."""
    if hasattr(os, "waitid"):  # not on macOS before Python 3.13
        os.waitid(os.P_PID, trainer.pid, os.WEXITED | os.WNOWAIT)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # there is nobody to pass it to any more
        # Not reaped yet, its number cannot be given to another group that we would then end.
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: only a zombie left
            os.killpg(trainer.pid, signal.SIGKILL)
    code = trainer.wait()
    return SIGNAL_BASE - code if code < 0 else code


def keep_exit(folder: Path, exit_code: int, *, was_out_of_memory: bool) -> None:
    write_once(
        folder / EXIT_FILE,
        {"exit_code": exit_code, "ended_at": _now(), "was_out_of_memory": was_out_of_memory},
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
