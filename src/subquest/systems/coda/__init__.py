"""CoDA: a planner with a short strategic context and executors in workspaces of their own (sections 3.2 and 3.3.1).

    planner   {question, (task, result)...}  →  <task>...</task>  or  <answer>...</answer>
    executor  {task}  →  <search>...</search>, reads <documents>, <refine>s them, and returns a <result>

Both roles are one shared model under different contexts. The planner never sees a document: its context is shielded.
Beyond the paper: several tasks in one planner turn run at the same time, and with `depth` above 1 an executor may
itself hand out sub-tasks.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...engine import Message
from ...engine.actions import Action
from ...errors import EngineError, OutsideError, SearchError
from ...limits import Limits
from ...protocol import fence, wrap
from ...runtime.actions import ANSWER, SEARCH
from ...runtime.answering import NO_RESULT, conclude_early
from ...runtime.context import Context, LimitReached
from ...runtime.evidence import Finding
from ...runtime.given_tools import CALLS
from ...runtime.rendering import cut_to_tokens
from ...runtime.run import Answer, Run
from ...runtime.system import System
from ...runtime.table_queries import SQL, only_computes, query, tables_of, told_with
from ...runtime.turn import Turn, confidence
from ...runtime.unread_numbers import unread_numbers

TASK = Action("task", "Hand one self-contained sub-task to an executor; its result comes back.", "task")
RESULT = Action("result", "Report the outcome of the task and end.", "result", "a short, self-contained finding")
_ROWS_TOKENS = 1000
"""The rows that a query over tables gives are cut to this."""
MAX_PARALLEL_TASKS = 8
"""Most tasks of one planner turn; more are a sign that the model has lost control."""


@dataclass(frozen=True, slots=True)
class CoDASettings:
    turns: int = 6
    """Planner turns (the published code's limit)."""
    executor_turns: int = 6
    k: int = 3
    """Documents per search (4.1.4)."""
    depth: int = 1
    """1: executors only search. N: executors down to level N - 1 can delegate sub-tasks themselves."""
    refine: bool = True
    """False is the paper's "Search-R1 with hierarchy" (table 2)."""
    look_first: bool = False
    """Executors begin with the documents of a search for their task, which saves them the turn that would search."""
    document_tokens: int = 320
    """Each document is cut to this (4.4.1), so that observations grow with k."""
    result_tokens: int = 512
    """A result is cut to this before the planner sees it."""
    force: bool = True
    """Ask for a final answer when turns run out; the published code does not."""


class CoDA(System[CoDASettings]):
    name = "coda"
    description = "A planner breaks the question into sub-tasks; executors search and report back short results."
    roles = ("planner", "executor")
    tool_roles = ("executor",)
    Settings = CoDASettings
    trained_ways: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "no-refine": {"refine": False},
        "look-first": {"look_first": True},
    }
    removed: ClassVar[Mapping[str, str]] = {
        "check": "it changed answers and tasks by rule; what the planner writes is now what counts"
    }

    def actions(self) -> dict[str, tuple[Action, ...]]:
        finds = (SEARCH, SQL) if tables_of(self.search) else (SEARCH,)
        executor = (*finds, RESULT, TASK) if self.settings.depth > 1 else (*finds, RESULT)
        return {"planner": (TASK, ANSWER), "executor": executor}

    async def answer(self, run: Run) -> Answer:
        question = run.question.question
        opening = self.prompts.messages("planner", question=question)
        planner = await run.open(
            "planner",
            question,
            run.tools.planned(opening, self.prompts) if run.tools else opening,
            stop=("<result>",),
            limits=Limits(turns=self.settings.turns),
            shielded=True,
        )
        findings: list[Finding] = []
        known: dict[str, str] = {}  # results by task
        try:
            while True:
                turn = await planner.write()
                action = turn.parsed.first("task", "answer")
                if action is None or not action.content:
                    planner.remind(turn, self.prompts.text("planner_remind"))
                elif action.tag == "answer":
                    await planner.close("answered", action.content)
                    return Answer(action.content, confidence=confidence(turn), findings=findings)
                else:
                    results = await self._delegate(run, planner, self._tasks(planner, turn), findings, known, level=1)
                    planner.tell_results(results, tokens=self.settings.result_tokens)
        except (LimitReached, EngineError) as stopped:
            force = functools.partial(planner.force, self.prompts.text("planner_force"), "answer")
            return await conclude_early(planner, stopped, findings, force if self.settings.force else None)

    def _tasks(self, context: Context, turn: Turn) -> list[str]:
        """The tasks of a turn, as they were written."""
        tasks = [task.content for task in turn.parsed.all("task") if task.content]
        if left_out := "; ".join(tasks[MAX_PARALLEL_TASKS:]):
            context.run.events.emit("limit", context.id, what=f"{MAX_PARALLEL_TASKS} tasks in a turn", message=left_out)
        return tasks[:MAX_PARALLEL_TASKS]

    async def _delegate(
        self,
        run: Run,
        context: Context,
        tasks: Sequence[str],
        findings: list[Finding],
        known: dict[str, str],
        level: int,
    ) -> list[str]:
        """Run the tasks of one turn concurrently; results come back in their order. A task whose result is `known`, and
        one that stands there twice, does not run again."""
        run.events.emit("plan", context.id, steps=list(tasks))
        results: dict[str, str] = {}
        for task in (task for task in dict.fromkeys(tasks) if task in known):
            run.events.emit("limit", context.id, what="repeated task", message=task)
            results[task] = f"{known[task]}\nThis task was already given: use its result, or ask something else."
        new = [task for task in dict.fromkeys(tasks) if task not in known]
        found: list[list[Finding]] = [[] for _ in new]
        jobs = (self._execute(run, context, text, known, own, level) for text, own in zip(new, found, strict=True))
        results |= dict(zip(new, await asyncio.gather(*jobs), strict=True))
        findings += [
            finding for own in found for finding in own
        ]  # in the order of the tasks, not in which they finished
        return [results[task] for task in tasks]

    async def _execute(
        self, run: Run, parent: Context, task: str, known: dict[str, str], findings: list[Finding], level: int
    ) -> str:
        """The executor sub-loop: an ephemeral context that holds the task and nothing else."""
        nested = level < self.settings.depth
        prompt = f"executor{'_nested' * nested}{'_no_refine' * (not self.settings.refine)}"
        opening = self.prompts.messages(prompt, task=task)
        computes = only_computes(task)
        if computes and self.prompts.has("executor_compute"):
            asked = opening[-1].content
            opening[-1] = Message("user", f"{asked}\n{self.prompts.text('executor_compute')}")
        if run.tools:
            engine = self.setup("executor").engine
            opening = run.tools.told(opening, self.prompts, engine, self.tool_form, task, searches=run.has_search)
        try:
            executor = await run.open(
                "executor",
                task,
                opening,
                parent=parent,
                stop=("<documents>",),
                limits=Limits(turns=self.settings.executor_turns),
            )
        except OutsideError as error:
            run.fail("engine", error, parent)
            return f"The task failed: {error}"
        run.events.emit("task", parent.id, task=task, child=executor.id)
        told: set[str] = set()
        """Descriptions of tables that it has."""
        try:
            if self.settings.look_first and run.has_search and not computes:
                await self._search(run, executor, task, told)
                await executor.begin_after(wrap("search", task))
            result, stop_reason = await self._work(run, executor, findings, told, level, nested)
        except LimitReached:
            result, stop_reason = await self._force_result(executor), "forced"
        except EngineError as error:
            run.fail("engine", error, executor)
            result, stop_reason = "", "failed"
        aside = computes and not executor.documents  # the answer must follow from what others found
        findings.append(Finding(task, result, _refined(executor), executor.documents, executor.id, aside=aside))
        result = result or NO_RESULT
        await executor.close(stop_reason, result)
        run.events.emit("result", executor.id, result=result, forced=executor.forced)
        if not any(f"{failure.trajectory}.".startswith(f"{executor.id}.") for failure in run.errors):
            known[task] = result  # another attempt may find more only if something outside failed
        return result

    async def _work(
        self, run: Run, executor: Context, findings: list[Finding], told: set[str], level: int, nested: bool
    ) -> tuple[str, str]:
        actions = (*(CALLS if run.tools else ()), *(("task",) if nested else ()))
        actions = ("search", "sql", "result", "answer", *actions)
        known: dict[str, str] = {}
        checks = self.prompts.has("executor_copy")
        """Whether a result with a number that stands nowhere is still to be sent back, which is done once."""
        while True:
            turn = await executor.write()
            for refine in turn.parsed.all("refine"):
                run.events.emit("refine", executor.id, text=refine.content)
            action = turn.parsed.first(*actions)
            if action is None or not action.content:
                executor.remind(turn, self.prompts.text("executor_remind"))
            elif action.tag == "search":
                await self._search(run, executor, action.content, told)
            elif action.tag == "sql":
                found = await query(executor, run.searched, action.content)
                executor.tell(wrap("documents", cut_to_tokens(found, _ROWS_TOKENS, executor.engine)))
                self._repeat_task(executor)
            elif action.tag in CALLS and run.tools:
                for shown in await run.tools.shown(executor, run.tools.calls(turn.parsed), _as_documents):
                    executor.tell(shown)
            elif action.tag == "task":
                tasks = self._tasks(executor, turn)
                results = await self._delegate(run, executor, tasks, findings, known, level + 1)
                executor.tell_results(results, tokens=self.settings.result_tokens)
            elif checks and (unread := unread_numbers(action.content, _told(executor))):
                checks = False
                executor.tell(self.prompts.text("executor_copy", numbers=unread))
            else:  # the paper's executor ends with <result>, the published code's with <answer>
                return action.content, "answered"

    async def _search(self, run: Run, executor: Context, query: str, told: set[str]) -> None:
        if executor.repeats(query):
            executor.tell("This query was already sent; change it or conclude.")
            return
        try:
            hits = (await run.search(executor, [query], self.settings.k))[0]
        except SearchError as error:
            executor.tell(fence(f"The search failed: {error}"))
            return
        if hits:
            executor.show(hits, tokens=self.settings.document_tokens)
            tables = told_with(hits, self.prompts, "executor", run.searched)
            if tables and tables not in told:
                told.add(tables)
                executor.tell(tables)
            self._repeat_task(executor)
        else:
            executor.tell("<documents>No documents were found.</documents>")

    def _repeat_task(self, executor: Context) -> None:
        """After documents, because small models answer what stands last."""
        if self.prompts.has("executor_read"):
            executor.tell(self.prompts.text("executor_read", task=executor.task))

    async def _force_result(self, executor: Context) -> str:
        if not self.settings.force:
            return ""
        return await executor.force(self.prompts.text("executor_force"), "result", "answer")


def _told(executor: Context) -> list[str]:
    return [executor.task, executor.told, *(f"{document.title} {document.text}" for document in executor.documents)]


def _as_documents(text: str) -> str:
    return wrap("documents", text)


def _refined(executor: Context) -> str:
    """What the executor wrote about the documents it read."""
    return executor.last_turn.parsed.text("refine") if executor.last_turn else ""
