"""Web pages as text that a model can read, in parts, with links that it can follow.

resiliparse finds the main text of HTML. Tables stay tables, one row per line. Every link has a number that stays the
same in all parts of the page: `[3]` after its text, and its URL in `Page.links`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urldefrag, urljoin

from ..errors import ToolError
from ..readers import html

PART = 6000
"""Characters of one part of a page."""
TAGS = 100_000
"""Tags of a page that are read: the time to extract its text is quadratic in their number."""


@dataclass(frozen=True, slots=True)
class Page:
    url: str
    """Its final address, after redirects."""
    title: str
    text: str
    links: Mapping[int, str] = field(default_factory=dict)
    """URLs by number, from 1 in the order of the page."""
    kind: str = "html"

    @property
    def parts(self) -> int:
        return len(self._cuts())

    def part(self, number: int = 1) -> str:
        """One part of the text; parts are cut at line or word ends."""
        cuts = self._cuts()
        if not 1 <= number <= len(cuts):
            raise ToolError(f"{self.url} has {len(cuts)} parts; there is no part {number}")
        start, end = cuts[number - 1]
        return self.text[start:end]

    def _cuts(self) -> list[tuple[int, int]]:
        cuts: list[tuple[int, int]] = []
        start = 0
        while True:
            end = start + PART
            if end >= len(self.text):
                return [*cuts, (start, len(self.text))]
            line, word = self.text.rfind("\n", start + PART // 2, end), self.text.rfind(" ", start + PART // 2, end)
            end = line if line > 0 else word if word > 0 else end
            cuts.append((start, end))
            start = end


def from_html(content: bytes, url: str, content_type: str = "") -> Page:
    """Main text, title and numbered links of an HTML page."""
    whole = content.count(b"<") <= TAGS
    tree = html.tree_of(content if whole else b"<".join(content.split(b"<", TAGS)[:TAGS]), content_type)
    if tree.body is None:
        return Page(url, tree.title or "", "")
    links = _number_links(tree, url)
    _write_out_media(tree, url)
    html.write_out_tables(tree)
    text = html.main_text(tree)
    return Page(url, html.title_of(tree), text if whole else f"{text}\n\n… the rest is left out …", links)


def _number_links(tree: Any, url: str) -> dict[int, str]:
    base = tree.head.query_selector("base[href]") if tree.head is not None else None
    base_url = _joined(url, base.getattr("href")) or url if base is not None else url
    numbers: dict[str, int] = {}
    for anchor in tree.body.query_selector_all("a[href]"):
        target = urldefrag(_joined(base_url, anchor.getattr("href").strip()))[0]
        if not target.startswith(("http://", "https://")) or target == urldefrag(url)[0] or not anchor.text.strip():
            continue
        number = numbers.setdefault(target, len(numbers) + 1)
        anchor.append_child(tree.create_text_node(f" [{number}]"))
    return {number: target for target, number in numbers.items()}


def _joined(base: str, reference: str) -> str:
    """An address on a page; empty where it is invalid, such as `http://[`."""
    try:
        return urljoin(base, reference)
    except ValueError:
        return ""


def _write_out_media(tree: Any, url: str) -> None:
    """Images, audio and video as text: their description and address."""
    for element in tree.body.query_selector_all("img[src], audio[src], video[src]"):
        source = _joined(url, element.getattr("src"))
        if source.startswith(("http://", "https://")):
            kind = {"img": "image"}.get(element.tag, element.tag)
            words = f" ({kind}{': ' + alt if (alt := (element.getattr('alt') or '').strip()) else ''} {source}) "
            element.parent.replace_child(tree.create_text_node(words), element)
