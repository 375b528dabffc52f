"""How results, names and code are put in words: for a model to read, or as models write them."""

from __future__ import annotations

from collections.abc import Sequence

from ..record import Hit

QUOTES = " \t\n<>[]\"'`"
"""What models put around the name of a file."""


def render(hits: Sequence[Hit], characters: int = 800) -> str:
    """Search results as a numbered list of title, address and text."""
    lines = [
        f"[{n}] {_line(hit.document.title)} ({hit.document.id})\n{_line(hit.document.text)[:characters]}"
        for n, hit in enumerate(hits, 1)
    ]
    return "\n".join(lines) or "No results were found."


def plain_name(name: str) -> str:
    """The name of a file that code chose, as one that is safe to write and to print."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("/", "_")
    return "".join(c if c.isprintable() else "_" for c in text)[-60:]


def with_part(reference: str) -> tuple[str, int]:
    """`http://… part 2` as the reference and the number of the part."""
    head, word, number = reference.strip().rpartition(" part ")
    counts = bool(word) and number.strip().isdecimal() and len(number.strip()) < 7
    return (head.strip().rstrip(","), int(number)) if counts else (reference.strip(), 1)


def bare_code(source: str) -> str:
    """Code without the fence or the word `python` that models put around it."""
    text = source.strip()
    if text.startswith("```"):
        text = text.removeprefix("```").removesuffix("```")
    first, newline, rest = text.partition("\n")
    return rest if newline and first.strip().lower() in ("python", "py", "") else text


def _line(text: str) -> str:
    return " ".join(text.split())
