"""Naive RAG: one search with the question as it is, one answer from what it brought.

answerer  {question, documents}  →  <answer>...</answer>
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...engine.actions import Action
from ...errors import SearchError
from ...record import Hit
from ...runtime.actions import ANSWER
from ...runtime.answering import conclude
from ...runtime.evidence import Finding
from ...runtime.run import Answer, Run
from ...runtime.system import System


@dataclass(frozen=True, slots=True)
class RAGSettings:
    k: int = 3
    document_tokens: int = 320


class NaiveRAG(System[RAGSettings]):
    name = "rag"
    description = "Searches once and answers from what it finds: fast, for simple questions."
    roles = ("answerer",)
    Settings = RAGSettings

    def actions(self) -> Mapping[str, Sequence[Action]]:
        return {"answerer": (ANSWER,)}

    async def answer(self, run: Run) -> Answer:
        question = run.question.question
        hits: Sequence[Hit] = []
        with contextlib.suppress(SearchError):  # recorded by the runtime; the model still answers
            hits = (await run.search(None, [question], self.settings.k))[0]
        documents = [hit.document for hit in hits]
        opening = self.shown("answerer", documents, self.settings.document_tokens, question=question)
        answerer = await run.open("answerer", question, opening, stop=("</answer>",))
        answerer.read(hits)
        answer = await conclude(answerer)
        return replace(answer, findings=[Finding(question, answer.text, "", documents, answerer.id, question)])
