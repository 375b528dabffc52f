"""How an episode gets its answer: written by the role that answers, forced from it, or the newest result there is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from ..errors import EngineError
from .context import Context, LimitReached, Owner
from .evidence import Finding, newest
from .replies import answer_in, box_in, boxed
from .run import Answer
from .turn import confidence

NO_RESULT = "No result was found."
"""What a role is told where another brought nothing; it is no answer, though a model may copy it as one."""


def failed_part(stopped: Exception) -> str:
    """What ended a role or an episode, as the trace names it."""
    return "limit" if isinstance(stopped, LimitReached) else "engine" if isinstance(stopped, EngineError) else "system"


def note_stop(run: Owner, stopped: EngineError | LimitReached, context: Context | None = None) -> None:
    """Record why a role that the system can do without has stopped: its model failed, or a limit was reached."""
    run.fail(failed_part(stopped), stopped, context)


async def force_answer(context: Context, instruction: str, *tags: str) -> str:
    """The answer of one forced last turn: in a tag, in a box, or the text itself."""
    before = context.last_turn
    text = await context.force(instruction, *tags)
    last = context.last_turn
    if last is None or last is before:
        return ""
    return (boxed(text) if tags and last.parsed.last(*tags) else box_in(last)) or text


async def conclude(context: Context, findings: Sequence[Finding] = (), instruction: str = "") -> Answer:
    """Let the answering role write its answer, and close its context. A missing tag is noted, and the text still used.

    If a budget has run out, the turn is forced, with `instruction` as the last thing it is told.
    """
    try:
        turn = await context.write()
        text = answer_in(turn)
        if turn.parsed.first("answer") is None:
            context.malformed("no <answer>", turn=turn)
    except LimitReached:
        text = await force_answer(context, instruction, "answer")
    except EngineError as error:
        context.run.fail("engine", error, context, fatal=True)
        await context.close("failed")
        return Answer("", stop_reason="failed", findings=findings)
    stop_reason = ("forced" if context.forced else "answered") if text else "no answer"
    await context.close(stop_reason, text)
    return Answer(
        text,
        forced=context.forced,
        confidence=confidence(context.last_turn),
        findings=findings,
        stop_reason=stop_reason,
    )


async def conclude_early(
    context: Context,
    stopped: EngineError | LimitReached,
    findings: Sequence[Finding],
    force: Callable[[], Awaitable[str]] | None,
) -> Answer:
    """The answer of a role that cannot go on: from one forced turn if a limit was reached, or else the newest result.

    Without `force` there is no answer.
    """
    run, text = context.run, ""
    if isinstance(stopped, EngineError):
        run.fail("engine", stopped, context, fatal=True)
    elif force is not None:
        text = await force()
    if not text and force is not None:
        text = newest(findings)
    failed = any(failure.where != "limit" for failure in run.errors)
    stop_reason = "forced" if text else "failed" if failed else "no answer"
    await context.close(stop_reason, text)
    return Answer(text, forced=True, findings=findings, stop_reason=stop_reason)
