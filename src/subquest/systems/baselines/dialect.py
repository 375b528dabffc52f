"""Dialects: how one monolithic search agent speaks.

A dialect is tags, a stop rule, the form in which documents come back, and a folder of prompts. Checkpoints that other
projects have published are served behind the same agent, each in the dialect it was trained in. A dialect of one's own
is a folder with `agent.md` and a `dialect.toml`:

    search = "query"                                    # <query>...</query>, or <|begin_x|>...<|end_x|> for a tag "x"
    observation = "\\n<found>$documents</found>\\n"
    stop = ["</query>", "</answer>"]
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ...codec import checked
from ...engine import Engine, Mode
from ...engine.actions import Action as Tool
from ...errors import UsageError, suggest
from ...input_file import read_toml
from ...protocol import fence, parse, tags_of
from ...record import Document
from ...runtime.actions import ANSWER, BOXED, SEARCH
from ...runtime.rendering import cut_to_tokens, one_line
from ...runtime.replies import boxed
from ...runtime.window import Groups, Shown, Text


class Action(NamedTuple):
    """What a turn does: it searches, or it answers."""

    queries: tuple[str, ...] = ()
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Dialect:
    name: str
    search: str = "search"
    """Tag of a query."""
    answer: str = "answer"
    r"""Tag of the answer; "boxed" if it is in `\boxed{}`."""
    observation: str = "\n\n<information>$documents</information>\n\n"
    document: str = "Doc $number(Title: $title) $text\n"
    mode: Mode = "completion"
    """completion: documents continue the model's own turn. chat: they come as the next user turn."""
    stop: tuple[str, ...] = ("</search>", "</answer>")
    calls: bool = False
    """The query tag holds a JSON tool call with a `query` (or `queries`) among its `arguments`."""
    turns: int = 4
    k: int = 3
    prompts: str = ""
    """Folder of its prompts, ours by name or the user's by path; if empty, the one with its own name."""

    @property
    def folder(self) -> Path:
        given = Path(self.prompts or self.name)
        return given if given.is_absolute() else Path(__file__).parent / "prompts" / given

    @property
    def stops(self) -> tuple[str, ...]:
        """Where a turn ends: at its actions, and where the model begins to write documents itself."""
        own = re.findall(r"</?\w+>|<\|\w+\|>", self.observation) if self.mode == "completion" else ()
        return tuple(dict.fromkeys((*self.stop, *own)))

    @property
    def tags(self) -> tuple[str, ...]:
        """Every tag that means something in this dialect, for parsing turns and for fencing documents."""
        return tuple(dict.fromkeys((*tags_of(self.observation), self.search, self.answer)))

    def actions(self) -> tuple[Tool, ...]:
        """Searching and answering as tools, written as this dialect writes them."""
        opening, closing = self._written(self.search)
        if self.calls:
            opening, closing = f'{opening}{{"name": "search", "arguments": {{"query": ', f"}}}}{closing}"
        search = replace(SEARCH, opening=opening, closing=closing, quoted=self.calls)
        if self.answer == "boxed":
            return search, BOXED
        opening, closing = self._written(self.answer)
        return search, replace(ANSWER, opening=opening, closing=closing)

    def _written(self, tag: str) -> tuple[str, str]:
        """The two ends of a tag; in HiRA's form if there is a stop string of that form."""
        if f"<|end_{tag}|>" in self.stop:
            return f"<|begin_{tag}|>", f"<|end_{tag}|>"
        return f"<{tag}>", f"</{tag}>"

    def action(self, text: str) -> Action | None:
        """The first query or answer of a turn; None if it holds neither."""
        search, answer = self.search.lower(), self.answer.lower()  # as the parser calls them
        parsed = parse(text, map(str.lower, self.tags))
        block = parsed.first(search, answer)
        if block is None or not block.content:
            found = boxed(text) if self.answer == "boxed" else ""
            return Action(answer=found) if found else None
        if block.tag == answer:
            return Action(answer=boxed(block.content) or block.content)
        queries = _called(block.content) if self.calls else (" ".join(block.content.split()),)
        return Action(queries) if queries else None

    def observe(self, found: Sequence[Sequence[Document]], tokens: int, engine: Engine) -> Shown[str]:
        """Documents as this dialect shows them, fenced; several queries give several blocks."""

        def render(groups: Groups, nothing: str) -> str:
            return "".join(self.frame(self._listed(documents, tokens, engine) or nothing) for documents in groups)

        return Shown([list(documents) for documents in found], render, tokens)

    def frame(self, text: str) -> str:
        """A text in place of documents."""
        return self.observation.replace("$documents", fence(text, self.tags))

    def after(self, turn: str, observed: Text) -> Text:
        """What an agent is told after a turn; without the part that the stop string already wrote."""
        if isinstance(observed, Shown):
            render = observed.render
            return replace(observed, render=lambda groups, nothing: self._after(turn, render(groups, nothing)))
        return self._after(turn, observed)

    def _after(self, turn: str, observed: str) -> str:
        if self.mode == "chat":
            return observed
        rest = observed.lstrip()
        begun = (stop.lstrip() for stop in self.stops if turn.endswith(stop))
        return next((rest.removeprefix(stop) for stop in begun if rest.startswith(stop)), observed)

    def _listed(self, documents: Sequence[Document], tokens: int, engine: Engine) -> str:
        lines = []
        for number, document in enumerate(documents, 1):
            text = cut_to_tokens(one_line(document.text), tokens, engine)
            fields = {"number": str(number), "title": one_line(document.title), "text": text}
            lines.append(re.sub(r"\$(number|title|text)", lambda m, f=fields: f[m[1]], self.document))  # type: ignore[misc]
        return "".join(lines)


def _called(content: str) -> tuple[str, ...]:
    """The queries of a JSON tool call; empty if it is not one."""
    try:
        arguments = json.loads(content)["arguments"]
        if isinstance(arguments, str):
            arguments = json.loads(arguments)
        given = arguments.get("query", arguments.get("queries"))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ()
    queries = given if isinstance(given, list) else [given]
    return tuple(q.strip() for q in queries if isinstance(q, str) and q.strip())


SEARCH_R1 = Dialect("search-r1")
AUTOREFINE = Dialect("autorefine", observation="\n\n<documents>$documents</documents>\n\n", turns=5)
ZEROSEARCH = Dialect("zerosearch", k=5, prompts="search-r1")
STEPSEARCH = Dialect("stepsearch", turns=5, prompts="search-r1")
RESEARCH = Dialect("research", observation="<result>\n$documents</result>", k=5, turns=8)
RECALL = Dialect(
    "recall",
    search="tool_call",
    calls=True,
    observation="<tool_response>\n$documents</tool_response>",
    mode="chat",
    stop=("</tool_call>", "</answer>"),
    k=5,
    turns=8,
)
R1_SEARCHER = Dialect(
    "r1-searcher",
    search="of_query",
    observation="\n\n<|begin_of_documents|>\n$documents<|end_of_documents|>\n\n",
    document="($number)$title\n$text\n",
    stop=("<|end_of_query|>", "</answer>"),
    k=5,
    turns=8,
)
SIMPLE_DEEP_SEARCHER = Dialect(
    "simpledeepsearcher",
    search="search_query",
    answer="boxed",
    observation="\n\n<|begin_search_result|>\n$documents<|end_search_result|>\n\n",
    stop=("<|end_search_query|>",),
    k=5,
    turns=10,
)
DIALECTS: dict[str, Dialect] = {
    d.name: d
    for d in (
        SEARCH_R1,
        AUTOREFINE,
        ZEROSEARCH,
        STEPSEARCH,
        RESEARCH,
        RECALL,
        R1_SEARCHER,
        SIMPLE_DEEP_SEARCHER,
    )
}


def find_dialect(name: str) -> Dialect:
    """One of ours by name, or the user's by its folder."""
    if name in DIALECTS:
        return DIALECTS[name]
    file = Path(name) / "dialect.toml"
    if file.is_file():
        return _read(file)
    hint = suggest(name, DIALECTS, f"there are {', '.join(DIALECTS)}, or a folder with dialect.toml")
    raise UsageError(f"there is no dialect {name!r}; {hint}")


def _read(file: Path) -> Dialect:
    given = read_toml(file)
    own = {"name": file.parent.name, "prompts": str(file.parent.resolve())}
    if fixed := sorted(own.keys() & given.keys()):
        raise UsageError(f"{file}: remove {fixed[0]!r}: it is given by the folder")
    dialect = checked(Dialect, given | own, str(file))
    if "$documents" not in dialect.observation:
        raise UsageError(f"{file}: observation needs $documents, where the documents are inserted")
    return dialect
