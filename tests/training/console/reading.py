"""Reads a page as a person would: its texts, not its tags."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "input", "br"}


class Page(HTMLParser):
    """The page's tags with their attributes, and the text inside of each element with an id,
    a `data-field` or a heading's name."""

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
        name = attributes.get("id") or attributes.get("data-field")
        self._open.append(name or (tag if tag in ("h1", "h2") else None))

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

    def all(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        """The attributes of each such tag; `class_` and `data_seq` stand for class and data-seq."""
        pairs = {name.rstrip("_").replace("_", "-"): value for name, value in wanted.items()}
        return [
            attributes
            for name, attributes in self.tags
            if name == tag and all(attributes.get(key) == pairs[key] for key in pairs)
        ]
