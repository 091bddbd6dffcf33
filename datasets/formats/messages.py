"""The messages of one conversation: contents, roles and their order, tool calls."""

from __future__ import annotations

import json
from typing import Any

from datasets.formats import strict_json
from datasets.formats.report import RowError

ROLES = ("system", "developer", "user", "assistant", "tool")
# Blank texts of these teach or ask nothing. A tool may well return nothing.
NEVER_EMPTY = frozenset({"user", "assistant"})
THOUGHTS = "reasoning_content"  # what an assistant thinks before it answers
# What each role may come after in a conversation that every template accepts; None is the start.
ALTERNATING = {
    "user": (None, "system", "developer", "assistant"),
    "assistant": ("user", "tool"),
}


def check_messages(messages: Any, *, path: str) -> bool:
    """Raise RowError for the first thing wrong; tell whether the turns alternate."""
    if not isinstance(messages, list):
        raise RowError("messages_not_list", f"'{path}' is not a list.", path=path)
    if not messages:
        raise RowError("empty_messages", f"'{path}' is empty.", path=path)
    alternates = True
    previous: dict[str, Any] | None = None
    for index, message in enumerate(messages):
        try:
            alternates &= _check_message(message, previous)
        except RowError as error:
            raise error.within(f"{path}[{index}]") from error.__cause__
        previous = message
    if all(message["role"] != "assistant" for message in messages):
        raise RowError("no_assistant", "No message is from the assistant.", path=path)
    if messages[-1]["role"] != "assistant":
        raise RowError("last_not_assistant", "The last message is not the assistant's.", path=path)
    return alternates


def check_text(value: Any, path: str) -> None:
    """Raise RowError unless the value is a text with words in it."""
    if not isinstance(value, str):
        raise RowError("content_not_text", f"'{path}' is not a text.", path=path)
    if not value or value.isspace():
        raise RowError("empty_content", f"'{path}' is empty.", path=path)


def check_tools(tools: Any) -> None:
    """Raise RowError unless tool definitions are a list of objects, or JSON text of one."""
    if isinstance(tools, str):
        tools = _parse_text(tools, "tools")
    if tools is None:
        return
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise RowError("bad_tool_call", "'tools' is not a list of objects.", path="tools")


def normal_message(message: dict[str, Any]) -> dict[str, Any]:
    """A checked message as the trainer sees it: one text, arguments as objects, no other keys."""
    role = "system" if message["role"] == "developer" else message["role"]
    normal: dict[str, Any] = {"role": role, "content": _joined(message.get("content"))}
    if role == "assistant" and message.get("tool_calls"):
        normal["tool_calls"] = [_normal_call(call) for call in message["tool_calls"]]
    if role == "assistant" and message.get(THOUGHTS):
        normal[THOUGHTS] = message[THOUGHTS]
    if role == "tool":
        normal |= {key: message[key] for key in ("tool_call_id", "name") if key in message}
    return normal


def _check_message(message: Any, previous: dict[str, Any] | None) -> bool:
    if not isinstance(message, dict):
        raise RowError("not_an_object", "A message is not an object.")
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise RowError(
            "unknown_role",
            f"The role is {repr(role)[:60]}. Known: {', '.join(ROLES)}.",
            path=".role",
        )
    calls = message.get("tool_calls") if role == "assistant" else None
    if calls is not None:
        _check_calls(calls)
    thoughts = message.get(THOUGHTS) if role == "assistant" else None
    if thoughts is not None and not isinstance(thoughts, str):
        raise RowError("content_not_text", f"'{THOUGHTS}' is not a text.", path=f".{THOUGHTS}")
    content = message.get("content")
    if not (calls and content is None):
        _check_content(content, may_be_empty=bool(calls) or role not in NEVER_EMPTY)
    return _check_order(role, previous)


def _check_content(content: Any, *, may_be_empty: bool) -> None:
    if content is None:
        raise RowError(
            "empty_content",
            "The content is missing or null. Only an assistant message with a tool call may "
            "leave it out.",
            path=".content",
        )
    text = content if type(content) is str else _text_of(content)
    if not may_be_empty and (not text or text.isspace()):
        raise RowError("empty_content", "The content is empty.", path=".content")


def _text_of(content: Any) -> str:
    if not isinstance(content, list):
        raise RowError(
            "content_not_text",
            "The content is neither a text nor a list of text parts.",
            path=".content",
        )
    for index, part in enumerate(content):
        _check_part(part, f".content[{index}]")
    return _joined(content)


def _check_part(part: Any, path: str) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind != "text":
        name = kind[:40] if isinstance(kind, str) and kind.isprintable() else repr(kind)[:40]
        what = f"{name} parts are not supported" if kind else "A content part has no type"
        raise RowError("content_not_text", f"{what}; only text is.", path=path)
    if not isinstance(part.get("text"), str):
        raise RowError("content_not_text", "A text part holds no text.", path=path)


def _check_order(role: str, previous: dict[str, Any] | None) -> bool:
    """Raise RowError for an order that no model accepts; tell whether all accept it."""
    before = previous["role"] if previous else None
    if role in ("system", "developer") and previous:
        raise RowError("role_order", f"A {role} message may only come first.")
    if role == "tool":
        if before != "tool" and not (before == "assistant" and previous.get("tool_calls")):
            raise RowError("role_order", "A tool message must follow the call that it answers.")
        return True
    return role not in ALTERNATING or before in ALTERNATING[role]


def _check_calls(calls: Any) -> None:
    if not isinstance(calls, list):
        raise RowError("bad_tool_call", "'tool_calls' is not a list.", path=".tool_calls")
    for index, call in enumerate(calls):
        try:
            _check_call(call)
        except RowError as error:
            raise error.within(f".tool_calls[{index}]") from error.__cause__


def _check_call(call: Any) -> None:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise RowError("bad_tool_call", 'A tool call is not {"function": {"name", "arguments"}}.')
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise RowError("bad_tool_call", "A tool call has no name.", path=".function.name")
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        arguments = _parse_text(arguments, ".function.arguments")
    if not isinstance(arguments, dict):
        raise RowError(
            "bad_tool_call", "arguments is not a JSON object.", path=".function.arguments"
        )


def _parse_text(text: str, path: str) -> Any:
    name = path.rpartition(".")[2]
    try:
        return strict_json.parse(text.encode("utf-8"))
    except RowError as error:
        raise RowError(
            "bad_tool_call", f"{name} is not JSON. {error.message}", path=path
        ) from error


def _joined(content: Any) -> str:
    if content is None:
        return ""
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _normal_call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = function["arguments"]
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    return {
        **({"id": call["id"]} if "id" in call else {}),
        "type": "function",
        "function": {"name": function["name"], "arguments": arguments},
    }
