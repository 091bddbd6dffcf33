"""Models in memory, base models with the adapters put on them: the most recent stay loaded."""

from __future__ import annotations

import gc
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from peft import PeftModel
from transformers import AutoTokenizer

from .adapters import WEIGHTS, AdapterInvalid, check_adapter
from .base_models import BaseModel, ensure
from .device import Device, set_num_threads
from .full_models import load_full_model, weight_files
from .loading import load_model

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

MAX_MODELS = 2  # base models and fully tuned ones
MAX_ADAPTERS = 4  # with each base model
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
DEFAULT_CONTEXT = 2048  # tokens, for a model whose configuration names no limit


@dataclass
class LoadedModel:
    """A model, its tokenizer, and its adapters by name, the most recent last.

    An adapter has its own tokenizer, or None where it came without one; a fully tuned model has
    its base model's then.
    """

    plain: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    has_own_tokenizer: bool = True
    peft: PeftModel | None = None
    adapters: OrderedDict[str, PreTrainedTokenizerBase | None] = field(default_factory=OrderedDict)

    @property
    def context_length(self) -> int:
        """The most tokens of prompt and answer together."""
        config = self.plain.config.get_text_config()
        return getattr(config, "max_position_embeddings", DEFAULT_CONTEXT)

    def tokenizer_of(self, adapter: str | None) -> tuple[PreTrainedTokenizerBase, bool]:
        """The tokenizer to ask these weights with, and whether it came with them."""
        if adapter is None:
            return self.tokenizer, self.has_own_tokenizer
        own = self.adapters[adapter]
        return own or self.tokenizer, own is not None

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
    """Loads models and adapters on demand and drops those not used for longest."""

    def __init__(self, models_dir: Path, device: Device) -> None:
        self._models_dir = models_dir
        self._device = device
        # By base model, and the identity of the fully tuned weights; the base model's own: "".
        self._models: OrderedDict[tuple[BaseModel, str], LoadedModel] = OrderedDict()

    def base_model(self, base: BaseModel) -> LoadedModel:
        """The base model, loaded now if it is not here. Raises JobFailed: model_unavailable."""
        return self._warm((base, ""), lambda: self._load_base(base))

    def full_model(self, base: BaseModel, directory: Path) -> LoadedModel:
        """A fully tuned model, loaded now if it is not here. Raises AdapterInvalid."""
        identity = _identity(*weight_files(directory))
        return self._warm((base, identity), lambda: self._load_full(base, directory))

    def _warm(self, key: tuple[BaseModel, str], load: Callable[[], LoadedModel]) -> LoadedModel:
        if key not in self._models:
            while len(self._models) >= MAX_MODELS:
                self._models.popitem(last=False)
                gc.collect()
            self._models[key] = load()
        self._models.move_to_end(key)
        return self._models[key]

    def _load_base(self, base: BaseModel) -> LoadedModel:
        path = ensure(base, self._models_dir)
        model = self._ready(load_model(path, dtype=self._device.dtype))
        return LoadedModel(model, AutoTokenizer.from_pretrained(path))

    def _load_full(self, base: BaseModel, directory: Path) -> LoadedModel:
        path = ensure(base, self._models_dir)
        model = self._ready(load_full_model(directory, path, dtype=self._device.dtype))
        has_tokenizer = _has_tokenizer(directory)
        tokenizer = AutoTokenizer.from_pretrained(directory if has_tokenizer else path)
        return LoadedModel(model, tokenizer, has_tokenizer)

    def _ready(self, model: PreTrainedModel) -> PreTrainedModel:
        set_num_threads(model.num_parameters())
        return model.to(self._device.name).eval()

    def adapter(self, base: BaseModel, directory: Path) -> str:
        """The name of the adapter on its base model, put there now if it is not.

        Raises AdapterInvalid if it does not fit.
        """
        loaded = self.base_model(base)
        name = _identity(directory / WEIGHTS)
        if name not in loaded.adapters:
            check_adapter(directory, loaded.plain)
            try:
                _put_on(loaded, directory, name)
            except Exception as error:
                del self._models[base, ""]  # perhaps half changed: it is loaded afresh
                raise AdapterInvalid(
                    f"The adapter could not be loaded ({type(error).__name__})."
                ) from error
        loaded.adapters.move_to_end(name)
        return name


def _identity(*files: Path) -> str:
    """A name that changes with the files, as PEFT allows it: no dots."""
    parts = []
    for file in files:
        try:
            weights = file.stat()
        except OSError as error:
            raise AdapterInvalid(f"{file.name} is missing.") from error
        parts.append(f"{file.resolve()}\0{weights.st_mtime_ns}\0{weights.st_size}")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _has_tokenizer(directory: Path) -> bool:
    return all((directory / file).is_file() for file in TOKENIZER_FILES)


def _put_on(loaded: LoadedModel, directory: Path, name: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(directory) if _has_tokenizer(directory) else None
    if loaded.peft is None:
        loaded.peft = PeftModel.from_pretrained(loaded.plain, directory, adapter_name=name)
        loaded.peft.eval()
    else:
        while len(loaded.adapters) >= MAX_ADAPTERS:
            oldest, _ = loaded.adapters.popitem(last=False)
            loaded.peft.delete_adapter(oldest)
        loaded.peft.load_adapter(directory, adapter_name=name)
    loaded.adapters[name] = tokenizer
