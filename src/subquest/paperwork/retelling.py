"""Worlds retold: a model writes articles and questions in other words; kept only where every fact survives.

An article is kept if the words that state each fact stand in it, it has no number or name that the old one lacks, and
at most half of its sentences are the old ones. A question is kept if it has its names, gives nothing away, and the
model answers it rightly from the articles that support it. What is not kept stays as it was, so a retold world holds
the same facts, and `subquest world check` proves it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from ..data.self_instruct import ANSWER, ask, mentions, names_in, same_answer
from ..engine.interface import Engine, Sampling
from ..errors import UsageError
from ..output_file import complete_file
from ..record import Question
from ..worlds.random_stream import RandomStream, digest
from ..worlds.world_folder import FILES, ArticleRow, FactsRow, read_articles_with_facts, read_questions
from .fact_check import DIFFERENT, LONG, LOST, NAME, NUMBER, SHORT
from .papers import unfenced
from .wording import LEAK, MALFORMED, UNCHANGED
from .writing import REWORD, REWORD_EXAMPLES

RETELL = """You write an article in other words: other sentences, another order, other turns of phrase. Keep every \
name, number and date exactly as it is written. Keep all facts and add none. Reply with the article only, without a \
title."""
STYLES = (
    "a page of a guide book",
    "a portrait in a magazine",
    "the notes of a lecturer",
    "a reply to a reader's letter",
    "a plain entry of a handbook",
    "a talk on the radio",
)
VERBATIM = 0.5
"""Share of an article's sentences that may stay as they were."""
_NUMBER = re.compile(r"\d[\d,.]*\d|\d")


@dataclass(slots=True)
class Retold:
    """How much of a world was retold, and why the rest was not."""

    articles: int = 0
    questions: int = 0
    refused: Counter[str] = field(default_factory=Counter)


def retelling_flaw(text: str, article: ArticleRow, facts: FactsRow) -> str:
    """Why a retold article is not as good as the old one; empty where it is."""
    old = article.text
    if len(text.split()) < 0.5 * len(old.split()):
        return SHORT
    if len(text.split()) > 2 * len(old.split()):
        return LONG
    told = re.split(r"(?<=[.!?])\s+", old.strip())
    if sum(sentence in text for sentence in told) > VERBATIM * len(told):
        return UNCHANGED
    if any(_place(text, words) < 0 for words in (facts.name, *(old[start:end] for *_, start, end in facts.facts))):
        return LOST
    if not set(_NUMBER.findall(text)) <= set(_NUMBER.findall(old)):
        return NUMBER
    known = set(re.findall(r"\w+", f"{article.title} {old}"))
    if any(word not in known for name in names_in(text) for word in re.findall(r"\w+", name)):
        return NAME
    return ""


def moved(text: str, article: ArticleRow, facts: FactsRow) -> FactsRow:
    """The facts with their places in the new text; those that the same words state share one."""
    found = []
    for subject, relation, value, start, end in facts.facts:
        at = _place(text, article.text[start:end])
        found.append((subject, relation, value, at, at + end - start))
    return replace(facts, facts=found)


def _place(text: str, words: str) -> int:
    """Where words stand in a text, exactly and not as a part of others; -1 if nowhere."""
    found = re.search(rf"(?<![\w.,]){re.escape(words)}(?![\w])(?!,\d)", text)
    return found.start() if found else -1


async def retell(
    engine: Engine, folder: Path, out: Path, *, seed: int = 0, concurrency: int = 64, seconds: float | None = None
) -> Retold:
    """Writes the world retold into another folder. After `seconds`, what was not retold stays as it was."""
    if out.exists() and any((out / name).exists() for name in FILES) and out.resolve() == folder.resolve():
        raise UsageError(f"{out} is the world itself; choose another folder")
    rows = list(read_articles_with_facts(folder))
    questions = list(read_questions(folder))
    asked: defaultdict[str, int] = defaultdict(int)
    for question in questions:
        for id in question.supporting_ids:
            asked[id] += 1
    teller = _Teller(engine, seed, concurrency)
    articles = {article.id: (article, facts) for article, facts in rows}
    order = sorted(articles, key=lambda id: -asked[id])

    async def work() -> None:
        await asyncio.gather(*(teller.article(*articles[id]) for id in order))
        texts = {a.title: teller.texts.get(a.id, a.text) for a, _ in rows}
        await asyncio.gather(*(teller.question(q, texts) for q in questions if q.decomposition and q.answers))

    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(work(), seconds)
    out.mkdir(parents=True, exist_ok=True)
    told = [
        (replace(a, text=teller.texts[a.id]), moved(teller.texts[a.id], a, f)) if a.id in teller.texts else (a, f)
        for a, f in rows
    ]
    made = [teller.questions.get(q.id, q) for q in questions]
    _write(folder, out, [a for a, _ in told], [f for _, f in told], made)
    return Retold(len(teller.texts), len(teller.questions), teller.refused)


class _Teller:
    def __init__(self, engine: Engine, seed: int, concurrency: int) -> None:
        self._engine, self._seed = engine, seed
        self._gate = asyncio.Semaphore(concurrency)
        self.texts: dict[str, str] = {}
        self.questions: dict[str, Question] = {}
        self.refused: Counter[str] = Counter()

    async def article(self, article: ArticleRow, facts: FactsRow) -> None:
        reason = ""
        for attempt in range(2):
            key = digest(self._seed, article.id, attempt) & 0x7FFFFFFF
            tokens = 120 + 3 * len(article.text.split())
            how = Sampling(max_tokens=tokens, temperature=0.7, top_p=0.95, seed=key)
            user = f"Write it as {RandomStream(key).pick(STYLES)}.\n\n{article.title}\n\n{article.text}"
            async with self._gate:
                reply = await ask(self._engine, RETELL, user, how)
            text = unfenced(reply).strip()
            reason = retelling_flaw(text, article, facts)
            if not reason:
                self.texts[article.id] = text
                return
        self.refused[f"article: {reason}"] += 1

    async def question(self, question: Question, texts: dict[str, str]) -> None:
        how = Sampling(max_tokens=90, temperature=0.7, top_p=0.95, seed=digest(self._seed, question.id) & 0x7FFFFFFF)
        async with self._gate:
            made = " ".join((await ask(self._engine, REWORD, question.question, how, REWORD_EXAMPLES)).split())
            reason = question_flaw(made, question)
            if not reason:
                articles = "\n\n".join(f"{title}\n{texts[title]}" for title in question.supporting_titles)
                user = f"Article:\n{articles}\nQuestion: {made}"
                reply = await ask(self._engine, ANSWER, user, Sampling(max_tokens=40))
                found = re.search(r"<answer>(.*?)(?:</answer>|$)", reply, re.DOTALL)
                given = found[1] if found else reply
                reason = "" if any(same_answer(given, answer) for answer in question.answers) else DIFFERENT
        if reason:
            self.refused[f"question: {reason}"] += 1
        else:
            self.questions[question.id] = replace(question, question=made)


def question_flaw(made: str, question: Question) -> str:
    """Why a wording is not as good as the old one; empty where it is."""
    if made == question.question:
        return UNCHANGED
    if not made.endswith("?") or made.count("?") > 2 or len(made.split()) > 80:
        return MALFORMED
    if any(name not in made for name in names_in(question.question)):
        return LOST
    answers = [*question.answers, *(step.answer for step in question.decomposition)]
    told = [a for a in answers if len(a) > 3 and mentions(made, a) and not mentions(question.question, a)]
    return LEAK if told else ""


def _write(
    folder: Path, out: Path, articles: Sequence[ArticleRow], facts: Sequence[FactsRow], questions: Sequence[Question]
) -> None:
    rows: dict[str, Iterable[Any]] = {"corpus.jsonl": articles, "facts.jsonl": facts, "questions.jsonl": questions}
    files = {}
    for name in FILES:
        if name in rows:
            block = msgspec.json.Encoder().encode_lines(rows[name])
        else:
            block = (folder / name).read_bytes()
        with complete_file(out / name) as scratch:
            scratch.write_bytes(block)
        files[name] = {"lines": block.count(b"\n"), "sha256": hashlib.sha256(block).hexdigest()}
    manifest = json.loads((folder / "world.json").read_text(encoding="utf-8"))
    with complete_file(out / "world.json") as scratch:
        scratch.write_text(json.dumps({**manifest, "files": files, "retold": True}, indent=1) + "\n", encoding="utf-8")
