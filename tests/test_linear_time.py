"""What a model or a document says is read in time that grows with its length, and no faster: every parser runs on the
event loop of a server, where a text that takes the square of its length would stop everyone's episodes."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import io
import re
from collections.abc import Callable
from typing import cast

import pytest

from subquest.engine.actions import Action
from subquest.engine.interface import Generation
from subquest.engine.openai.reply import Assembler, Reply, ending
from subquest.engine.scripted import ScriptedEngine
from subquest.judge.cases import AnswerCase, StepCase, read_verdict
from subquest.judge.rules import judge_answer, judge_step
from subquest.judge.text_facts import dates, in_digits, is_date_only, names, numbers, quantities
from subquest.limits import Repeats
from subquest.metrics import contains_answer, normalize, score_answer
from subquest.protocol import fence, parse, tags_of, wrap
from subquest.protocol.loose_json import find_object
from subquest.protocol.text_calls import find_calls
from subquest.question_writing import checks
from subquest.readers.records import columns_of_lines, read_json
from subquest.record import Document, Hit, Segment, Trajectory
from subquest.retrieval.analysis import Analysis
from subquest.retrieval.highlight import highlight
from subquest.retrieval.passages import Passages
from subquest.retrieval.rerank import parse_order
from subquest.retrieval.splitter import unwrapped
from subquest.retrieval.titles import title_words
from subquest.runtime.answer_kind import things_asked
from subquest.runtime.barrier import Barrier
from subquest.runtime.code_session import bare_code
from subquest.runtime.context import Context
from subquest.runtime.counts import counted_in
from subquest.runtime.evidence import Finding, sentences, support, support_of
from subquest.runtime.excerpts import excerpts
from subquest.runtime.rendering import cut_to_tokens, one_line
from subquest.runtime.replies import answer_in, boxed, decides, declines, hedges, said
from subquest.runtime.tool_loop import calls
from subquest.runtime.toolkit import with_part
from subquest.runtime.turn import Turn
from subquest.runtime.unread_numbers import unread_numbers
from subquest.runtime.voting import normalize_answer
from subquest.systems.apex.plan import lines_of, make_plan, numbered_lines
from subquest.systems.baselines.dialect import DIALECTS
from subquest.systems.baselines.react import REACT
from subquest.systems.baselines.zerosearch import _documents
from subquest.systems.coda.reward import tags_balance
from subquest.systems.hira.coordinator import named_in
from subquest.systems.hira.deep_search import _information
from subquest.systems.hira.experts import EXPERTS, look_at
from subquest.systems.hira.memory import Memory

from . import timing


def between(unit: str, begin: str = "", end: str = "") -> Callable[[int], str]:
    """Makes texts of a unit over and over, with something before and after it."""
    return lambda size: f"{begin}{(unit * (size // len(unit) + 1))[:size]}{end}"


UNITS = {
    "blanks": " ",
    "line breaks": "\n",
    "lines of blanks": "  \n",
    "short lines": "a\n",
    "letters": "a",
    "words": "all of it ",
    "capitals": "A",
    "names": "Ada ",
    "initials": "A.",
    "digits": "1",
    "thousands": "1,",
    "decimals": "1.",
    "years": "1999 ",
    "number words": "one ",
    "hundreds": "hundred and ",
    "hyphens": "-",
    "months": "May ",
    "brackets": "[",
    "brackets and slashes": "[/",
    "closing brackets": "]",
    "references": "[1]",
    "parentheses": "(",
    "angle brackets": "<",
    "closing angle brackets": ">",
    "half-open tags": "<answer",
    "tags left open": "<answer ",
    "opening tags": "<search>",
    "thoughts": "<think>",
    "closing tags": "</think>",
    "tags": "<search>a</search>",
    "crossed tags": "<search><answer></search>",
    "half-open tokens": "<|begin_",
    "tokens left open": "<|begin_search_query",
    "opening tokens": "<|begin_search_query|>",
    "closing tokens": "<|end_search_query|>",
    "tool calls": "<tool_call>{",
    "quotes": '"',
    "apostrophes": "'",
    "closing quotes": "”",
    "backslashes": "\\",
    "braces": "{",
    "closing braces": "}",
    "objects": '{"a":',
    "lists of objects": "[{",
    "single-quoted objects": "{'a':1},",
    "fences": "```",
    "fences of JSON": "```json\n{",
    "hashes": "#",
    "hash and blank": "# ",
    "references to steps": "#1 ",
    "comments": "//",
    "dots": ".",
    "sentences": "It is. ",
    "dots and quotes": '."',
    "commas": ",",
    "commas and blanks": ", ",
    "colons": ":",
    "stars": "*",
    "bullets": "- a\n",
    "numbered lines": "1. a\n",
    "boxes": "\\boxed{",
    "half-open boxes": "\\boxed",
    "texts in boxes": "\\boxed{\\text{",
    "actions": "Action: search[",
    "numbered actions": "Action 1",
    "lines of actions": "Action:\n",
    "labels": "answer:",
    "data": "data:",
    "data with a blank": "data: a ",
    "questions": "question:",
    "documents": "Doc 1",
    "sources": "[source:",
    "failures": "search ",
    "memories": "memory 1 ",
    "entities": "&amp;",
    "brackets as entities": "&lt;",
    "numbers as entities": "&#0",
    "Chinese": "漢",
    "Chinese sentences": "。",
    "combining characters": "\u0301",
    "accents apart": "e\u0301",
    "invisible characters": "\u200b",
    "full-width tags": "＜ａ＞",
    "Thai": "ก",
    "emoji": "🙂",
}
"""What a text is made of, over and over."""
MADE: dict[str, Callable[[int], str]] = {
    **{name: between(unit, end="x") for name, unit in UNITS.items()},
    "a bracket and blanks": between(" ", "<", "x"),
    "a label and colons": between(":", "answer"),
    "a heading and blanks": between(" ", "# a", "b"),
    "a call and blanks": between(" ", "data: a", "b"),
    "an object and hashes": between("#", "{", '"'),
    "an object and slashes": between("/", "{", "'"),
    "an action and brackets": between("]", "Action: search[", "x"),
    "an open box": between("{}", "\\boxed{"),
    "a long answer": between("Ada ", "<answer>", "</answer>"),
    "a long call": between("a", '<tool_call>{"arguments": {"query": "', '"}}</tool_call>'),
    "different numbers": lambda size: "".join(f"{n} " for n in range(10_000, 10_000 + size // 6)),
    "different names": lambda size: "".join(f"N{n}. " for n in range(size // 8)),
    "different lines": lambda size: "".join(f"{n}. What is {n} of #{n % 7}?\n" for n in range(size // 24)),
    "different hyphens": lambda size: "".join(f"A{n}-b{n}'s " for n in range(size // 14)),
}
"""Texts of about a given length, by name."""
SIZES = (300, 3_000, 30_000, 300_000)
MOST = 30
"""A text of ten times the length may take so many times as long: ten, and three for caches and a busy machine."""
LEAST = 0.00005
"""Seconds of CPU below which a reading tells of the clock alone."""
ENOUGH = MOST * LEAST
"""Seconds from which on no longer text is tried: what takes the square of the length has been found by then."""


def turn(text: str) -> Turn:
    return Turn(text, parse(text), Generation(text, "end"))


def document(text: str) -> Document:
    return Document("d", "Ada Vale", text)


def step(role: str, text: str) -> StepCase:
    return StepCase(role, "1", "Where was Ada Vale born?", ("Paris",), text, text, memory=("Ada Vale is 41.",))


def remembered(text: str) -> None:
    memory = Memory()
    memory.add_fact("Ada Vale was born in Paris. [Source: d]")
    memory.add_fact(text)
    memory.add_resource("a page", text)
    memory.chosen(text, 5)
    memory.relevant(text, 5)


def streamed(text: str) -> dict[str, object]:
    """A reply and a call, a piece of four characters at a time."""
    assembler = Assembler()
    for at in range(0, len(text), 4):
        call = {"index": 0, "function": {"arguments": text[at : at + 4]}}
        assembler.add({"choices": [{"delta": {"content": text[at : at + 4], "tool_calls": [call]}}]})
    return assembler.whole()


def looked(text: str) -> None:
    async def look(*given: object) -> str:
        return ""

    asyncio.run(look_at(look, cast("Context", None), text))


def answered(finding: Finding) -> None:
    support_of("Ada", "Where was the mother of Eve Hall born?", [finding])


def counted(text: str) -> None:
    support_of("1", "How many cats has Ada in total?", [Finding("", "", "", [document(f"Ada has 1 {text}")])])


ENGINE = ScriptedEngine([])
PARSERS: dict[str, Callable[[str], object]] = {
    "parse": parse,
    "fence": fence,
    "wrap": functools.partial(wrap, "documents"),
    "tags_of": tags_of.__wrapped__,
    **{f"dialect {d.name}": d.action for d in (*DIALECTS.values(), REACT)},
    **{f"dialect {d.name} observes": d.frame for d in (DIALECTS["research"], REACT)},
    "tool calls": lambda text: calls(turn(text), "search_query", "code_call"),
    "calls that were cut off": lambda text: calls(
        dataclasses.replace(turn(text), generation=Generation(text, "length")), "search_query"
    ),
    "boxed": boxed,
    "declines": declines,
    "hedges": hedges,
    "decides": lambda text: decides(turn(text), "retrieve", "stop", default=True),
    "answer_in": lambda text: answer_in(turn(text)),
    "said": lambda text: said(turn(text)),
    "lines_of": lines_of,
    "numbered_lines": numbered_lines,
    "make_plan": lambda text: make_plan(lines_of(text), "Who?", 5),
    "make_plan of one line": lambda text: make_plan([text], "Who?", 5).steps[0].resolve({0: text[:100]}, []),
    "find_object": find_object,
    "find_calls": lambda text: find_calls(text, ("a", "search")),
    "calls to look": looked,
    "information": _information,
    "experts named": lambda text: named_in(text, EXPERTS),
    "memory": remembered,
    "bare_code": bare_code,
    "with_part": with_part,
    "sentences": sentences,
    "excerpts": lambda text: excerpts([Hit(document(text), 1.0), Hit(document("Ada is 41."), 1.0)], "Who is Ada?", 50),
    "support": lambda text: support([Finding("Where was she born?", "Paris", "", [document(text)])]),
    "support of a long result": lambda text: support([Finding(text, text, text, [document(f"It is {text}.")])]),
    "support of an answer": lambda text: answered(Finding("", "", "", [document(text)])),
    "support of a sub-task": lambda text: answered(Finding("Where was she born?", "Ada", "", [document(text)])),
    "support of a list": lambda text: support_of(text, "Who and who?", [Finding("", "", "", [document("Ada, Bo.")])]),
    "support of a count": counted,
    "things asked": things_asked.__wrapped__,
    "what is counted": lambda text: counted_in.__wrapped__(f"How many {text}"),
    "barrier": lambda text: Barrier("Who?").cut(text, {"d": document(text)}),
    "barrier that lets pass": lambda text: Barrier("Who?").cut(text, {"d": document("no " * 60)}),
    "one_line": one_line,
    "numbers of a result": lambda text: unread_numbers(text, ["1999"]),
    "numbers that were read": lambda text: unread_numbers("12345, 23456", [text]),
    "cut_to_tokens": lambda text: cut_to_tokens(text, 100, ENGINE),
    "voting": normalize_answer,
    "repeats": lambda text: Repeats().count(text),
    "normalize": normalize,
    "score_answer": lambda text: score_answer(text, [text, "Paris"]),
    "contains_answer": lambda text: contains_answer(text, "in Paris"),
    "names": names,
    "numbers": numbers,
    "dates": dates,
    "is_date_only": is_date_only,
    "quantities": quantities,
    "in_digits": in_digits,
    "verdict": read_verdict,
    **{f"rules of the {r}": lambda text, r=r: judge_step(step(r, text)) for r in ("planner", "filter", "answerer")},
    "answer rules": lambda text: judge_answer(AnswerCase("When?", ("5 May 1999", "12 km", "Ada Vale"), text)),
    "tags_balance": lambda text: tags_balance(Trajectory("1", "planner", "", segments=(Segment("agent", text),))),
    "endings": lambda text: ending(Reply(text, "stop"), ("</search>", "<|end_search_query|>"), server_tells=False),
    "streams": streamed,
    "arguments of calls": Action("search", "", "query").argument_of,
    "reranking": lambda text: parse_order(text, 10),
    "simulated documents": _documents,
    "passages of Markdown": lambda text: list(Passages("a.md").of_lines(text.splitlines(keepends=True))),
    "records": lambda text: list(read_json(io.BytesIO(f'[{{"a": "b"}}, {text}'.encode()))),
    "lines of records": lambda text: columns_of_lines(io.BytesIO(text.encode()), ()),
    "unmarked passages": lambda text: list(Passages("a.md").of_lines(text.splitlines(keepends=True), marks=True)),
    "passages of text": lambda text: list(Passages("a.txt").of_lines(text.splitlines(keepends=True), markdown=False)),
    "unwrapped": unwrapped,
    "terms": Analysis().terms,
    "titles": lambda text: title_words(text, Analysis()),
    "written questions": checks.read_pairs,
    "a written question": lambda text: checks.question_flaw(f"Who is {text}?", "Ada Vale", document("Ada Vale is 41.")),
    "a passage asked about": lambda text: checks.question_flaw("Who was born long ago?", "Ada Vale", document(text)),
    "an answer in a passage": lambda text: checks.as_written("Ada Vale", text),
    **{
        f"others for {a}": lambda text, a=a: checks.alternatives(a, document(text), "When?")
        for a in ("5 May 1999", "A B")
    },
    "highlight": lambda text: highlight(text, "Ada one May search 漢漢", Analysis()),
}
"""Everything that reads what others wrote, by name."""


def seconds(parser: Callable[[str], object], text: str, tries: int) -> float:
    return timing.seconds(lambda: parser(text), tries, before=timing.clear_caches)


def grows_too_fast(parser: Callable[[str], object], make: Callable[[int], str]) -> str:
    """Which length takes too long for the time that a tenth of it takes; empty where none does.

    A parser may leave short texts aside, so that one length takes far longer than its tenth. Its time grows too fast
    where the next length does so again, or where there is no longer one.
    """
    before, found = seconds(parser, make(SIZES[0]), 1), ""
    for size in SIZES[1:]:
        now = seconds(parser, make(size), 1)
        for tries in (3, 5, 9):  # again, with more care: it may have been the machine
            if now <= MOST * max(before, LEAST):
                break
            before, now = seconds(parser, make(size // 10), 2 * tries), seconds(parser, make(size), tries)
        if now > MOST * max(before, LEAST):
            told = f"{size // 10:,} characters take {before:.4f} s, {size:,} take {now:.4f} s"
            if found or size == SIZES[-1]:
                return f"{found}{told}"
            found = f"{told}; "
        elif now > ENOUGH:
            break
        else:
            found = ""
        before = now
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("name", PARSERS)
def test_reading_takes_time_by_the_length_of_the_text(name: str) -> None:
    found = {shape: grows_too_fast(PARSERS[name], make) for shape, make in MADE.items()}
    assert {shape: words for shape, words in found.items() if words} == {}


DOCUMENTS: dict[str, Callable[[int], str]] = {
    "sentences that say the same": between("Ada. "),
    "one sentence": between("Ada Vale 1, "),
    "rows of a table": lambda size: "".join(f"Name: N{n}; Mother: Ada; Born: {n}\n" for n in range(size // 32)),
    "sentences that lead to others": lambda size: (
        "".join(f"N{n} was born in Ada. " for n in range(size // 50))
        + "".join(f"M{n} is the mother of Eve Hall. " for n in range(size // 65))
    ),
}
"""Documents in which much has to be compared, of about a given length, by name."""


@pytest.mark.slow
@pytest.mark.parametrize("task", ["", "Where was the mother born?"])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_support_takes_time_by_the_length_of_the_documents(name: str, task: str) -> None:
    def reading(size: int) -> Callable[[], object]:
        finding = Finding(task, "Ada" if task else "", "", [Document("d", "", DOCUMENTS[name](size))])
        return lambda: answered(finding)

    # four times as long, and twice that for caches and a busy machine
    assert timing.slower(reading(60_000), reading(15_000), most=8, least=0.001, before=timing.clear_caches) == ""


@pytest.mark.slow
def test_a_parser_that_goes_back_for_every_character_is_found() -> None:
    slow = re.compile(r"\s+$")
    assert "3,000 characters" in grows_too_fast(slow.search, between(" ", end="x"))
    assert grows_too_fast(str.split, between(" ", end="x")) == ""
