"""One call for what notebooks and scripts do most: ask a question, compare systems on a question set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from .assemble import AgentSpec, open_agent
from .assemble.agent import build_agent, open_resources, preview_agent
from .assemble.fairness import shared_settings
from .codec import Record
from .data import questions_from
from .data.question_sets import sample_questions
from .errors import UsageError
from .evaluate import Job, evaluate, table
from .evaluate.result_table import Scored
from .notebook import progress, table_html
from .process import run_sync
from .record import Episode, Question, checked_question
from .runtime.solver import answered
from .systems.registry import needs_search


class Evaluation(Record):
    """What systems answered, and how well."""

    episodes: tuple[Episode, ...]
    table: Mapping[str, Mapping[str, Mapping[str, Any]]]
    """By data set and system: `n`, `em`, `f1`, ... with 95% intervals (`em_low`, `em_high`)."""

    def _repr_html_(self) -> str:
        return table_html(self.table)


def ask(question: str | Question, *, seed: int | None = None, **spec: Any) -> Episode:
    """Answer one question. `spec` are the fields of an `AgentSpec`: `index="docs.sq"`, `system="coda"`, `model=…`.

    Raises EpisodeFailed where a failure, such as an endpoint that is down, left it without an answer.
    """
    agent_spec, shown = AgentSpec(**spec), progress()
    _check_search(agent_spec)
    question = checked_question(question)

    async def solve() -> Episode:
        async with open_agent(agent_spec) as agent:
            return await agent.solve(question, seed=seed, listener=shown.add if shown else None)

    return answered(run_sync(solve(), shown.watch if shown else None))


def compare(
    questions: str | Sequence[Question],
    *,
    systems: Sequence[str] = ("coda",),
    sample: int | None = None,
    concurrency: int = 8,
    seed: int = 0,
    **spec: Any,
) -> Evaluation:
    """Compare systems on a question set: a known set's name, a file or a world's folder, or questions.

    The systems run with the same settings, those of the first; `spec` are other fields of their `AgentSpec`. Nothing is
    kept on disk: for long evaluations use `subquest eval`, which can be resumed.
    """
    found = questions_from(questions) if isinstance(questions, str) else [checked_question(q) for q in questions]
    if sample is not None:
        found = sample_questions(found, sample, seed)
    if not found or not systems:
        raise UsageError("compare needs at least one question and one system")
    specs = {name: AgentSpec(system=name, **spec) for name in systems}
    for one in specs.values():
        _check_search(one)
    shared = shared_settings(preview_agent(specs[systems[0]]))
    jobs = [Job(question.dataset or "questions", question, name) for question in found for name in specs]
    shown, rows, episodes = progress(), [], []

    def finished(job: Job, episode: Episode, scores: Mapping[str, float]) -> None:
        episodes.append(episode)
        rows.append(Scored(episode.id, job.dataset, job.system, job.question, scores))
        if shown:
            right = sum(row.scores["em"] for row in rows) / len(rows)
            shown.say(f"{len(rows)} of {len(jobs)}  EM {right:.3f}")

    async def run() -> None:
        async with AsyncExitStack() as stack:
            resources = await stack.enter_async_context(open_resources(specs[systems[0]]))
            agents = {name: build_agent(one.replace(shared=shared), resources) for name, one in specs.items()}
            await evaluate(jobs, agents, None, concurrency=concurrency, seed=seed, finished=finished)

    run_sync(run(), shown.watch if shown else None)
    return Evaluation(tuple(episodes), table(rows))


def _check_search(spec: AgentSpec) -> None:
    if spec.index is None and not spec.tools and needs_search(spec.system):
        raise UsageError(
            f"{spec.system} searches, and there is nothing to search: give index=PATH (make one with: "
            "subquest index build FOLDER --out docs.sq), or use system='direct', which answers from memory"
        )


__all__ = ["Evaluation", "ask", "compare"]
