"""Reads a page as a person would: its texts, not its tags."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

BLOCKS = {"div", "p", "li", "dt", "dd", "td", "th", "tr", "h1", "h2", "span", "small", "summary"}
VOID = {"meta", "link", "input", "br", "img"}


class Page(HTMLParser):
    """The page's tags with their attributes, and the text inside of each element with an id
    or a heading's name."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str | None] = []
        self._texts: dict[str, list[str]] = {}
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag in VOID:
            return
        if tag in BLOCKS:
            self.handle_data(" ")
        self._open.append(attributes.get("id") or (tag if tag in ("h1", "h2") else None))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and self._open:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data
        for name in self._open:
            if name:
                self._texts.setdefault(name, []).append(data)

    def text_of(self, name: str) -> str:
        return " ".join("".join(self._texts.get(name, [])).split())

    def json_of(self, name: str) -> Any:
        return json.loads("".join(self._texts[name]))

    def all(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        """The attributes of each such tag; `class_` and `data_seq` stand for class and data-seq."""
        pairs = {name.rstrip("_").replace("_", "-"): value for name, value in wanted.items()}
        return [
            attributes
            for name, attributes in self.tags
            if name == tag and all(attributes.get(key) == pairs[key] for key in pairs)
        ]


def page_of(client: Any, address: str, status: int = 200) -> Page:
    """Open an address; it must answer with this status."""
    response = client.get(address)
    assert response.status_code == status, response.content[:500]
    return Page(response.content.decode())
