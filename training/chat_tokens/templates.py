"""Chat templates in a sandbox, with what Hugging Face's own renderer offers them.

A template comes with the model's files and is untrusted code: it can read what it is given and
nothing else, and it cannot change that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.ext import loopcontrols as LoopControls  # the name under which Jinja documents it
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from training.chat_tokens.model_files import DEFAULT, WITH_TOOLS, BadModelFiles

Message = dict[str, Any]


class TemplateProblem(ValueError):
    """The chat template cannot render these messages, or not in a way that can be masked."""


class ChatTemplate:
    """Renders conversations with the templates of one model. Raises BadModelFiles."""

    def __init__(self, templates: Mapping[str, str], named_tokens: Mapping[str, str]) -> None:
        environment = _environment()
        self._named_tokens = dict(named_tokens)
        try:
            self._templates = {
                name: environment.from_string(text) for name, text in templates.items()
            }
        except Exception as error:  # whatever a text does to the compiler
            raise BadModelFiles(f"the chat template cannot be read: {str(error)[:200]}") from error

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[dict[str, Any]] | None, asks: bool
    ) -> str:
        """The text of a conversation; if it `asks`, it ends where the answer begins."""
        template = self._templates.get(WITH_TOOLS) if tools else None
        template = template or self._templates.get(DEFAULT)
        if template is None:
            raise TemplateProblem("the chat template refuses the messages: there is none")
        try:
            return template.render(
                messages=messages,
                tools=tools or None,
                documents=None,
                add_generation_prompt=asks,
                **self._named_tokens,
            )
        except Exception as error:  # a template may raise anything, even TypeError
            raise TemplateProblem(
                f"the chat template refuses the messages: {str(error)[:500]}"
            ) from error


def shown_to_template(message: Message) -> Message:
    """A message in the form in which transformers hands it to a template."""
    shown = {key: value for key, value in message.items() if value is not None}
    thoughts = shown.get("reasoning_content")
    return shown if thoughts is None else {"thinking": thoughts, **shown}


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_Generation, LoopControls],
    )
    environment.filters["tojson"] = _tojson
    environment.globals |= {
        "raise_exception": _raise_exception,
        "strftime_now": _strftime_now,
        "dict": _Dict(),
        "namespace": _Namespace,
    }
    return environment


def _raise_exception(message: Any) -> NoReturn:
    raise jinja2.TemplateError(str(message))


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)  # local time, as transformers has it


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as the model has seen it: Jinja's own filter escapes HTML."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


class _Generation(Extension):
    """`{% generation %}` marks the answers for other tools; it changes nothing of the text."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_as_it_is"), [], [], body).set_lineno(line)

    def _as_it_is(self, caller: Any) -> str:
        return caller()


class _Dict:
    """The type `dict` would lead to the attributes of types."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


class _Namespace(Namespace):
    """A namespace without names that begin with an underscore: those are Python's."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, values = args[0], dict(*args[1:], **kwargs)
        for name in values:
            _check_name(name)
        Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"{name[:100]!r} is no name for a namespace")
