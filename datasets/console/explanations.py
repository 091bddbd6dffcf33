"""How to mend what a validation report names: one sentence for each of its codes."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _

EXPLANATIONS: Mapping[str, object] = {
    "not_utf8": _("Save the file again as UTF-8."),
    "invalid_json": _("Each line must be one JSON object: double quotes, no comma at the end."),
    "json_array": _("Write one object per line, without the brackets around all of them."),
    "wrong_format": _("Convert the file to JSONL: one JSON object per line."),
    "compressed_file": _("Unpack the file and upload what is in it."),
    "not_an_object": _("Each line must be an object in curly braces."),
    "unknown_format": _("Use messages, prompt and completion, or text as keys."),
    "mixed_formats": _("All rows must have the same format: split the file."),
    "non_standard_number": _("JSON has no NaN and no Infinity: use null or leave the key out."),
    "duplicate_key": _("A key stands twice in one object: keep one of them."),
    "lone_surrogate": _("Half of a character was cut off: write the text again, uncut."),
    "too_deep": _("The row is nested too deeply: flatten it."),
    "line_too_long": _("The row is too long: split it into several."),
    "messages_not_list": _("The messages must be a list of turns."),
    "empty_messages": _("A row needs at least one turn."),
    "unknown_role": _("Roles are system, developer, user, assistant and tool."),
    "role_order": _("Turns must come in an order that the model knows."),
    "no_assistant": _("A row needs a turn of the assistant: it is what is learned."),
    "last_not_assistant": _("The last turn must be the assistant's."),
    "content_not_text": _("The content of a turn must be text."),
    "empty_content": _("A turn without text teaches nothing: fill it in or remove it."),
    "no_completion": _("The completion is missing: it is what is learned."),
    "bad_tool_call": _("A tool call needs a name, and arguments that are JSON."),
    "no_records": _("The file holds no row."),
    "bad_name": _("Rename the file: a plain name that ends in .jsonl."),
    "empty_file": _("The file is empty."),
    "bom": _("Nothing to do; editors on Windows write such a mark."),
    "blank_lines": _("Nothing to do; they do not count as rows."),
    "duplicate_rows": _("Rows that repeat weigh more. Remove them if that is not meant."),
    "control_tokens": _("Remove the markup from the texts unless it is meant."),
    "nul": _("Remove the NUL characters unless they are meant."),
    "few_rows": _("Add rows if you can."),
}
