"""Children of the supervisor: started, started again, ended."""

import os
import signal
import sys
import threading

import pytest

from gligabao.supervisor import LONGEST_PAUSE, Child, Supervisor
from tests.waiting import eventually

SLEEPER = (sys.executable, "-c", "import signal; signal.pause()")
STUBBORN = (
    sys.executable,
    "-c",
    "import pathlib, signal, sys\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "pathlib.Path(sys.argv[1]).touch()\n"
    "while True: signal.pause()",
)


class Session:
    """Runs a supervisor here while a second thread plays the user."""

    def __init__(self, run_dir, *children):
        self.said = []
        self.run_dir = run_dir
        self.supervisor = Supervisor(
            children, environment=os.environ, run_dir=run_dir, say=self.said.append
        )
        self.errors = []

    def play(self, user):
        """Run until the user's steps are done, then stop as Ctrl-C does."""

        def steps():
            try:
                user()
            except BaseException as error:
                self.errors.append(error)
            finally:
                os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=steps)
        thread.start()
        self.supervisor.run(on_stop=lambda: self.said.append("stopping"))
        thread.join()
        if self.errors:
            raise self.errors[0]

    def pid(self, name):
        file = self.run_dir / f"{name}.pid"
        return int(file.read_text()) if file.exists() else 0


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_killed_child_is_started_again_and_said_so(tmp_path):
    session = Session(tmp_path, Child("a", SLEEPER), Child("b", SLEEPER))
    pids = {}

    def user():
        pids["a"] = eventually(lambda: session.pid("a"))
        pids["b"] = eventually(lambda: session.pid("b"))
        os.kill(pids["a"], signal.SIGKILL)
        pids["new"] = eventually(
            lambda: session.pid("a") not in (0, pids["a"]) and session.pid("a")
        )

    session.play(user)

    assert "a ended (killed by SIGKILL); starting it again." in session.said
    assert all(is_gone(pid) for pid in pids.values())
    assert not list(tmp_path.iterdir())


def test_child_that_dies_at_once_is_started_less_and_less_often(tmp_path):
    child = Child("a", (sys.executable, "-c", "raise SystemExit(3)"))
    session = Session(tmp_path, child)

    session.play(lambda: eventually(lambda: child.pause >= 4))

    pauses = [text for text in session.said if "exit code 3" in text]
    assert pauses[0] == "a ended (exit code 3); starting it again."
    assert pauses[2] == "a ended (exit code 3); starting it again in 1 s."
    assert pauses[3] == "a ended (exit code 3); starting it again in 2 s."
    assert child.pause <= LONGEST_PAUSE


def test_stop_is_told_while_the_children_end(tmp_path):
    session = Session(tmp_path, Child("a", SLEEPER))

    session.play(lambda: eventually(lambda: session.pid("a")))

    assert session.said == ["stopping"]


def test_child_that_ignores_the_end_is_killed(tmp_path):
    ready = tmp_path / "ready"
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    session = Session(run_dir, Child("a", (*STUBBORN, str(ready))))
    pids = []

    def user():
        eventually(ready.exists)
        pids.append(session.pid("a"))

    session.play(user)

    assert is_gone(pids[0])


def test_children_end_when_one_cannot_be_started(tmp_path):
    first = Child("a", SLEEPER)
    session = Session(tmp_path, first, Child("b", ("/no/such/program",)))

    with pytest.raises(FileNotFoundError):
        session.supervisor.run(on_stop=lambda: None)

    assert is_gone(first.process.pid)
    assert not (tmp_path / "a.pid").exists()


def test_later_start_that_fails_is_tried_again_beside_the_others(tmp_path):
    program = tmp_path / "program"
    program.symlink_to(sys.executable)
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    mender = Child("a", (str(program), *SLEEPER[1:]))
    session = Session(run_dir, mender, Child("b", SLEEPER))
    pids = {}

    def user():
        pids["a"] = eventually(lambda: session.pid("a"))
        pids["b"] = eventually(lambda: session.pid("b"))
        program.unlink()
        os.kill(pids["a"], signal.SIGKILL)
        eventually(lambda: any("a was not started" in text for text in session.said))
        pids["b later"] = session.pid("b")
        program.symlink_to(sys.executable)
        pids["new"] = eventually(
            lambda: session.pid("a") not in (0, pids["a"]) and session.pid("a")
        )

    session.play(user)

    assert pids["b later"] == pids["b"]
    assert is_gone(pids["new"])


def test_signal_handlers_are_restored(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    session = Session(tmp_path, Child("a", SLEEPER))

    session.play(lambda: eventually(lambda: session.pid("a")))

    assert signal.getsignal(signal.SIGTERM) is before
