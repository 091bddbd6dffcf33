"""The guards that a fault run takes away are still where it looks for them."""

import pytest

from tests.faults.guards import GUARDS
from tests.faults.installation import ROOT


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.promise)
def test_guard_is_there_once_and_its_tests_exist(guard):
    assert (ROOT / guard.file).read_text().count(guard.text) == 1
    assert all((ROOT / path).is_file() for path in guard.tests)
