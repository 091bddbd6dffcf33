"""Loaded by every Python process that has this folder on its path: a wall clock that can jump.

It follows the seconds in the file that GLIGABAO_TEST_CLOCK names, as long as the process lives.
Only the wall clock jumps; the monotonic one goes on, as on a machine whose clock was set.
"""

import datetime
import os
import threading
import time
from pathlib import Path

CHECK_SECONDS = 0.2


def follow(path: Path) -> None:
    import time_machine

    travel, offset = None, 0
    while True:
        wanted = int(path.read_text())
        if wanted != offset:
            if travel is not None:
                travel.stop()
            travel, offset = None, wanted
            if offset:
                now = datetime.datetime.now(datetime.UTC)
                travel = time_machine.travel(now + datetime.timedelta(seconds=offset), tick=True)
                travel.start()
        time.sleep(CHECK_SECONDS)


if "GLIGABAO_TEST_CLOCK" in os.environ:
    clock = Path(os.environ["GLIGABAO_TEST_CLOCK"])
    threading.Thread(target=follow, args=(clock,), daemon=True).start()
