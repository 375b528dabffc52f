"""HTML pages: the main text under its headings, tables by row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO

from ..errors import DataError, MissingDependency
from .part import Part, row_of

_SPACES = re.compile(r"[ \t\xa0]+")
_GAPS = re.compile(r"\n{3,}")
_MARK = "\ue000"
"""A private-use character, repeated before a heading as often as its level."""
_ROW, _CELL = "\ue001", "\ue002"
"""Before a row of a table, twice before its first one; between cells."""


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
        _write_out_lists(tree)
        main = _tidy(extract_plain_text(tree, main_content=True, links=False))
        if 4 * len(main) > len(" ".join(tree.body.text.split())):
            return main
    return _tidy(extract_plain_text(tree, main_content=False, links=False))


_ASIDE = frozenset({"nav", "aside", "footer", "header", "form", "menu", "ul", "ol"})
_STRUCTURE = "h1, h2, h3, h4, h5, h6, table, pre, article, section, form"


def _write_out_lists(tree: Any) -> None:
    """Lists as lines of `• item`: the search for the main text takes short ones for menus. Lists of links stay."""
    for found in list(tree.body.query_selector_all("ul")):
        if found.parent is None or found.query_selector(_STRUCTURE) is not None or _is_aside(found):
            continue
        linked = sum(len(link.text) for link in found.query_selector_all("a"))
        if 2 * linked > len(found.text):
            continue
        block = tree.create_element("pre")
        block.text = "\n".join(_items(tree, found))
        found.parent.replace_child(block, found)


def _items(tree: Any, found: Any) -> Iterator[str]:
    item = found.first_element_child
    while item is not None:
        after = item.next_element
        inner = [*item.query_selector_all("ul, ol")]
        below = [line for one in inner if one.parent is not None for line in _items(tree, one)]
        for one in inner:
            if one.parent is not None:
                one.decompose()
        if words := _words(tree, item):
            yield f"• {words}"
        yield from below
        item = after


def _is_aside(node: Any) -> bool:
    node = node.parent
    while node is not None and node.tag != "body":
        if node.tag in _ASIDE or (node.getattr("role") or "") == "navigation":
            return True
        node = node.parent
    return False


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


def write_out_tables(tree: Any, *, marked: bool = False) -> None:
    """Data tables as rows of `| cell | cell |`; tables inside tables are layout and stay.

    marked: rows begin with a mark and have one between cells, instead of bars.
    """
    for table in list(tree.body.query_selector_all("table")):
        if table.query_selector("table") is not None:
            continue
        rows: list[str] = []
        for row in table.query_selector_all("tr"):
            cells = [_words(tree, cell) for cell in _cells(row)]
            if any(cells) and marked:
                rows.append(_ROW * (1 if rows else 2) + _CELL.join(cells))
            elif any(cells):
                rows.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
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
    write_out_tables(tree, marked=True)
    title = title_of(tree) or first
    levels: list[tuple[int, str]] = []
    held: list[str] = []
    row = paragraphs = 0
    for line in [*main_text(tree).split("\n"), _MARK]:
        if not line.startswith((_MARK, _ROW)):
            held.append(line)
            continue
        section = tuple(words for _, words in levels)
        if text := "\n".join(held).strip():
            yield Part(text, {"paragraph": paragraphs + 1}, section, title)
            paragraphs += text.count("\n\n") + 1
            title = ""
        held = []
        if line.startswith(_ROW):
            row = 1 if line.startswith(_ROW * 2) else row + 1
            yield row_of(line.lstrip(_ROW).split(_CELL), {"row": row}, section, title)
            title = ""
        elif words := line.lstrip(_MARK):
            level = len(line) - len(words)
            levels = [*((n, text) for n, text in levels if n < level), (level, words)]
            paragraphs = 0
            yield Part(words, section=tuple(words for _, words in levels), title=title)
            title = ""


def _tidy(text: str) -> str:
    return _GAPS.sub("\n\n", "\n".join(_SPACES.sub(" ", line).strip() for line in text.splitlines())).strip()
