"""The stored runs of a server. Every call opens the run's file, so any thread may call at any time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..codec import to_dict
from ..errors import UsageError
from ..evaluate.result_table import scored, table
from ..evaluate.run_overview import Overviews
from ..events import Event
from ..metrics.confidence import Calibrations, likely
from ..record import Episode, Question
from ..runs import RunStore, Summary, runs_in
from .episode_view import Pieces, episode_view, pieces_of_run, status_of, token_view
from .question_matrix import question_matrix
from .replies import Problem

ASKED = "asked"
"""The run of the questions that this server was asked."""
MAX_SIBLINGS = 64


class RunLibrary:
    """The runs of a folder, by name."""

    def __init__(self, folder: Path, calibrations: Calibrations | None = None) -> None:
        self._folder = folder
        self._overviews = Overviews()
        self._calibrations = calibrations

    def paths(self) -> dict[str, Path]:
        """The file of each run. A name that is not listed here does not exist, whatever it looks like."""
        return runs_in(self._folder)

    @contextmanager
    def open(self, name: str) -> Iterator[RunStore]:
        path = self.paths().get(name)
        if path is None:
            raise Problem(404, f"there is no run {name!r}")
        with RunStore.open(path) as store:
            yield store

    def runs(self) -> list[dict[str, Any]]:
        """A line for each run, newest first; for a damaged run, what is wrong."""
        found = [self._overviews.get(name, path) for name, path in self.paths().items()]
        return sorted(found, key=lambda run: -run["created"])

    def run(self, name: str) -> dict[str, Any]:
        """A run with its result table and its curves."""
        with self.open(name) as store:
            return {
                **self._overviews.get(name, store.path),
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
        live: Collection[str] = (),
    ) -> dict[str, Any]:
        """A page of a run's episodes, newest first, with questions and scores.

        `live` are the ids of those that are being answered: they have not finished, but were not interrupted either.
        """
        with self.open(name) as store:
            if text:
                total, page = self._matching(store, text.lower(), offset, limit, system, ending)
            else:
                total, page = store.latest(offset=offset, limit=limit, system=system or None, ending=ending or None)
            if any(summary.stop_reason == "interrupted" for summary in page):
                resumed = self._resumed(store)
                page = [summary for summary in page if summary.id not in resumed]
            interrupted = [] if offset or system or text or ending else self._interrupted(store, name, live)
            return {"total": total, "episodes": [self._row(store, one) for one in page], "interrupted": interrupted}

    @staticmethod
    def _matching(
        store: RunStore, wanted: str, offset: int, limit: int, system: str, ending: str
    ) -> tuple[int, list[Summary]]:
        """Episodes with a text in question or answer; all are read, because questions are stored compressed."""
        found = [s for s in store.summaries(system=system or None) if not ending or s.stop_reason == ending]
        words = {(q.dataset, q.id): q.question.lower() for q in store.questions()}
        found = [s for s in found if wanted in s.answer.lower() or wanted in words[s.dataset, s.question]]
        found.reverse()
        return len(found), found[offset : offset + limit]

    @staticmethod
    def _row(store: RunStore, summary: Summary) -> dict[str, Any]:
        question = store.question_of(summary.id)
        return {
            **asdict(summary),
            "question": question.meta.get("asked") or question.question,
            "expected": list(question.answers),
            **{name: question.meta[name] for name in ("follows", "beside") if name in question.meta},
            "scores": {score.metric: score.value for score in store.scores(summary.id)},
        }

    @staticmethod
    def _resumed(store: RunStore) -> set[str]:
        """Ids of interrupted episodes that another one has resumed."""
        return {str(q.meta["resumes"]) for q in store.questions() if "resumes" in q.meta}

    def episode(self, name: str, identifier: str) -> dict[str, Any]:
        """A stored episode in full; for an interrupted one, what its events say."""
        with self.open(name) as store:
            try:
                episode = store.episode(identifier)
            except UsageError:
                events = store.events(identifier)
                if not events and not self._was_queued(store, name, identifier):
                    raise Problem(404, f"the run {name!r} has no episode {identifier!r}") from None
                return {**_interrupted_view(store, identifier, events), "status": "interrupted", "run": name}
            scores = {score.metric: score.value for score in store.scores(identifier)}
            return {**self.view(episode), "status": status_of(episode), "run": name, "scores": scores}

    def view(self, episode: Episode) -> dict[str, Any]:
        """An episode as the page gets it; with a calibration, also how likely its answer is right."""
        words = likely(episode, self._calibrations)
        return {**episode_view(episode), **({"likely": words} if words else {})}

    def tokens(self, name: str, identifier: str, known: Pieces) -> dict[str, Any]:
        """Every token of an episode; `known` has the vocabularies of the server's own models."""
        episode = self.finished(name, identifier)
        return token_view(episode, known(episode.model) or pieces_of_run(self.paths()[name]))

    def finished(self, name: str, identifier: str) -> Episode:
        with self.open(name) as store:
            try:
                return store.episode(identifier)
            except UsageError:
                raise Problem(404, f"the run {name!r} has no finished episode {identifier!r}") from None

    def siblings(self, name: str, identifier: str) -> list[dict[str, Any]]:
        """All attempts at the same question, including the episode itself; `group` marks those of the same step."""
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

    def matrix(self, name: str, **wanted: Any) -> dict[str, Any]:
        """A page of a run's questions with the answer of each system."""
        with self.open(name) as store:
            return question_matrix(store, **wanted)

    def curves(self, name: str, after: int = -1) -> dict[str, Any]:
        """The points of all curves after a step, and the number of episodes so far."""
        with self.open(name) as store:
            found: dict[str, list[list[float]]] = {}
            for step, metric, value in store.metrics():
                if step > after:
                    found.setdefault(metric, []).append([step, value])
            return {"curves": found, "episodes": store.counts()["episodes"]}

    def events(self, name: str, identifier: str, after: int) -> tuple[list[Event], str]:
        """The events of an episode after event number `after`, and its status."""
        with self.open(name) as store:
            events = store.events(identifier, after=after)
            try:
                status = status_of(store.episode(identifier, events=False))
            except UsageError:
                if not events and not store.events(identifier) and not self._was_queued(store, name, identifier):
                    raise Problem(404, f"the run {name!r} has no episode {identifier!r}") from None
                status = "interrupted"
            return events, status

    def thread(self, identifier: str) -> list[list[Question]]:
        """The conversation that a question belongs to: the questions it follows, first to last, then those that follow
        it, of each the newest. Questions that were asked side by side are one turn."""
        if ASKED not in self.paths():
            raise Problem(404, f"nothing was asked under {identifier!r}")
        with self.open(ASKED) as store:
            known = {question.id: question for question in store.questions()}
        if identifier not in known:
            raise Problem(404, f"nothing was asked under {identifier!r}")
        turns: dict[str, list[Question]] = {}
        """By the id of the question that the others of a turn were asked beside."""
        newest: dict[str, str] = {}
        """The turn that follows a question."""
        for question in known.values():
            leader = str(question.meta.get("beside") or question.id)
            turns.setdefault(leader, []).append(question)
            if follows := question.meta.get("follows"):
                newest[str(follows)] = leader

        def leader_of(name: str) -> str:
            found = known.get(name)
            return str(found.meta.get("beside") or name) if found is not None else ""

        at = leader_of(identifier)
        line = [at]
        while (before := leader_of(str(known[line[0]].meta.get("follows", "")))) and before not in line:
            line.insert(0, before)
        while after := next((newest[q.id] for q in turns[line[-1]] if newest.get(q.id, line[0]) not in line), ""):
            line.append(after)
        return [turns[leader] for leader in line]

    def asked(self, identifier: str) -> Question | None:
        """The question that was asked under an id, with the system, model and index it was meant for."""
        if ASKED not in self.paths():
            return None
        with self.open(ASKED) as store:
            return next(store.questions(question=identifier), None)

    def answer_of(self, identifier: str) -> str:
        """The answer of an episode that was asked here; empty if it did not finish."""
        with self.open(ASKED) as store:
            try:
                return store.episode(identifier, events=False).answer
            except UsageError:
                return ""

    def _interrupted(self, store: RunStore, name: str, live: Collection[str]) -> list[dict[str, Any]]:
        """Episodes that started and never finished, without those that are live or were resumed. In the run of this
        server, also questions that were still queued when it was killed."""
        unfinished = [*store.interrupted(), *(store.unstarted() if name == ASKED else ())]
        interrupted = [identifier for identifier in unfinished if identifier not in live]
        resumed = self._resumed(store) if interrupted else set()
        return [
            {k: v for k, v in _interrupted_view(store, identifier, store.events(identifier)).items() if k != "events"}
            for identifier in interrupted
            if identifier not in resumed
        ]

    @staticmethod
    def _was_queued(store: RunStore, name: str, identifier: str) -> bool:
        """Whether a question was asked here and never started."""
        return name == ASKED and next(store.questions(question=identifier), None) is not None


def _interrupted_view(store: RunStore, identifier: str, events: list[Event]) -> dict[str, Any]:
    """What is known of an episode that did not finish: its events, or if it has none, what was asked under its id."""
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
