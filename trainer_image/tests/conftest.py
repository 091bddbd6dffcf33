"""The trainer as a library: all of its modules, and the models that its tests train."""

import resource
from contextlib import contextmanager
from pathlib import Path

import pytest

from trainer.device import prepare_environment

prepare_environment(offline=True)  # before anything imports torch

from trainer.base_models import KNOWN, ensure  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Threads of tiny models only wait for each other."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def models_dir(tmp_path_factory) -> Path:
    """A model cache with `tiny` in it."""
    folder = tmp_path_factory.mktemp("models")
    ensure(KNOWN["tiny"], folder, say=lambda text: None)
    return folder


@pytest.fixture(scope="session")
def tiny_dir(models_dir) -> Path:
    return ensure(KNOWN["tiny"], models_dir)


@pytest.fixture(scope="session")
def family_dir(models_dir):
    """Gives the checkpoint of a family, by its name; built when a test first asks for it."""
    from families import FAMILIES, write_family

    return lambda name: write_family(FAMILIES[name], models_dir)


@pytest.fixture(scope="session")
def tiny_tokenizer(tiny_dir):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_dir)


class Disk:
    """Lets no file grow beyond so many bytes, as a full disk does, until it is freed.

    The test must free it before it ends: what pytest prints may go to a file too.
    """

    def __init__(self):
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self, size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, self._limits[1]))

    def free(self):
        resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)

    @contextmanager
    def full(self, size):
        self.fill(size)
        try:
            yield
        finally:
            self.free()


@pytest.fixture
def disk():
    return Disk()
