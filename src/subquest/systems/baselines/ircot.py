"""IRCoT: retrieval and a chain of thought take turns; each new sentence is the next query.

reasoner  {documents so far, question, thoughts so far}  →  the next sentence, until "the answer is"
reader    {documents so far, question}                   →  <answer>...</answer>
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...engine.actions import Action
from ...errors import EngineError, SearchError
from ...limits import Limits, Repeats
from ...record import Hit
from ...runtime.actions import ANSWER
from ...runtime.answering import conclude, note_stop
from ...runtime.context import LimitReached
from ...runtime.evidence import Finding
from ...runtime.run import Answer, Run
from ...runtime.statements import sentences
from ...runtime.system import System
from ...runtime.window import Opening

CONCLUSION = "answer is"


@dataclass(frozen=True, slots=True)
class IRCoTSettings:
    k: int = 4
    """Documents per search."""
    paragraphs: int = 15
    """Documents kept in all."""
    steps: int = 8
    """Sentences of the chain of thought at most."""
    document_tokens: int = 320


class IRCoT(System[IRCoTSettings]):
    name = "ircot"
    description = "Searches again after every sentence of its reasoning."
    roles = ("reasoner", "reader")
    answering = "reader"
    Settings = IRCoTSettings

    def actions(self) -> Mapping[str, Sequence[Action]]:
        return {"reader": (ANSWER,)}

    async def answer(self, run: Run) -> Answer:
        question = run.question.question
        thoughts: list[str] = []
        found: dict[str, list[Hit]] = {}
        try:
            await self._search(run, question, found)
            repeats = Repeats()
            while len(thoughts) < self.settings.steps:
                sentence = await self._think(run, self._kept(found), thoughts)
                if not sentence or repeats.count(sentence) > 1:
                    break
                thoughts.append(sentence)
                if CONCLUSION in sentence.casefold():
                    break
                await self._search(run, sentence, found)
        except (EngineError, LimitReached) as stopped:
            note_stop(run, stopped)
        return await self._read(run, found, [t for t in thoughts if CONCLUSION not in t.casefold()])

    async def _search(self, run: Run, query: str, found: dict[str, list[Hit]]) -> None:
        try:
            found[query] = (await run.search(None, [query], self.settings.k))[0]
        except SearchError:  # recorded by the runtime; the reasoning goes on with what there is
            return

    def _kept(self, found: dict[str, list[Hit]]) -> list[Hit]:
        """Documents in the order they were found, none twice, up to the limit."""
        unique = {hit.document.id: hit for hits in found.values() for hit in hits}
        return list(unique.values())[: self.settings.paragraphs]

    async def _think(self, run: Run, hits: Sequence[Hit], thoughts: Sequence[str]) -> str:
        """The next sentence. One line holds it; where a model begins with an empty line or with thinking, it may go on
        to the end of its turn."""
        question = run.question.question
        opening = self._opening("reasoner", run, hits, thoughts=" ".join(thoughts) or "none")
        for stop in (("\n",), ()):
            reasoner = await run.open("reasoner", question, opening, stop=stop, limits=Limits(turns=1))
            reasoner.read(hits)
            turn = await reasoner.write()
            text = turn.parsed.outside
            spans = sentences(text)
            sentence = text[spans[0][0] : spans[0][1]] if spans else ""
            await reasoner.close("thought", sentence)
            if sentence or turn.generation.finish != "stop":
                return sentence
        return ""

    async def _read(self, run: Run, found: dict[str, list[Hit]], thoughts: Sequence[str]) -> Answer:
        hits = self._kept(found)
        reader = await run.open(
            "reader", run.question.question, self._opening("reader", run, hits), stop=("</answer>",)
        )
        reader.read(hits)
        documents = [hit.document for hit in hits]
        results = [Finding("", thought, "", documents, reader.id) for thought in thoughts]
        return await conclude(reader, [Finding("", "", "", documents, reader.id), *results])

    def _opening(self, name: str, run: Run, hits: Sequence[Hit], **fields: str) -> Opening:
        documents = [hit.document for hit in hits]
        return self.shown(name, documents, self.settings.document_tokens, question=run.question.question, **fields)
