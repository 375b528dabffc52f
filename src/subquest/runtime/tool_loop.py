"""One role that reasons and calls tools inside its own reasoning, by tokens like `<|begin_search_query|>`.

HiRA's experts, WebThinker, CodeAct and ReAct with all tools are this loop with different tools and prompts. The role
writes in completion mode: a result is inserted where the call ended, between `<|begin_x|>` and `<|end_x|>` of the
tool's own, and the reasoning goes on.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..english import counted
from ..errors import EngineError
from ..limits import Limits
from ..protocol import end_token, fence
from ..record import Document
from .answering import force_answer
from .context import Context, LimitReached
from .evidence import Finding
from .rendering import cut_to_tokens
from .replies import box_in
from .run import Answer, Run
from .turn import Turn, confidence
from .window import Groups, Opening, Shown

_TOKEN = re.compile(r"<[\s/]{0,20}\|[\s/]{0,20}(?:begin|end)_")
_REMINDERS = 2
"""Reminders after turns without an action; then the loop ends with what was written."""
_REPEATED = "This was already sent; its result stands above. Change it or conclude."
_SAME = "\nThe same was sent before, with the same outcome. Change it or conclude."
Handler = Callable[[Context, str], Awaitable[str]]
Made = dict[tuple[str, str], list[Document]]
"""The result of each call in a context, by tag and content; empty once it was removed from a full context."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A call that the role can make."""

    tag: str
    """`search_query` is called by `<|begin_search_query|>…<|end_search_query|>`."""
    result: str
    """Tag in which the result comes back."""
    handle: Handler
    also: tuple[str, ...] = ()
    """Other result tags that models know."""
    once: bool = False
    """Whether the same call is refused the second time, because its result is already in the context."""


@dataclass(frozen=True, slots=True)
class LoopEnd:
    """How a role finished."""

    text: str
    """Its answer in a box, or its last text."""
    context: Context
    stop_reason: str
    """answered, forced, failed or no answer."""
    turn: Turn | None = None

    @property
    def answer(self) -> Answer:
        """The same as the answer of an episode, resting on what the role has read."""
        finding = Finding(self.context.task, self.text, "", self.context.documents, self.context.id)
        return Answer(
            self.text,
            forced=self.context.forced,
            confidence=confidence(self.turn),
            findings=[finding],
            stop_reason=self.stop_reason,
        )


def calls(turn: Turn, *tags: str) -> list[tuple[str, str]]:
    """Tag and content of each call in a turn, in order; content exactly as written.

    Those inside reasoning that came apart from the text are the first. The last of the text may lack its end where the
    model ended its turn there; not where it was cut off.
    """
    may_lack_end = turn.generation.finish != "length"
    found = [m for m in _call(tags).finditer(turn.generation.reasoning) if m[3]]
    found += [m for m in _call(tags).finditer(turn.text) if m[3] or may_lack_end]
    contents = [m[2] if m[3] else _TOKEN.split(m[2])[0] for m in found]
    return [(m[1].lower(), content.strip()) for m, content in zip(found, contents, strict=True) if content.strip()]


def same_call(content: str) -> str:
    """The content of a call without differences in case and spacing."""
    return " ".join(content.casefold().split())


@functools.cache
def _call(tags: tuple[str, ...]) -> re.Pattern[str]:
    """Matches a call by one of the tags, from its last opening token; other tokens are text."""
    begin = rf"<\|\s*begin_({'|'.join(map(re.escape, tags))})\s*\|>"
    content = r"((?:(?!<\|\s*begin_\1\s*\|>).)*?)"
    end = end_token(r"\1")
    return re.compile(rf"{begin}{content}({end}|\Z)", re.DOTALL | re.IGNORECASE | re.ASCII)


def inserted(before: str, text: str, *tags: str) -> str:
    """A result in its tokens, fenced; if the model has already written the opening token, without it."""
    begun = next((tag for tag in tags if before.rstrip().endswith(f"<|begin_{tag}|>")), "")
    return f"{'' if begun else f'<|begin_{tags[0]}|>'}{fence(text)}<|end_{begun or tags[0]}|>\n\n"


def _results(turn: str, tools: Sequence[Tool], results: list[list[Document]], tokens: int) -> Shown[str]:
    """The results of the calls of a turn; from a full context, each is removed as a whole."""

    def render(groups: Groups, nothing: str) -> str:
        texts = [group[0].text if group else nothing for group in groups]
        return "".join(
            inserted("" if number else turn, text, tool.result, *tool.also)
            for number, (tool, text) in enumerate(zip(tools, texts, strict=True))
        )

    return Shown(results, render, tokens)


async def _carry_out(
    context: Context, tools: Sequence[Tool], contents: Sequence[str], made: Made, tokens: int
) -> list[list[Document]]:
    """Carry out the calls of a turn. A repeated one is refused while its result is still in the context."""
    results: list[list[Document]] = []
    for tool, content in zip(tools, contents, strict=True):
        call = (tool.tag, same_call(content))
        if tool.once and made.get(call):
            context.run.events.emit("limit", context.id, what=f"repeated {tool.tag}", message=content)
            results.append([Document("", "", _REPEATED)])
            continue
        result = cut_to_tokens(await tool.handle(context, content), tokens, context.engine)
        if (before := made.get(call)) and before[0].text.removesuffix(_SAME) == result:
            result += _SAME
        results.append([Document("", "", result)])
        made[call] = results[-1]
    if all(result[0].text == _REPEATED for result in results):
        context.refuse()
    else:
        context.queries.refused = 0
    return results


async def reason(
    run: Run,
    role: str,
    task: str,
    opening: Opening,
    tools: Sequence[Tool],
    *,
    turns: int,
    remind: str,
    force: str,
    result_tokens: int,
    parent: Context | None = None,
    ends: Literal["box", "text"] = "box",
    number: int | None = None,
) -> LoopEnd:
    """Let a role work on a task until it answers: in a box, or, with `ends="text"`, by a turn without a call."""
    known: Mapping[str, Tool] = {tool.tag: tool for tool in tools}
    begins = (f"<|begin_{tag}|>" for tool in tools for tag in (tool.result, *tool.also))
    stop = tuple(dict.fromkeys([*(f"<|end_{tool.tag}|>" for tool in tools), *begins]))
    limits = Limits(turns=(turns + 1) * (_REMINDERS + 1) + 1)
    context = await run.open(
        role, task, opening, parent=parent, mode="completion", stop=stop, limits=limits, number=number
    )
    if parent is not None:
        run.events.emit("task", parent.id, task=task, child=context.id)
    silent = actions = 0
    made: Made = {}
    try:
        while True:
            turn = await context.write()
            found = calls(turn, *known)
            if found and actions >= turns:
                raise LimitReached(f"{counted(turns, 'action')} of {role}")
            if found:
                if left_out := "; ".join(content for _, content in found[turns - actions :]):
                    run.events.emit("limit", context.id, what=f"{counted(turns, 'action')} of {role}", message=left_out)
                found = found[: turns - actions]
                silent, actions = 0, actions + len(found)
                called = [known[tag] for tag, _ in found]
                results = await _carry_out(context, called, [text for _, text in found], made, result_tokens)
                context.tell(_results(turn.text, called, results, result_tokens))
            elif answer := box_in(turn) if ends == "box" else turn.text.strip():
                return await _end(context, answer, "answered", turn)
            elif silent == _REMINDERS:
                words = turn.parsed.outside
                return await _end(context, words, "answered" if words else "no answer", turn)
            else:
                silent += 1
                context.remind(turn, f"\n\n{remind}\n")
    except LimitReached:
        answer = await force_answer(context, f"\n\n{force}\n")
        return await _end(context, answer, "forced" if answer else "no answer", context.last_turn if answer else None)
    except EngineError as error:
        run.fail("engine", error, context)
        return await _end(context, "", "failed", None)


async def _end(context: Context, text: str, stop_reason: str, turn: Turn | None) -> LoopEnd:
    await context.close(stop_reason, text)
    return LoopEnd(text, context, stop_reason, turn)
