"""What a run trains on: questions from its sources, their order, and one search over all their passages."""

from __future__ import annotations

import functools
import hashlib
import json
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from ..data import questions_from
from ..data.gold_plans import Refused, rewrite_plan
from ..data.registry import measured_only
from ..errors import ConfigError, DataError, UsageError
from ..record import Document, Question
from ..retrieval.corpus import read
from ..retrieval.index import Index, build_whole
from ..retrieval.papers import build_index, papers_of
from .recipe import DataPart
from .unanswerable import TYPE as UNANSWERABLE
from .unanswerable import as_unknown, withhold
from .world_sources import WORLD, WorldSources

T = TypeVar("T")


class Material(NamedTuple):
    questions: list[Question]
    documents: list[Document]
    """All passages that are searched."""
    withheld: frozenset[str] = frozenset()
    """Ids of passages that were taken out, for questions that cannot be answered."""
    papers: tuple[Path, ...] = ()
    """Folders of the files that passages were read from, where a source has them: their tables can be queried."""


def load_material(
    parts: Sequence[DataPart],
    *,
    passages_elsewhere: bool = False,
    worlds: WorldSources | None = None,
    digests: dict[str, str] | None = None,
    seed: int = 0,
    keep: Collection[str] = (),
) -> Material:
    """Questions and passages of all sources. A source's weight repeats its questions, or draws some of them.

    With an index for all of them (`passages_elsewhere`), sources other than worlds need no passages of their own.
    `worlds` are those that are being generated already. Digests of the files are added to `digests`. Passages in `keep`
    are not taken out for questions that must not be answerable.
    """
    questions: list[Question] = []
    documents: dict[str, Document] = {}
    withheld: frozenset[str] = frozenset()
    papers: dict[Path, None] = {}
    worlds = worlds or WorldSources(part.questions for part in parts)
    for part in parts:
        found, passages = (
            worlds.get(part.questions) if part.questions.startswith(WORLD) else _load(part, passages_elsewhere)
        )
        found = [as_unknown(q) if q.type == UNANSWERABLE and not q.answers else q for q in found]
        if part.types:
            found = [q for q in found if q.type in part.types] or _no_such(part)
        if part.limit:
            found = found[: part.limit]
        own: dict[str, Document] = {}
        for document in passages:
            if own.setdefault(document.id, document) != document:
                raise DataError(f"{part.questions}: two passages share the id {document.id!r}")
        placed = _placed(documents, own.values(), part.questions)
        documents |= {document.id: document for document in placed.values()}
        found = [_with_ids(question, placed) for question in found]
        if part.unanswerable:
            found, gone = withhold(found, placed.values(), part.unanswerable, seed=seed, keep=keep)
            withheld |= gone or _none_unanswerable(part)
        whole, share = divmod(part.weight, 1.0)
        count = round(len(found) * share)
        drawn = draw_sample(found, count, seed) if count else []
        if digests is not None and not part.questions.startswith(WORLD):  # the recipe determines worlds
            note_digest(digests, f"the questions of {part.questions}", map(_learnt, [*found, *drawn]))
            note_digest(digests, f"the passages of {part.questions}", ([d.id, d.title, d.text] for d in passages))
        questions += [*found * int(whole), *drawn]
        if not part.corpus and not part.unanswerable:  # a table would hold what was taken out
            papers |= dict.fromkeys(papers_of(Path(part.questions).expanduser()))
    return Material(questions, [d for d in documents.values() if d.id not in withheld], withheld, tuple(papers))


def _no_such(part: DataPart) -> list[Question]:
    raise ConfigError(f"{part.questions} has no questions of the types {', '.join(part.types)}")


def _none_unanswerable(part: DataPart) -> frozenset[str]:
    raise ConfigError(
        f"{part.questions}: unanswerable = {part.unanswerable:g}, but none of its questions can be made unanswerable: "
        "a question must have supporting_ids, no other passage may answer it, and no question that stays "
        "answerable may need these passages. Give the source more questions, or leave unanswerable out"
    )


def note_digest(digests: dict[str, str], what: str, rows: Iterable[object]) -> None:
    """Add JSON values to the digest kept under a name."""
    digest = hashlib.sha256(digests.get(what, "").encode())
    for row in rows:
        digest.update(json.dumps(row).encode() + b"\n")
    digests[what] = digest.hexdigest()[:16]


def _learnt(question: Question) -> list[object]:
    """The parts of a question that training depends on."""
    steps = [[step.question, step.answer, step.support] for step in question.decomposition]
    return [question.id, question.question, question.answers, steps, question.supporting_titles]


def merge_documents(known: Mapping[str, Document], more: Iterable[Document], source: str) -> dict[str, Document]:
    """Passages of several sources by id."""
    return {**known, **{document.id: document for document in _placed(known, more, source).values()}}


def _placed(known: Mapping[str, Document], more: Iterable[Document], source: str) -> dict[str, Document]:
    """The passages of a source, by the ids that they have there. Sources may use the same ids, as worlds in folders do:
    a passage whose id is taken gets its `source` as a prefix."""
    return {d.id: d if known.get(d.id, d) == d else replace(d, id=f"{source}/{d.id}") for d in more}


def _with_ids(question: Question, placed: Mapping[str, Document]) -> Question:
    """The question with the ids that its passages have among those of all sources."""
    supporting, context = (
        tuple(placed[id].id if id in placed else id for id in ids)
        for ids in (question.supporting_ids, question.context_ids)
    )
    if (supporting, context) == (question.supporting_ids, question.context_ids):
        return question
    return replace(question, supporting_ids=supporting, context_ids=context)


def refuse_test(questions: Iterable[Question], why: str) -> None:
    """Refuse test questions: a model trained or chosen on them can no longer be measured with them."""
    for question in questions:
        if measured_only(question):
            of = "of a test split" if question.split == "test" else f"of {question.dataset}, which is only measured"
            raise ConfigError(f"the question {question.id!r} is {of}: {why}")


def with_gold(questions: Sequence[Question], *, plans: bool) -> list[Question]:
    """The questions that a reward can score: with a gold plan if `plans` are rewarded, otherwise with a gold answer."""
    found = [q for q in questions if (q.decomposition if plans else any(map(str.strip, q.answers)))]
    if questions and not found:
        raise DataError(f"none of the {len(questions)} training questions has a gold {'plan' if plans else 'answer'}")
    return found


def _load(part: DataPart, passages_elsewhere: bool) -> tuple[list[Question], list[Document]]:
    questions = [_natural(q) for q in questions_from(part.questions)]
    corpora = tuple(str(Path(place).expanduser()) for place in part.corpus)
    folder = Path(part.questions).expanduser()
    if folder.is_dir() and not corpora:
        corpora = (str(folder / "corpus.jsonl"),)
    if not corpora and not passages_elsewhere:
        raise ConfigError(f"the source {part.questions!r} needs a corpus to search, or the recipe an index")
    return questions, list(read(corpora))


def _natural(question: Question) -> Question:
    """The question with its plan in natural sub-questions (2Wiki has triples), or without a plan if that fails."""
    try:
        return rewrite_plan(question) if question.decomposition else question
    except Refused:
        return replace(question, decomposition=())


def open_search(documents: Iterable[Document], folder: Path, papers: Sequence[Path] = ()) -> Index:
    """An index of the passages, named by a digest of their content, so that it is built only once; with the tables of
    the files in `papers`."""
    passages = list(documents)
    digest = hashlib.sha256()
    for document in passages:
        digest.update(json.dumps([document.id, document.title, document.text]).encode())
    for place in papers:
        digest.update(str(place.resolve()).encode())
    path = folder / f"{digest.hexdigest()[:16]}.sq"
    build = functools.partial(build_index, passages=passages, papers=papers)
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        build_whole(path, build)
    index = Index.open(path)
    if len(index) != len(passages):  # an interrupted build left it
        index.close()
        build(path)
        index = Index.open(path)
    return index


def draw_sample(items: Sequence[T], count: int, seed: int) -> list[T]:
    """`count` items drawn uniformly, in their order; all items for 0."""
    if not count or count >= len(items):
        return list(items)
    places = sorted(random.Random(f"{seed}/sample").sample(range(len(items)), count))
    return [items[place] for place in places]


class Stream(Generic[T]):
    """An endless stream over the items, shuffled again in each epoch.

    The order depends on the seed alone, and `position` is all the state there is.
    """

    def __init__(self, items: Sequence[T], seed: int, *, position: int = 0) -> None:
        if not items:
            raise UsageError("there is nothing to train on: the data is empty")
        self._items = items
        self._seed = seed
        self._order: list[int] = []
        self._epoch = -1
        self.position = position

    def take(self, count: int) -> list[T]:
        """The next items, across the end of an epoch if need be."""
        taken = [self._at(self.position + i) for i in range(count)]
        self.position += count
        return taken

    @property
    def epoch(self) -> float:
        """Passes over the items so far."""
        return self.position / len(self._items)

    def _at(self, position: int) -> T:
        epoch, place = divmod(position, len(self._items))
        if epoch != self._epoch:
            self._order = list(range(len(self._items)))
            random.Random(f"{self._seed}/{epoch}").shuffle(self._order)
            self._epoch = epoch
        return self._items[self._order[place]]
