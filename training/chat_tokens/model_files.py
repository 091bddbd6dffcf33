"""The tokenizer, its named tokens and the chat template in a base model's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, processors

NAMED_TOKENS = (
    *("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"),
)
DEFAULT = "default"
WITH_TOOLS = "tool_use"  # what transformers calls the template for conversations with tools


class BadModelFiles(ValueError):
    """The folder does not hold a usable tokenizer; the message says what is wrong."""


@dataclass(frozen=True)
class ModelFiles:
    """What the files say. `templates` is by name; most models have the default one alone."""

    tokenizer: Tokenizer
    named_tokens: Mapping[str, str]
    templates: Mapping[str, str]

    @property
    def template_text(self) -> str:
        return "\n".join(self.templates.values())

    def token_id(self, name: str) -> int | None:
        token = self.named_tokens.get(name)
        return None if token is None else self.tokenizer.token_to_id(token)


def read_model_files(folder: Path) -> ModelFiles:
    """Raises BadModelFiles."""
    config = _read_config(folder / "tokenizer_config.json")
    named = {name: _content(config[name]) for name in NAMED_TOKENS if config.get(name)}
    tokenizer = _read_tokenizer(folder / "tokenizer.json")
    _add_missing_tokens(tokenizer, config, named)
    _set_ends_of_text(tokenizer, config, named)
    return ModelFiles(tokenizer, named, _read_templates(folder, config))


def _read_tokenizer(path: Path) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # it raises plain Exception, whatever is wrong
        raise BadModelFiles(f"{path.name} cannot be read: {str(error)[:200]}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadModelFiles(f"{path.name} cannot be read: {str(error)[:200]}") from error
    if not isinstance(config, dict):
        raise BadModelFiles(f"{path.name} is not a JSON object")
    return config


def _content(token: Any) -> str:
    """A token's text; older files write it as an object."""
    text = token.get("content") if isinstance(token, dict) else token
    if not isinstance(text, str):
        raise BadModelFiles("tokenizer_config.json names a token that is no text")
    return text


def _add_missing_tokens(
    tokenizer: Tokenizer, config: Mapping[str, Any], named: Mapping[str, str]
) -> None:
    """Special tokens that only the configuration knows are special to transformers too."""
    known = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    extra = config.get("extra_special_tokens") or config.get("additional_special_tokens") or ()
    wanted = [*named.values(), *(_content(token) for token in extra if not isinstance(extra, dict))]
    missing = [text for text in dict.fromkeys(wanted) if text not in known]
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in missing])


def _set_ends_of_text(
    tokenizer: Tokenizer, config: Mapping[str, Any], named: Mapping[str, str]
) -> None:
    """What is put around plain text, where the configuration says it itself."""
    if "add_bos_token" not in config and "add_eos_token" not in config:
        return
    around = {
        name: named[name]
        for name in ("bos_token", "eos_token")
        if config.get(f"add_{name}") and name in named
    }
    begin, end = around.get("bos_token"), around.get("eos_token")
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[*([f"{begin}:0"] if begin else []), "$A:0", *([f"{end}:0"] if end else [])],
        special_tokens=[(text, tokenizer.token_to_id(text)) for text in around.values()],
    )


def _read_templates(folder: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """Templates by name; files count before what the configuration holds."""
    try:
        main = folder / "chat_template.jinja"
        found = {DEFAULT: main.read_text(encoding="utf-8")} if main.is_file() else {}
        for path in sorted((folder / "additional_chat_templates").glob("*.jinja")):
            found[path.stem] = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise BadModelFiles(f"the chat template cannot be read: {str(error)[:200]}") from error
    template = config.get("chat_template")
    if found:
        return found
    if isinstance(template, str):
        return {DEFAULT: template}
    if isinstance(template, list):
        return {str(one["name"]): str(one["template"]) for one in template if _is_named(one)}
    return {}


def _is_named(template: Any) -> bool:
    return isinstance(template, dict) and {"name", "template"} <= template.keys()
