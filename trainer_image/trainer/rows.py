"""Dataset rows in the accepted formats, turned into one form. Pure.

The control plane checks the same rows before a job starts; both sides are tested against
`contract/rows.v1.jsonl`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]

ROLES = frozenset({"system", "user", "assistant", "tool"})
SHAREGPT_ROLES = {"system": "system", "human": "user", "gpt": "assistant"}
# What a message keeps beside role and content; everything else is for other tools.
KEPT_TOOL_FIELDS = ("tool_call_id", "name")
THOUGHTS = "reasoning_content"  # what an assistant thinks before it answers


class BadRow(ValueError):
    """A row that cannot be trained on; the message says what is wrong with it."""


@dataclass(frozen=True)
class Row:
    """One example: a conversation, or plain text."""

    messages: list[Message] | None = None
    tools: list[dict[str, Any]] | None = None
    text: str | None = None


def detect_format(row: Any) -> str:
    """The format that a row is written in. Raises BadRow."""
    if not isinstance(row, dict):
        raise BadRow("the line is not a JSON object")
    if "messages" in row:
        return "chat"
    if "prompt" in row and "completion" in row:
        return "prompt_completion"
    if "conversations" in row:
        return "sharegpt"
    if "instruction" in row and "output" in row:
        return "alpaca"
    if "text" in row:
        return "text"
    raise BadRow(f"no known format has the fields {', '.join(sorted(row)) or '(none)'}")


def normalise_row(row: Any, row_format: str) -> Row:
    """The row in our one form. Raises BadRow."""
    if not isinstance(row, dict):
        raise BadRow("the line is not a JSON object")
    if row_format == "text":
        return Row(text=_text_with_words(row.get("text"), "text"))
    reader = _READERS.get(row_format)
    if reader is None:
        raise BadRow(f"unknown format {row_format!r}")
    messages = reader(row)
    _check_conversation(messages)
    tools = _tools(row) if row_format in ("chat", "prompt_completion") else None
    return Row(messages=messages, tools=tools)


def _check_conversation(messages: list[Message]) -> None:
    """Raise BadRow for what no model can learn from, whatever its template makes of it."""
    roles = [message["role"] for message in messages]
    if "assistant" not in roles:
        raise BadRow("there is no assistant message to learn from")
    if roles[-1] != "assistant":
        raise BadRow("the last message is not the assistant's")
    if "system" in roles[1:]:
        raise BadRow("a system message may only come first")
    for message, before in zip(messages, [None, *messages], strict=False):
        if message["role"] in ("user", "assistant") and not message.get("tool_calls"):
            _text_with_words(message["content"], f"the {message['role']}'s content")
        answers_call = before and (before["role"] == "tool" or before.get("tool_calls"))
        if message["role"] == "tool" and not answers_call:
            raise BadRow("a tool message must follow the call that it answers")


def _read_chat(row: Mapping[str, Any]) -> list[Message]:
    return normalise_messages(row.get("messages"))


def _read_prompt_completion(row: Mapping[str, Any]) -> list[Message]:
    return [
        *_as_messages(row.get("prompt"), "user", name="prompt"),
        *_as_messages(row.get("completion"), "assistant", name="completion"),
    ]


def _as_messages(value: Any, role: str, *, name: str) -> list[Message]:
    if isinstance(value, list):
        return normalise_messages(value)
    return [{"role": role, "content": _text(value, name)}]


def _read_sharegpt(row: Mapping[str, Any]) -> list[Message]:
    turns = row.get("conversations")
    if not isinstance(turns, list):
        raise BadRow("conversations is not a list")
    messages = []
    for turn in turns:
        role = SHAREGPT_ROLES.get(str(turn.get("from"))) if isinstance(turn, dict) else None
        if role is None:
            raise BadRow("a conversation turn has an unknown 'from'")
        messages.append({"role": role, "content": _text(turn.get("value"), "value")})
    return messages


def _read_alpaca(row: Mapping[str, Any]) -> list[Message]:
    parts = [_text(row.get("instruction"), "instruction")]
    if row.get("input"):
        parts.append(_text(row["input"], "input"))
    return [
        {"role": "user", "content": "\n\n".join(parts)},
        {"role": "assistant", "content": _text(row.get("output"), "output")},
    ]


def _tools(row: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    tools = row.get("tools")
    if isinstance(tools, str):
        tools = _parse_json(tools, "tools")
    if tools and not (isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)):
        raise BadRow("tools is not a list of objects")
    return tools or None


_READERS = {
    "chat": _read_chat,
    "prompt_completion": _read_prompt_completion,
    "sharegpt": _read_sharegpt,
    "alpaca": _read_alpaca,
}


def normalise_messages(messages: Any) -> list[Message]:
    """Messages in one style: plain text content, known roles, tool arguments as objects."""
    if not isinstance(messages, list) or not messages:
        raise BadRow("messages is not a list with entries")
    return [_normalise_message(message) for message in messages]


def _normalise_message(message: Any) -> Message:
    if not isinstance(message, dict):
        raise BadRow("a message is not an object")
    role = "system" if message.get("role") == "developer" else message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise BadRow(f"unknown role {role!r}")
    result = {"role": role, "content": _content(message)}
    if role == "assistant" and message.get("tool_calls"):
        result["tool_calls"] = _tool_calls(message["tool_calls"])
    if role == "assistant" and message.get(THOUGHTS):
        result[THOUGHTS] = _text(message[THOUGHTS], THOUGHTS)
    if role == "tool":
        result |= {name: message[name] for name in KEPT_TOOL_FIELDS if name in message}
    return result


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if content is None and message.get("tool_calls"):
        return ""
    if isinstance(content, list):
        return "".join(_text_of_part(part) for part in content)
    return _text(content, "content")


def _text_of_part(part: Any) -> str:
    if not isinstance(part, dict) or part.get("type") != "text":
        kind = part.get("type") if isinstance(part, dict) else type(part).__name__
        raise BadRow(f"{kind} parts are not supported, only text")
    return _text(part.get("text"), "text")


def _tool_calls(calls: Any) -> list[dict[str, Any]]:
    if not isinstance(calls, list):
        raise BadRow("tool_calls is not a list")
    return [_normalise_tool_call(call) for call in calls]


def _normalise_tool_call(call: Any) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise BadRow("a tool call has no function name")
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        arguments = _parse_json(arguments, "arguments")
    if not isinstance(arguments, dict):
        raise BadRow("the arguments of a tool call are not an object")
    return {
        **({"id": call["id"]} if "id" in call else {}),
        "type": "function",
        "function": {"name": function["name"], "arguments": arguments},
    }


def _parse_json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadRow(f"{name} is not JSON") from error


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise BadRow(f"{name} is not text")
    return value


def _text_with_words(value: Any, name: str) -> str:
    text = _text(value, name)
    if not text or text.isspace():
        raise BadRow(f"{name} is empty")
    return text
