"""Fencing: text from the environment made harmless before a model reads it.

A document may contain our tags, HiRA's tokens, chat templates' control tokens or the tags by which prompts mark who
speaks. All of them lose their brackets: `<answer>` becomes `‹answer›`, so a reader still sees what stood there, and
neither our parser nor a server's tokenizer mistakes it for a tag. What only looks like a tag counts as one: full-width
letters, letters of another alphabet, invisible characters, `&lt;` for a bracket, because tokenizers normalise text and
models understand lookalikes.

Fencing is no cure for persuasion. That a text says "ignore your instructions" a prompt can only answer by saying that
documents are data, as ours do, and a system by keeping documents out of the contexts that decide.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable

from .tags import TAGS

_SPEAKERS = (
    *("system", "user", "assistant", "human", "developer", "tool", "function", "instruction", "instructions"),
    *("thinking", "tools", "tool_calls", "tool_result", "function_call", "function_calls", "function_results"),
    "invoke",
)
"""Tags by which prompts mark who speaks or calls; no system acts by them."""
_CONTROL = re.compile(
    r"<\s?[|｜][^<>|｜]{1,64}[|｜]\s?>|<\s?(?:start|begin|beginning|end)_of_\w{1,16}\s?>|<\s?/?s\s?>|<<\s?/?SYS\s?>>"
    r"|<\s?(?:bos|eos|pad|unk|mask|sop|eop|(?:extra_id|special)_\d{1,4}|unused\d{1,4}|reserved_\w{1,40})\s?>"
    r"|<\s?[|｜]\w{1,32}\s?>|<\s?\w{1,32}[|｜]\s?>|<\s?/?\s?(?:seed|minimax):\w{1,32}\s?>|\[\s?[|｜]\w{1,32}[|｜]\s?\]"
    r"|\]~!?b[\]\[]|\[e~\[|<\s?/?\s?(?:toolcall|available_tools|tool_response)\s?>"
    r"|\[\s?/?\s?(?:INST|SYSTEM_PROMPT|TOOL_\w{1,16}|AVAILABLE_TOOLS|IMG|THINK|g?MASK|sMASK|CLS|SEP)\s?\]",
    re.IGNORECASE,
)
"""Control tokens of common chat formats; some servers read them even inside a message's content."""
_HTML = re.compile(r"</?[a-z][a-z0-9]{0,9}>")
_own_tokens: frozenset[str] = frozenset()
"""Control tokens of the models in use, as far as they are known (`fence_tokens`) and no other pattern covers them."""
_BRACKETED = re.compile(r"\[\s?/?\s?[A-Za-z|｜]|\]~")
_SOFT = str.maketrans("<>[]", "‹›⟦⟧")
_BRACKETS = "＜﹤［"
_SIGNS = ("<", "[", "]~", "&", *_BRACKETS)
"""What tags and control tokens begin with; a text without them is left as it is."""
_DISGUISED = (re.compile(r"&(?:amp;){0,20}(?:[lL][tTsSbB]|#)"), re.compile(r"\[[^\]\s]{3,24}\]"))
"""What a tag in disguise can begin with, besides brackets."""
_ENTITY = re.compile(
    r"&(?:amp;){0,20}(?:(lt|gt|lsqb|rsqb|lbrack|rbrack|vert|verbar|sol)|#0{0,30}(\d{2,6})|#x0{0,30}([\da-f]{2,5}));?",
    re.IGNORECASE,
)
_NAMED = {"lt": "<", "gt": ">", "lsqb": "[", "rsqb": "]", "lbrack": "[", "rbrack": "]", "vert": "|", "verbar": "|"}
_NAMED["sol"] = "/"
_ALIKE = dict(
    zip("аеорсухіјѕһԁԛԝкмнтвгпαεορυινκτωɑɡոսօհ∕⁄⧸¦∣│┃ǀ", "aeopcyxijshdqwkmhtbrnaeopuivktwagnuoh///|||||", strict=True)
)
"""Letters of other alphabets, and signs, that look like Latin letters, slashes and bars."""
_NAME = re.compile(r"LATIN (?:CAPITAL |SMALL )?LETTER (?:SMALL CAPITAL )?([A-Z])(?: WITH .*)?")
"""How Unicode names Latin letters with additions, and small capitals."""
_BLANK = "\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
"""Blank letters and signs that Unicode does not classify as invisible."""
_UNPRINTED = re.compile(r"[\x00-\x08\x0e-\x1b\x7f]")


def fence(text: str, tags: Iterable[str] = TAGS) -> str:
    """The text without anything that could pass for a tag of `tags`, a control token or a change of speaker."""
    if not any(map(text.__contains__, _SIGNS)):
        return text
    pattern, own = _pattern(tuple(tags)), _any_of(_own_tokens) if _own_tokens else None
    text = _softened(text, pattern, own)
    if (not text.isascii() or "&" in text or _UNPRINTED.search(text)) and _may_hide(text):
        plain = _plain(text)  # loses accents, so only a text with a tag in disguise takes it
        if plain != text and any(p.search(plain) for p in (pattern, _CONTROL, own) if p is not None):
            text = _softened(plain, pattern, own)
    return text


def _softened(text: str, pattern: re.Pattern[str], own: re.Pattern[str] | None) -> str:
    if "<" in text:
        text = pattern.sub(_soften, text)
    if own is not None:
        text = own.sub(_soften, text)
    return _CONTROL.sub(_soften, text) if "<" in text or _BRACKETED.search(text) else text


def fence_tokens(control: Iterable[str], added: Iterable[str] = ()) -> None:
    """Fence the tokens of a model's own tokenizer too, from now on: its control tokens, and those added to it.

    Some tokenizers have the tags of HTML among the added ones; those mean nothing to a chat and are left as they are.
    """
    global _own_tokens
    tokens = {*control, *(token for token in added if not _HTML.fullmatch(token))}
    bracketed = (token for token in tokens if ("<" in token or "[" in token) and 2 < len(token) <= 64)
    _own_tokens |= {token for token in bracketed if fence(token) == token}


def wrap(tag: str, text: str) -> str:
    """Environment text in a tag, ours or a user's, fenced."""
    return f"<{tag}>{fence(text, TAGS if tag in TAGS else (*TAGS, tag))}</{tag}>"


@functools.lru_cache(maxsize=256)
def tags_of(template: str) -> tuple[str, ...]:
    """The tags that mean something in a text of a prompt: ours, and what it uses itself."""
    return tuple(dict.fromkeys((*TAGS, *re.findall(r"</?([A-Za-z][\w.-]*)", template))))


def _soften(match: re.Match[str]) -> str:
    return match[0].translate(_SOFT)


def _may_hide(text: str) -> bool:
    return "<" in text or any(map(text.__contains__, _BRACKETS)) or any(p.search(text) for p in _DISGUISED)


@functools.lru_cache(maxsize=64)
def _pattern(tags: tuple[str, ...]) -> re.Pattern[str]:
    """Tags in both dialects, wider than the parser reads them."""
    names = "|".join(sorted(map(re.escape, {*tags, *_SPEAKERS}), key=len, reverse=True))
    xml = rf"<\s{{0,20}}/?\s{{0,20}}(?:{names})(?:[\s/](?:[^<>]*|[^>]{{0,200}}))?>"
    hira = r"<(?=[^<>]{0,90}\|)[\s/|]{0,20}(?:begin|end)_[a-z_]{1,42}[\s/|]{0,20}>"
    return re.compile(f"{xml}|{hira}", re.IGNORECASE)


@functools.lru_cache(maxsize=8)
def _any_of(tokens: frozenset[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))), re.IGNORECASE)


def _plain(text: str) -> str:
    """The text as it looks: entities decoded, compatibility forms and lookalikes as ASCII, invisible signs left out."""
    return _ENTITY.sub(_decoded, text).translate(_table()) if "&" in text else text.translate(_table())


def _decoded(match: re.Match[str]) -> str:
    name, decimal, hexadecimal = match.groups()
    if name:
        return _NAMED[name.lower()]
    code = int(decimal) if decimal else int(hexadecimal, 16)
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else match[0]


@functools.cache
def _table() -> dict[int, str | None]:
    """What each odd character looks like; None for what cannot be seen."""
    table: dict[int, str | None] = {}
    forms = ((0xFE50, 0xFE70), (0xFF01, 0xFF5F), (0x1D400, 0x1D800), (0x2070, 0x2150), (0x24B6, 0x24EA))
    for low, high in (*forms, (0xC0, 0x300), (0x1D00, 0x1DC0), (0x1E00, 0x1F00), (0x2C60, 0x2C80), (0xA720, 0xA800)):
        for code in range(low, high):
            form = unicodedata.normalize("NFKD", chr(code))
            if form[0].isascii() and all(map(unicodedata.combining, form[1:])):
                table[code] = form[0]
            elif letter := _NAME.fullmatch(unicodedata.name(chr(code), "")):
                table[code] = letter[1].lower()
    for first in (0x1F130, 0x1F150, 0x1F170, 0x1F1E6):  # in squares and circles
        table |= {first + at: chr(ord("a") + at) for at in range(26)}
    marks = ((0x300, 0x370), (0x1AB0, 0x1B00), (0x1DC0, 0x1E00), (0x20D0, 0x2100), (0xFE00, 0xFE10))
    for low, high in (*marks, (0x1D173, 0x1D17B), (0xE0000, 0xE1000)):
        table |= dict.fromkeys(range(low, high))
    table |= dict.fromkeys(code for code in range(0x80, 0x10000) if unicodedata.category(chr(code)) == "Cf")
    table |= dict.fromkeys(
        (*map(ord, _BLANK), *range(0x09), *range(0x0E, 0x1C), *range(0x7F, 0x85), *range(0x86, 0xA0))
    )
    table |= {ord(letter): latin for letter, latin in _ALIKE.items()}
    return table | {ord(letter.upper()): latin.upper() for letter, latin in _ALIKE.items()}
