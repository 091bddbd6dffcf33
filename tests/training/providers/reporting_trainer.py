"""A trainer that trains nothing: it reads its spec, reports, and ends in the way it is told."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--spec", type=Path, required=True)
    parser.add_argument("--job-dir", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--until-stopped", action="store_true")
    parser.add_argument("--ignore-stop", action="store_true")
    parser.add_argument("--exit", type=int, default=0)
    parser.add_argument("--print", default="")
    options = parser.parse_args()
    if options.ignore_stop:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    spec = json.loads(json.loads(options.spec.read_text())["spec"])
    folder = options.job_dir
    with (folder / "starts.txt").open("a") as file:
        file.write(f"{os.getpid()}\n")
    print(options.print.replace("{job_token}", spec["job_token"]), flush=True)

    seq = 0

    def report(type_: str, **data: object) -> None:
        nonlocal seq
        line = {"boot": "b1", "seq": seq, "type": type_, **data}
        with (folder / "events.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        seq += 1

    report("status", status="running")
    step = 0
    give_up_at = time.monotonic() + 120  # a test that broke off leaves nothing behind for long
    while options.until_stopped or step < options.steps:
        if time.monotonic() > give_up_at:
            return 9
        if (folder / "stop").exists() and not options.ignore_stop:
            report("status", status="cancelled", error="stopped")
            return 0
        step += 1
        if step <= options.steps:
            report("progress", step=step, loss=1 / step)
        time.sleep(0.01)
    (folder / "output").mkdir()
    (folder / "output" / "adapter_model.safetensors").write_bytes(b"weights")
    report("status", status="completed", final_loss=0.5)
    return options.exit


if __name__ == "__main__":
    sys.exit(main())
