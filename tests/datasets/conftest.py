"""A datasets directory of its own for each test."""

import pytest

from tests.datasets.uploads import CASES


@pytest.fixture(autouse=True)
def dataset_folders(settings, tmp_path):
    settings.DATA_DIR = tmp_path
    settings.DATASETS_DIR = tmp_path / "datasets_training"
    settings.DATASET_VERSIONS_DIR = tmp_path / "dataset_versions"
    settings.TEMP_DIR = tmp_path / "tmp"
    return tmp_path


@pytest.fixture
def stored_files(dataset_folders):
    """All files that exist now, but for the lock."""

    def find():
        return sorted(
            str(path.relative_to(dataset_folders))
            for path in dataset_folders.rglob("*")
            if path.is_file() and path.name != ".lock"
        )

    return find


@pytest.fixture
def case():
    """The bytes of a case file."""
    return lambda name: (CASES / name).read_bytes()
