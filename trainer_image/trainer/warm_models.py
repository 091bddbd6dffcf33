"""Base models in memory with the adapters put on them: the most recent stay loaded."""

from __future__ import annotations

import gc
import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from .adapters import WEIGHTS, AdapterInvalid, check_adapter
from .base_models import BaseModel, ensure
from .device import Device, set_num_threads

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

MAX_BASE_MODELS = 2
MAX_ADAPTERS = 4  # with each base model
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
DEFAULT_CONTEXT = 2048  # tokens, for a model whose configuration names no limit


@dataclass
class LoadedModel:
    """A base model, its tokenizer, and its adapters by name, the most recent last.

    An adapter has its own tokenizer, or None where it came without one.
    """

    plain: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    peft: PeftModel | None = None
    adapters: OrderedDict[str, PreTrainedTokenizerBase | None] = field(default_factory=OrderedDict)

    @property
    def context_length(self) -> int:
        """The most tokens of prompt and answer together."""
        config = self.plain.config.get_text_config()
        return getattr(config, "max_position_embeddings", DEFAULT_CONTEXT)

    @contextmanager
    def weights(self, adapter: str | None) -> Iterator[PreTrainedModel | PeftModel]:
        """The model with this adapter, or with the base model's own weights."""
        if self.peft is None:
            yield self.plain
        elif adapter is None:
            with self.peft.disable_adapter():
                yield self.peft
        else:
            self.peft.set_adapter(adapter)
            yield self.peft


class WarmModels:
    """Loads base models and adapters on demand and drops those not used for longest."""

    def __init__(self, models_dir: Path, device: Device) -> None:
        self._models_dir = models_dir
        self._device = device
        self._models: OrderedDict[BaseModel, LoadedModel] = OrderedDict()

    def base_model(self, base: BaseModel) -> LoadedModel:
        """The base model, loaded now if it is not here. Raises JobFailed: model_unavailable."""
        if base not in self._models:
            path = ensure(base, self._models_dir)
            while len(self._models) >= MAX_BASE_MODELS:
                self._models.popitem(last=False)
                gc.collect()
            model = AutoModelForCausalLM.from_pretrained(path, dtype=self._device.dtype)
            model.to(self._device.name).eval()
            set_num_threads(model.num_parameters())
            self._models[base] = LoadedModel(model, AutoTokenizer.from_pretrained(path))
        self._models.move_to_end(base)
        return self._models[base]

    def adapter(self, base: BaseModel, directory: Path) -> str:
        """The name of the adapter on its base model, put there now if it is not.

        Raises AdapterInvalid if it does not fit.
        """
        loaded = self.base_model(base)
        name = _adapter_name(directory)
        if name not in loaded.adapters:
            check_adapter(directory, loaded.plain)
            try:
                _put_on(loaded, directory, name)
            except Exception as error:
                del self._models[base]  # perhaps half changed: it is loaded afresh
                raise AdapterInvalid(
                    f"The adapter could not be loaded ({type(error).__name__})."
                ) from error
        loaded.adapters.move_to_end(name)
        return name


def _adapter_name(directory: Path) -> str:
    """A name that changes with the folder and its weights, as PEFT allows it: no dots."""
    try:
        weights = (directory / WEIGHTS).stat()
    except OSError as error:
        raise AdapterInvalid(f"{WEIGHTS} is missing.") from error
    identity = f"{directory.resolve()}\0{weights.st_mtime_ns}\0{weights.st_size}"
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def _put_on(loaded: LoadedModel, directory: Path, name: str) -> None:
    has_tokenizer = all((directory / file).is_file() for file in TOKENIZER_FILES)
    tokenizer = AutoTokenizer.from_pretrained(directory) if has_tokenizer else None
    if loaded.peft is None:
        loaded.peft = PeftModel.from_pretrained(loaded.plain, directory, adapter_name=name)
        loaded.peft.eval()
    else:
        while len(loaded.adapters) >= MAX_ADAPTERS:
            oldest, _ = loaded.adapters.popitem(last=False)
            loaded.peft.delete_adapter(oldest)
        loaded.peft.load_adapter(directory, adapter_name=name)
    loaded.adapters[name] = tokenizer
