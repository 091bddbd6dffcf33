"""The list of traps in README.md names tests that are there."""

import re
from pathlib import Path

HERE = Path(__file__).parent
FILE = re.compile(r"`(test_\w+\.py)`((?:[:,] `[a-z0-9_]+`)*)")


def test_every_trap_names_a_file_of_tests_and_tests_in_it():
    readme = (HERE.parent / "README.md").read_text(encoding="utf-8")
    rows = [line for line in readme.splitlines() if "`test_" in line and line.startswith("| ")]

    assert len(rows) > 15
    for row in rows:
        named = FILE.findall(row)
        assert named, row
        for file, tests in named:
            code = (HERE / file).read_text(encoding="utf-8")
            for name in re.findall(r"`(\w+)`", tests):
                assert re.search(rf"def test_\w*{name}", code), f"{file} has no test {name}"
