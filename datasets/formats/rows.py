"""One row: which format it is in, what is wrong with it, and how the trainer sees it."""

from __future__ import annotations

import json
from typing import Any

from datasets.formats.messages import check_messages, check_text, check_tools, normal_message
from datasets.formats.report import RowError

CHAT = "chat"
PROMPT_COMPLETION = "prompt_completion"
TEXT = "text"
SHAREGPT = "sharegpt"
ALPACA = "alpaca"
FORMATS = {
    CHAT: '{"messages": [{"role", "content"}, ...]}',
    PROMPT_COMPLETION: '{"prompt", "completion"}',
    TEXT: '{"text"}',
    SHAREGPT: '{"conversations": [{"from", "value"}, ...]}',
    ALPACA: '{"instruction", "input", "output"}',
}
WITH_TOOLS = frozenset({CHAT, PROMPT_COMPLETION})  # the formats that may define tools
SHAREGPT_ROLES = {"system": "system", "human": "user", "gpt": "assistant"}


def detect(row: dict[str, Any]) -> str:
    """Name the format of a row by its keys. Raises RowError (`unknown_format`).

    Other keys are allowed, so the order of the tests decides: what only one format has comes
    first, `text` last, because other formats often carry a key of that name.
    """
    if "messages" in row:
        return CHAT
    if "prompt" in row and "completion" in row:
        return PROMPT_COMPLETION
    if "conversations" in row:
        return SHAREGPT
    if "instruction" in row and "output" in row:
        return ALPACA
    if "text" in row:
        return TEXT
    if "prompt" in row or "completion" in row:
        return PROMPT_COMPLETION
    if "instruction" in row:
        return ALPACA
    found = ", ".join(repr(key[:40]) for key in list(row)[:8]) or "none"
    raise RowError(
        "unknown_format",
        f"No known format. Keys found: {found}. Accepted: {'; '.join(FORMATS.values())}.",
    )


def check(row: dict[str, Any], format: str) -> bool:
    """Raise RowError if the row cannot be trained on; tell whether its turns alternate."""
    if format == TEXT:
        check_text(row["text"], "text")
        return True
    if format == ALPACA:
        _check_alpaca(row)
        return True
    if format in WITH_TOOLS:
        check_tools(row.get("tools"))
    if format == PROMPT_COMPLETION and isinstance(row.get("prompt"), str):
        check_text(row["prompt"], "prompt")
        if isinstance(row.get("completion"), str):
            check_text(row["completion"], "completion")
            return True
    return check_messages(_messages(row, format), path=_path_of(format))


def normalise(row: dict[str, Any], format: str) -> dict[str, Any]:
    """Return a row that passed `check` as the trainer sees it.

    Either `{"text"}` or `{"messages", "tools"}`; `tools` is None where there are none.
    """
    if format == TEXT:
        return {"text": row["text"]}
    tools = row.get("tools") if format in WITH_TOOLS else None
    if isinstance(tools, str):
        tools = json.loads(tools)
    messages = [normal_message(message) for message in _messages(row, format)]
    return {"messages": messages, "tools": tools or None}


def texts_of(row: dict[str, Any], format: str) -> list[str]:
    """All texts of a row that the model reads as text."""
    if format == TEXT:
        return [row["text"]]
    return [message["content"] for message in normalise(row, format)["messages"]]


def _path_of(format: str) -> str:
    return {SHAREGPT: "conversations", PROMPT_COMPLETION: "prompt+completion"}.get(
        format, "messages"
    )


def _messages(row: dict[str, Any], format: str) -> Any:
    """The row as a list of messages, not yet checked in its details."""
    if format == CHAT:
        return row["messages"]
    if format == SHAREGPT:
        return _of_sharegpt(row["conversations"])
    if format == ALPACA:
        return [
            {"role": "user", "content": _alpaca_question(row)},
            {"role": "assistant", "content": row["output"]},
        ]
    return [*_side(row, "prompt", "user"), *_side(row, "completion", "assistant")]


def _side(row: dict[str, Any], key: str, role: str) -> list[Any]:
    """One half of a prompt/completion row as messages."""
    value = row.get(key)
    if value is None or value == []:
        if key == "completion":
            raise RowError("no_completion", "The row has a prompt but no completion.", path=key)
        raise RowError("empty_messages", "The row has a completion but no prompt.", path=key)
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if not isinstance(value, list):
        raise RowError("content_not_text", f"'{key}' is neither a text nor a list.", path=key)
    if key == "completion" and not _is_of(value[0], "assistant"):
        raise RowError(
            "no_completion", "The completion does not start with an assistant message.", path=key
        )
    return value


def _is_of(message: Any, role: str) -> bool:
    return isinstance(message, dict) and message.get("role") == role


def _of_sharegpt(turns: Any) -> Any:
    if not isinstance(turns, list):
        return turns
    messages = []
    for index, turn in enumerate(turns):
        path = f"conversations[{index}]"
        if not isinstance(turn, dict):
            raise RowError("not_an_object", "A turn is not an object.", path=path)
        role = turn.get("from")
        if not isinstance(role, str) or role not in SHAREGPT_ROLES:
            raise RowError(
                "unknown_role",
                f"'from' is {_shown(role)}. Known: {', '.join(SHAREGPT_ROLES)}.",
                path=f"{path}.from",
            )
        check_text(turn.get("value"), f"{path}.value")
        messages.append({"role": SHAREGPT_ROLES[role], "content": turn["value"]})
    return messages


def _check_alpaca(row: dict[str, Any]) -> None:
    if row.get("output") is None:
        raise RowError("no_completion", "The row has an instruction but no output.", path="output")
    check_text(row["instruction"], "instruction")
    if row.get("input"):
        check_text(row["input"], "input")
    check_text(row["output"], "output")


def _alpaca_question(row: dict[str, Any]) -> str:
    context = row.get("input")
    return f"{row['instruction']}\n\n{context}" if context else row["instruction"]


def _shown(value: Any) -> str:
    return repr(value)[:60]
