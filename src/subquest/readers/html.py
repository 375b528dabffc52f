"""HTML pages: the main text under its headings, tables by row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO

from ..errors import DataError, MissingDependency
from .part import Part

_SPACES = re.compile(r"[ \t\xa0]+")
_GAPS = re.compile(r"\n{3,}")
_MARK = "\ue000"
"""A private-use character, repeated before a heading as often as its level."""


_STYLES = ("display:none", "display: none", "visibility:hidden", "visibility: hidden", "font-size:0;", "font-size:0px")
_HIDDEN = "script, style, template, noscript, [hidden], [aria-hidden=true], " + ", ".join(
    [f'[style*="{style}"]' for style in _STYLES] + ['[style$="font-size:0"]']
)
"""What a reader of the page does not see; injected instructions are often hidden there."""


_BLOCKS = "br, p, div, li, dt, dd, h1, h2, h3, h4, h5, h6, blockquote, pre, address, article, section, option"


DEEP = 512
"""Nesting depth at which browsers stop. On deeper pages all of the text counts as the main text: finding the main
text takes time quadratic in the depth, and no author writes such a page for readers."""
DEEPEST = 20_000
"""Deeper pages are refused: parsing takes time quadratic in the depth too."""
_NESTING = re.compile(
    r"<(/?)(address|applet|article|aside|blockquote|center|details|dialog|dir|div|dl|fieldset|figcaption|figure|footer"
    r"|header|hgroup|main|marquee|math|menu|nav|object|ol|pre|section|summary|svg|table|template|ul)(?=[\s/>])",
)
"""Tags of elements that stay open until they are closed; other blocks (p, li, td) are inside one of them."""


def nesting(text: str) -> int:
    """About how deeply the blocks of a page are nested, without parsing it."""
    unclosed: Counter[str] = Counter()
    depth = deepest = 0
    for end, name in _NESTING.findall(text.lower()):
        if not end:
            unclosed[name] += 1
            depth += 1
            deepest = max(deepest, depth)
        elif unclosed[name]:
            unclosed[name] -= 1
            depth -= 1
    return deepest


def tree_of(content: bytes, content_type: str = "") -> Any:
    """The page as a tree without scripts, styles and what is hidden."""
    try:
        from resiliparse.parse.encoding import detect_encoding
        from resiliparse.parse.html import HTMLTree
    except ImportError:
        raise MissingDependency("the reader for web pages", "web-tools") from None
    declared = re.search(r"charset=[\"']?([\w-]+)", content_type)
    try:
        text = content.decode(declared[1] if declared else detect_encoding(content), "replace")
    except (LookupError, ValueError):  # an unknown charset, or not one for text
        text = content.decode("utf-8", "replace")
    if text.count("<") > DEEPEST and (depth := nesting(text)) > DEEPEST:
        raise DataError(f"its elements are nested {depth:,} deep; more than {DEEPEST:,} are not read")
    tree = HTMLTree.parse(text)
    if tree.body is not None:
        for hidden in tree.body.query_selector_all(_HIDDEN):
            hidden.decompose()
    return tree


def _words(tree: Any, node: Any) -> str:
    """The text of a node on one line; separate lines of the page do not run together."""
    if node.first_element_child is None:  # a search for elements holds memory for the lifetime of the tree
        return " ".join(node.text.split())
    for block in node.query_selector_all(_BLOCKS):
        block.parent.insert_before(tree.create_text_node(" "), block)
        if block.tag != "br":
            block.append_child(tree.create_text_node(" "))
    return " ".join(node.text.split())


def title_of(tree: Any) -> str:
    return " ".join((tree.title or "").split())


def main_text(tree: Any) -> str:
    """The text of a page without menus and footers, where they can be distinguished."""
    from resiliparse.extract.html2text import extract_plain_text

    if not _is_deep(tree.body):
        main = _tidy(extract_plain_text(tree, main_content=True, links=False))
        if 4 * len(main) > len(" ".join(tree.body.text.split())):
            return main
    return _tidy(extract_plain_text(tree, main_content=False, links=False))


def _is_deep(root: Any) -> bool:
    """Whether elements are nested more than `DEEP` deep; not checked where few are `div` or `article`."""
    if len(root.query_selector_all("div, article")) <= DEEP:
        return False
    node, depth = root.first_element_child, 1
    while node is not None and depth <= DEEP:
        below, after = node.first_element_child, node.next_element
        if below is not None:
            node, depth = below, depth + 1
            continue
        while after is None:
            node, depth = node.parent, depth - 1
            if not depth:
                return False
            after = node.next_element
        node = after
    return node is not None


def write_out_tables(tree: Any) -> None:
    """Data tables as rows of `| cell | cell |`; tables inside tables are layout and stay."""
    for table in list(tree.body.query_selector_all("table")):
        if table.query_selector("table") is not None:
            continue
        rows = []
        for row in table.query_selector_all("tr"):
            cells = [_words(tree, cell).replace("|", "/") for cell in _cells(row)]
            if any(cells):
                rows.append(f"| {' | '.join(cells)} |")
        if rows and table.parent is not None:
            caption = table.query_selector("caption")
            block = tree.create_element("pre")
            block.text = "\n".join([*([_words(tree, caption)] if caption else []), *rows])
            table.parent.replace_child(block, table)


def _cells(row: Any) -> Iterator[Any]:
    cell = row.first_element_child
    while cell is not None:
        after = cell.next_element
        if cell.tag in ("th", "td"):
            yield cell
        cell = after


def read_html(file: BinaryIO) -> Iterator[Part]:
    tree = tree_of(file.read())
    if tree.body is None:
        return
    first = ""
    for level in range(1, 7):
        for heading in tree.body.query_selector_all(f"h{level}"):
            words = _words(tree, heading)
            heading.text = _MARK * level + words
            first = first or words
    write_out_tables(tree)
    title = title_of(tree) or first
    levels: list[tuple[int, str]] = []
    held: list[str] = []
    for line in [*main_text(tree).split("\n"), _MARK]:
        if not line.startswith(_MARK):
            held.append(line)
            continue
        if text := "\n".join(held).strip():
            yield Part(text, section=tuple(words for _, words in levels), title=title)
            title = ""
        words = line.lstrip(_MARK)
        level = len(line) - len(words)
        levels = [*((n, text) for n, text in levels if n < level), (level, words)]
        held = [words]


def _tidy(text: str) -> str:
    return _GAPS.sub("\n\n", "\n".join(_SPACES.sub(" ", line).strip() for line in text.splitlines())).strip()
