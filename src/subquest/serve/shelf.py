"""Stored runs, for looking into them. Every call opens the file anew, so any thread may make it at any time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ..codec import to_dict
from ..errors import UsageError
from ..evaluate.result_table import scored, table
from ..events import Event
from ..record import Episode, Question
from ..runs import RunStore
from ..runs.reader import Summary
from ..runs.schema import runs_in
from .bodies import Problem
from .tokens import Pieces, pieces_of_run, token_view

ASKED = "asked"
"""The run that holds what was asked on the server itself."""
MAX_SIBLINGS = 64


class Shelf:
    """The runs of a folder, by their names."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def paths(self) -> dict[str, Path]:
        """Where each run is. A name that is not in here does not exist, whatever it spells."""
        return runs_in(self._folder)

    @contextmanager
    def open(self, name: str) -> Iterator[RunStore]:
        path = self.paths().get(name)
        if path is None:
            raise Problem(404, f"there is no run {name!r}")
        with RunStore.open(path) as store:
            yield store

    def runs(self) -> list[dict[str, Any]]:
        """All runs in short, the newest first; a damaged one with what is wrong."""
        out = []
        for name in self.paths():
            try:
                with self.open(name) as store:
                    out.append({"name": name, "created": store.created, **store.counts(), "settings": store.settings})
            except UsageError as error:
                out.append({"name": name, "created": 0.0, "error": str(error)})
        return sorted(out, key=lambda run: -run["created"])

    def run(self, name: str) -> dict[str, Any]:
        """A run with its result table and its curves."""
        with self.open(name) as store:
            return {
                "name": name,
                "created": store.created,
                **store.counts(),
                "settings": store.settings,
                "table": table(scored(store)),
                "curves": self.curves(name)["curves"],
            }

    def episodes(
        self,
        name: str,
        *,
        offset: int,
        limit: int,
        system: str,
        ending: str,
        text: str,
        alive: Collection[str] = (),
    ) -> dict[str, Any]:
        """A page of a run's episodes, the newest first, with the question's words and the scores.

        `alive` are the ids of those that are being answered: they have begun and not ended, but nothing cut them off.
        """
        with self.open(name) as store:
            if text:
                total, page = self._matching(store, text.lower(), offset, limit, system, ending)
            else:
                total, page = store.latest(offset=offset, limit=limit, system=system or None, ending=ending or None)
            if any(summary.stop_reason == "interrupted" for summary in page):
                resumed = self._resumed(store)
                page = [summary for summary in page if summary.id not in resumed]
            waiting = [] if offset or system or text or ending else self._interrupted(store, name, alive)
            return {"total": total, "episodes": [self._row(store, one) for one in page], "interrupted": waiting}

    @staticmethod
    def _matching(
        store: RunStore, wanted: str, offset: int, limit: int, system: str, ending: str
    ) -> tuple[int, list[Summary]]:
        """Episodes with a text in question or answer: all are looked at, because the words are stored packed."""
        found = [s for s in store.summaries(system=system or None) if not ending or s.stop_reason == ending]
        words = {(q.dataset, q.id): q.question.lower() for q in store.questions()}
        found = [s for s in found if wanted in s.answer.lower() or wanted in words[s.dataset, s.question]]
        found.reverse()
        return len(found), found[offset : offset + limit]

    @staticmethod
    def _row(store: RunStore, summary: Summary) -> dict[str, Any]:
        question = store.episode(summary.id, events=False).question
        return {
            **asdict(summary),
            "question": question.meta.get("asked") or question.question,
            "expected": list(question.answers),
            "scores": {score.metric: score.value for score in store.scores(summary.id)},
        }

    @staticmethod
    def _resumed(store: RunStore) -> set[str]:
        """Ids of episodes that another one goes on with."""
        return {str(q.meta["resumes"]) for q in store.questions() if "resumes" in q.meta}

    def episode(self, name: str, identifier: str) -> dict[str, Any]:
        """A stored episode in full, or, of an interrupted one, what its events tell."""
        with self.open(name) as store:
            try:
                episode = store.episode(identifier)
            except UsageError:
                events = store.events(identifier)
                if not events and not self._waited(store, name, identifier):
                    raise Problem(404, f"the run {name!r} has no episode {identifier!r}") from None
                return {**_begun(store, identifier, events), "status": "interrupted", "run": name}
            scores = {score.metric: score.value for score in store.scores(identifier)}
            return {**shown(episode), "status": ended(episode), "run": name, "scores": scores}

    def tokens(self, name: str, identifier: str, known: Pieces) -> dict[str, Any]:
        """Every token of an episode; `known` may show the tokens of models that the server has open."""
        episode = self.finished(name, identifier)
        return token_view(episode, known(episode.model) or pieces_of_run(self.paths()[name]))

    def finished(self, name: str, identifier: str) -> Episode:
        with self.open(name) as store:
            try:
                return store.episode(identifier)
            except UsageError:
                raise Problem(404, f"the run {name!r} has no finished episode {identifier!r}") from None

    def siblings(self, name: str, identifier: str) -> list[dict[str, Any]]:
        """All attempts at the same question, the episode itself among them; `group` marks those of the same step."""
        with self.open(name) as store:
            try:
                asked = store.episode(identifier, events=False).question
            except UsageError:
                raise Problem(404, f"the run {name!r} has no finished episode {identifier!r}") from None
            same = list(store.summaries(question=asked.id, dataset=asked.dataset))
            own = next(summary for summary in same if summary.id == identifier)
            return [
                {
                    **asdict(summary),
                    "group": (summary.attempt, summary.system) == (own.attempt, own.system),
                    "scores": {score.metric: score.value for score in store.scores(summary.id)},
                    "rewards": dict(store.episode(summary.id, events=False).rewards),
                }
                for summary in same[-MAX_SIBLINGS:]
            ]

    def curves(self, name: str, after: int = -1) -> dict[str, Any]:
        """The points of all curves behind a step, and how many episodes there are by now."""
        with self.open(name) as store:
            found: dict[str, list[list[float]]] = {}
            for step, metric, value in store.metrics():
                if step > after:
                    found.setdefault(metric, []).append([step, value])
            return {"curves": found, "episodes": store.counts()["episodes"]}

    def events(self, name: str, identifier: str, after: int) -> tuple[list[Event], str]:
        """The events of an episode behind `after`, and its status."""
        with self.open(name) as store:
            events = store.events(identifier, after=after)
            try:
                status = ended(store.episode(identifier, events=False))
            except UsageError:
                if not events and not store.events(identifier) and not self._waited(store, name, identifier):
                    raise Problem(404, f"the run {name!r} has no episode {identifier!r}") from None
                status = "interrupted"
            return events, status

    def asked(self, identifier: str) -> Question | None:
        """The question that was asked under an id, with what it was asked of."""
        if ASKED not in self.paths():
            return None
        with self.open(ASKED) as store:
            return next(store.questions(question=identifier), None)

    def answer_of(self, identifier: str) -> str:
        """What an asked episode answered; empty where it did not end."""
        with self.open(ASKED) as store:
            try:
                return store.episode(identifier, events=False).answer
            except UsageError:
                return ""

    def _interrupted(self, store: RunStore, name: str, alive: Collection[str]) -> list[dict[str, Any]]:
        """Episodes that began and never ended, but for those that are alive and those that were resumed; of what was
        asked here, also questions that waited when a kill came."""
        cut_off = [*store.interrupted(), *(store.unbegun() if name == ASKED else ())]
        waiting = [identifier for identifier in cut_off if identifier not in alive]
        resumed = self._resumed(store) if waiting else set()
        return [
            {k: v for k, v in _begun(store, identifier, store.events(identifier)).items() if k != "events"}
            for identifier in waiting
            if identifier not in resumed
        ]

    @staticmethod
    def _waited(store: RunStore, name: str, identifier: str) -> bool:
        """Whether a question was taken in here and nothing came of it."""
        return name == ASKED and next(store.questions(question=identifier), None) is not None


def shown(episode: Episode) -> dict[str, Any]:
    """An episode as the page gets it: one trajectory a context, without token ids, which are many and nobody reads."""
    data = to_dict(replace(episode, trajectories=episode.contexts))
    for trajectory in data.get("trajectories", ()):
        for segment in trajectory.get("segments", ()):
            segment["tokens"] = len(segment.pop("token_ids", ()))
            segment.pop("logprobs", None)
    return data


def ended(episode: Episode) -> str:
    """The status of a job that an episode stands for."""
    endings = {"cancelled": "cancelled", "interrupted": "interrupted", "failed": "failed", "crashed": "failed"}
    return endings.get(episode.stop_reason, "finished")


def _begun(store: RunStore, identifier: str, events: list[Event]) -> dict[str, Any]:
    """What is known of an episode that did not end: its beginning or, if it has none, what was asked under its id."""
    start: Mapping[str, Any] = events[0].data if events else {}
    if not events and (asked := next(store.questions(question=identifier), None)):
        start = {"question": asked.question, "system": asked.meta.get("system", "")}
    return {
        "id": identifier,
        "question": {"id": identifier, "question": start.get("question", "")},
        "system": start.get("system", ""),
        "model": start.get("model", ""),
        "events": [to_dict(event) for event in events],
    }
