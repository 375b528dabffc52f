"""Scores that need a model, added once the answers are stored: a judge's verdict, and how good the plan was.

They are computed a few episodes at a time and stored in the run, so a judge that fails loses only its current batch;
running again continues from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from ..data.gold_plans import gold_plan
from ..judge import BY_SET, ModelJudge, RuleJudge, case_of
from ..metrics.embeddings import Embedder, default_embedder
from ..metrics.plans import score_plans
from ..record import Episode
from ..runs import RunStore
from ..systems.apex.plan import written_plan
from .score import score

BATCH = 128
_HELPERS = ("coordinator", "compressor")
"""Roles below a root that carry out none of its tasks: they choose experts and distil results, or shorten memory."""
Report = Callable[[int], None]
"""Called with the number of episodes scored so far."""


def score_unscored(store: RunStore) -> int:
    """Score answers that have no scores, as in a run that was salvaged without them; returns how many there were."""
    without = store.query("SELECT id FROM episode WHERE id NOT IN (SELECT episode FROM score WHERE metric = 'em')")
    found = [episode for (name,) in without if (episode := store.episode(name)).question.answers]
    for episode in found:
        store.add_scores(episode.id, score(episode))
    store.flush()
    return len(found)


async def judge_answers(
    store: RunStore, judge: ModelJudge | RuleJudge, *, instruction: str = BY_SET, report: Report | None = None
) -> int:
    """Give every answer without a verdict one: `judge` 1 or 0, and `judge_undecided` where the judge did not say.

    `instruction` is what counts as right, for all answers or by the data set of each.
    Returns how many answers stayed undecided; they are asked for again when this is called again.
    """
    undecided = done = 0
    for episodes in _batches(store, "judge"):
        verdicts = await judge.judge_answers([case_of(e, instruction) for e in episodes])
        for episode, verdict in zip(episodes, verdicts, strict=True):
            scores = {"judge_undecided": float(verdict.yes is None)}
            if verdict.yes is not None:
                scores["judge"] = float(verdict.yes)
            undecided += verdict.yes is None
            store.add_scores(episode.id, scores)
        store.flush()
        done += len(episodes)
        if report is not None:
            report(done)
    return undecided


def judge_plans(store: RunStore, *, embedder: Embedder | None = None, report: Report | None = None) -> int:
    """Give every episode whose question has a gold decomposition its SEPR; returns how many there were."""
    done = 0
    for episodes in _batches(store, "sepr", lambda e: bool(e.question.decomposition)):
        golds = [gold_plan(e.question) for e in episodes]
        plans = [written_plan(e) or _tasks(e) for e in episodes]
        for episode, found in zip(episodes, score_plans(plans, golds, embedder or default_embedder()), strict=True):
            scores = {"sepr": found.f1, "sepr_precision": found.precision, "sepr_recall": found.recall}
            store.add_scores(episode.id, scores)
        store.flush()
        done += len(episodes)
        if report is not None:
            report(done)
    return done


def _tasks(episode: Episode) -> list[str]:
    """The plan of a system that writes none: the tasks its roots handed out, in order, as far as they went."""
    return [c.task for root in episode.roots for c in episode.children(root) if c.role not in _HELPERS]


def _batches(
    store: RunStore, metric: str, wanted: Callable[[Episode], bool] = lambda e: bool(e.question.answers)
) -> Iterator[tuple[Episode, ...]]:
    scored = {row[0] for row in store.query("SELECT episode FROM score WHERE metric = ?", metric)}
    left = (e for e in store.episodes(events=False) if e.id not in scored and wanted(e))
    while batch := tuple(islice(left, BATCH)):
        yield batch
