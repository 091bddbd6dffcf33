"""Which `datasets` the trainer sees."""

import sys
from pathlib import Path

import datasets


def test_the_library_datasets_is_used_and_not_the_control_planes_app():
    root = Path(__file__).resolve().parents[2]

    assert hasattr(datasets, "Dataset")
    assert str(root) not in sys.path
    assert "" not in sys.path
