"""A language model as a judge: our own instructions, temperature 0, replies cached and counted.

The instructions are files in `prompts/`: three for answers (`equivalence`; `core` for long answers from the web;
`decor`, strict about dates, numbers and units) and one for each of DECOR's roles. A reply that is neither yes nor no
is asked for once more and then left undecided. Undecided replies and failed calls are never cached.

What is judged is put on one line: an answer cannot begin a line that looks like another field of the instruction, such
as a reference answer of its own making.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from ..codec import utf8
from ..data.registry import match_set
from ..engine import Engine, Message, Sampling
from ..engine.openai import OpenAIEngine
from ..errors import DataError, UsageError
from ..record import Episode, Usage
from ..runtime.prompts import Prompts
from ..runtime.rendering import one_line
from .cases import AnswerCase, StepCase, Verdict, read_verdict

Instruction = Literal["equivalence", "core", "decor"]
INSTRUCTIONS: tuple[Instruction, ...] = ("equivalence", "core", "decor")
_LONGEST = 24_000
"""Characters of one field; what is longer is cut in its middle, so that beginning and end stay."""


BY_SET = "by set"
"""In place of an instruction: each answer is judged by that of its data set."""


def case_of(episode: Episode, instruction: str = BY_SET) -> AnswerCase:
    """An episode's answer, to be judged by the instruction named or by that of its data set (WebWalkerQA: core)."""
    question = episode.question
    if instruction == BY_SET:
        entry = match_set(question.dataset) or match_set(str(question.meta.get("data_source", "")))
        instruction = entry.judge if entry else ""
    return AnswerCase(question.question, question.answers, episode.stated_answer, instruction)


class ModelJudge:
    """Judges answers and steps with any engine."""

    def __init__(
        self,
        engine: Engine,
        *,
        instruction: Instruction = "equivalence",
        cache: str | Path | None = None,
        prompts: str | Path | None = None,
        concurrency: int = 16,
        max_tokens: int = 256,
    ) -> None:
        """`cache` is a file that keeps verdicts between runs; `prompts` a folder whose files replace ours."""
        if instruction not in INSTRUCTIONS:
            raise UsageError(f"unknown instruction {instruction!r}: {', '.join(INSTRUCTIONS)}")
        self.engine = engine
        self.instruction = instruction
        self.usage = Usage()
        self.cached = 0
        """Verdicts that came from the cache."""
        self.undecided = 0
        """Verdicts that stayed open because the model said neither yes nor no."""
        self._prompts = Prompts(Path(__file__).parent / "prompts", Path(prompts) if prompts else None)
        self._cache = Cache(cache)
        self._gate = asyncio.Semaphore(concurrency)
        self._sampling = Sampling(max_tokens=max_tokens, temperature=0.0)

    async def judge_answers(self, cases: Sequence[AnswerCase]) -> list[Verdict]:
        """One verdict a case. A blank prediction is wrong without asking."""
        asked = {
            at: self._prompts.messages(
                c.instruction or self.instruction,
                question=one_line(c.question),
                answers=_listed(c.answers),
                prediction=_cut(one_line(c.prediction)),
            )
            for at, c in enumerate(cases)
            if c.prediction.strip()
        }
        verdicts = dict(zip(asked, await self._ask_all(list(asked.values())), strict=True))
        return [verdicts.get(at, Verdict(False, "no answer")) for at in range(len(cases))]

    async def judge_steps(self, cases: Sequence[StepCase]) -> list[Verdict]:
        """One verdict a case. Malformed steps are bad without asking."""
        asked = {
            at: self._prompts.messages(c.role, **_step_fields(c)) for at, c in enumerate(cases) if not c.format_errors
        }
        verdicts = dict(zip(asked, await self._ask_all(list(asked.values())), strict=True))
        return [verdicts.get(at) or Verdict(False, f"format: {c.format_errors[0]}") for at, c in enumerate(cases)]

    async def judge_sentences(self, cited: Sequence[tuple[str, Sequence[str]]]) -> list[Verdict]:
        """Whether quotes support a sentence, for each sentence with its quotes."""
        return await self._ask_all(
            [
                self._prompts.messages("support", sentence=one_line(text), quotes="\n".join(map(one_line, quotes)))
                for text, quotes in cited
            ]
        )

    async def close(self) -> None:
        self._cache.close()

    async def _ask_all(self, questions: Sequence[Sequence[Message]]) -> list[Verdict]:
        """Equal questions are asked once. If a call fails, the others still finish and stay cached, then it raises."""
        if isinstance(self.engine, OpenAIEngine):
            await self.engine.find_out()  # the model's name, if only its address was given: verdicts are kept under it
        keys = [self._key(messages) for messages in questions]
        distinct = dict(zip(keys, questions, strict=True))
        results = await asyncio.gather(*(self._ask(k, m) for k, m in distinct.items()), return_exceptions=True)
        verdicts: dict[str, Verdict] = {}
        for key, result in zip(distinct, results, strict=True):
            if isinstance(result, BaseException):
                raise result
            verdicts[key] = result
        return [verdicts[key] for key in keys]

    def _key(self, messages: Sequence[Message]) -> str:
        text = json.dumps([self.engine.name, *((m.role, m.content) for m in messages)], ensure_ascii=False)
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()

    async def _ask(self, key: str, messages: Sequence[Message]) -> Verdict:
        known = self._cache.get(key)
        if known is not None:
            self.cached += 1
            return known
        async with self._gate:
            session = await self.engine.open(messages)
            try:
                reply = await session.generate(self._sampling)
                self.usage += reply.usage
                said = read_verdict(reply.text)
                if said is None:
                    await session.append(self._prompts.text("remind"))
                    reply = await session.generate(self._sampling)
                    self.usage += reply.usage
                    said = read_verdict(reply.text)
            finally:
                await session.close()
        verdict = Verdict(said, reply.text)
        if said is None:
            self.undecided += 1
        else:
            self._cache.put(key, verdict)
        return verdict


class Cache:
    """Verdicts by key, in memory or in one SQLite file that several processes may share."""

    def __init__(self, path: str | Path | None) -> None:
        if path is not None and not Path(path).parent.is_dir():
            raise UsageError(f"cannot keep verdicts in {path}: there is no folder {Path(path).parent}")
        self._path = path
        try:
            self._db = sqlite3.connect(path or ":memory:", timeout=30, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, yes INTEGER, reply TEXT)")
        except sqlite3.Error as error:
            raise DataError(f"{path} cannot be used as a cache of verdicts: {error}") from None

    def get(self, key: str) -> Verdict | None:
        row = self._db.execute("SELECT yes, reply FROM verdicts WHERE key = ?", (key,)).fetchone()
        return Verdict(bool(row[0]), row[1]) if row else None

    def put(self, key: str, verdict: Verdict) -> None:
        reply = utf8(verdict.reason)
        try:
            self._db.execute("INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?)", (key, int(bool(verdict.yes)), reply))
        except sqlite3.Error as error:
            raise DataError(f"a verdict could not be stored in {self._path}: {error}") from None

    def close(self) -> None:
        self._db.close()


def _step_fields(case: StepCase) -> dict[str, str]:
    return {
        "question": one_line(case.question),
        "answers": _listed(case.answers),
        "output": _cut(" ⏎ ".join(map(one_line, case.output.strip().splitlines()))),
        "query": one_line(case.query),
        "queries": one_line("; ".join(case.queries)) or "none",
        "memory": _cut(" ".join(f"{n}. {entry}" for n, entry in enumerate(_entries(case), 1)) or "empty"),
        "documents": _cut(case.documents),
    }


def _entries(case: StepCase) -> list[str]:
    """Memory as the role read it: each piece of evidence after the query it answers."""
    pairs = zip(case.memory_queries or ("",) * len(case.memory), case.memory, strict=True)
    return [one_line(f"{query}: {evidence}" if query else evidence) for query, evidence in pairs]


def _listed(answers: Sequence[str]) -> str:
    return one_line(" | ".join(answers))


def _cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"
