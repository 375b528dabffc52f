"""Tools that users bring, in the contexts of roles: how a model is told of them, and how its calls are carried out.

A model calls one by a JSON object, `{"name": …, "arguments": {…}}`, in the tag `call`, or between the tokens of its
system's dialect; an endpoint with native tool calls is given each tool as a function. The tag `tool_call` is read
too, but nobody is asked to write it: in the vocabularies of many models it is one token, which some never learnt to
write. Every call is an event, and its result is a document of the run: text from outside, fenced, cut to a length,
and something that an answer can rest on.
"""

from __future__ import annotations

import asyncio
import copy
import difflib
import functools
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..engine import Engine, Message
from ..engine.actions import Action, CallsTools
from ..errors import ToolError
from ..masking import mask
from ..protocol import Parsed
from ..protocol.loose_json import find_object
from ..record import Document, Hit, Usage
from ..tools.egress import Egress, EgressRefused
from ..tools.function_tool import BadArguments, FunctionTool
from ..tools.tool_options import ToolOptions
from .context import Context
from .prompts import Prompts
from .rendering import cut_to_tokens
from .window import Shown

CALLS = ("call", "tool_call")
"""Tags of calls."""
TAG, RESULT = "tool_call", "tool_result"
"""Of systems that call by tokens."""
RESULT_TOKENS = 1000
"""A result is cut to this in contexts whose system has no such setting."""
_CHARACTERS = 20_000
"""A result is cut to this before anybody sees it."""
_LISTED = 8000
"""Characters of a prompt that describe tools."""
_LEAST = 60


class Form(NamedTuple):
    """How a system writes calls, and the prompt that says so."""

    told: str
    opening: str
    closing: str


TAGS = Form("given_tools", "<call>", "</call>")
TOOL_CALLS = TAGS._replace(opening="<tool_call>", closing="</tool_call>")
"""Of systems whose paper has this tag."""
TOKENS = Form("given_tools_tokens", f"<|begin_{TAG}|>", f"<|end_{TAG}|>")


def actions(tools: Sequence[FunctionTool], form: Form) -> tuple[Action, ...]:
    """The tools as functions for native tool calls, written as the system parses them."""
    found = []
    for tool in tools:
        description, schema = tool.declared()
        opening = f'{form.opening}{{"name": {json.dumps(tool.name)}, "arguments": '
        description = description or f"The tool {tool.name}."  # endpoints refuse functions without one
        found.append(Action(tool.name, description, opening=opening, closing=f"}}{form.closing}", parameters=schema))
    return tuple(found)


def listed(tools: Sequence[FunctionTool], *, signatures: bool = True) -> str:
    """The tools one a line, in a bounded number of characters."""
    room = max(_LEAST, _LISTED // max(len(tools), 1))
    lines = []
    for tool in tools:
        head = tool.signature() if signatures else tool.name
        said = " ".join(tool.declared()[0].split())
        lines.append(f"- {head[:room]}: {said}"[: room + _LEAST] if said else f"- {head[:room]}")
    return "\n".join(lines)


class GivenTools:
    """The tools of one run: their calls are counted, limited and recorded."""

    def __init__(self, tools: Sequence[FunctionTool], options: ToolOptions, egress: Egress) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self.egress = egress
        self._most = options.most_calls
        self._seconds = options.seconds_per_call
        self._made = Counter[str]()

    def within(self, tools: Sequence[FunctionTool]) -> GivenTools:
        """The same tools in a system that works inside this one, where they may have other names."""
        inner = copy.copy(self)
        inner.tools = {tool.name: tool for tool in tools}
        return inner

    def told(
        self,
        messages: Sequence[Message],
        prompts: Prompts,
        engine: Engine,
        form: Form,
        task: str,
        *,
        searches: bool = True,
    ) -> list[Message]:
        """The opening of a role that may call them, with what it has to know. `searches`: it can search, too.

        Worked examples that only search teach a small model to search, so calls are shown beside them.
        """
        native = isinstance(engine, CallsTools) and engine.calls_tools
        tools = list(self.tools.values())
        fields = {"tools": listed(tools, signatures=not native)}
        if not native:
            fields["example"] = tools[0].example()
            if form.told == TAGS.told:
                messages = self._worked(messages, prompts, form, task)
            else:  # beside the task as well: a small model calls the tools of worked examples otherwise
                *before, last = messages
                messages = [*before, replace(last, content=f"{self._signatures}\n{last.content}")]
        text = prompts.text("given_tools_functions" if native else form.told, **fields)
        text = text.replace(TAGS.opening, form.opening).replace(TAGS.closing, form.closing)
        return self._with(messages, text if searches else f"{text}\n{prompts.text('given_tools_only')}")

    @property
    def _signatures(self) -> str:
        return f"Tools: {'; '.join(tool.signature() for tool in self.tools.values())}"[:_LISTED]

    def _worked(self, messages: Sequence[Message], prompts: Prompts, form: Form, task: str) -> Sequence[Message]:
        """The messages with a call of the first tool before the task, if they hold other worked examples.

        With a call of every tool, a small model calls tools that do not exist for what it should search.
        """
        *before, last = messages
        if task not in last.content or not any(message.role == "assistant" for message in before):
            return messages
        tool = next(iter(self.tools.values()))
        asked = replace(last, content=last.content.replace(task, tool.asked()))
        thought = prompts.text("given_tools_call", tool=tool.name)
        call = Message("assistant", f"{thought}\n{form.opening}{tool.example()}{form.closing}")
        return [*before, asked, call, last]

    def planned(self, messages: Sequence[Message], prompts: Prompts) -> list[Message]:
        """The opening of a role that hands tasks to those who may call them."""
        tools = listed(list(self.tools.values()), signatures=False)
        return self._with(messages, prompts.text("given_tools_planner", tools=tools))

    @staticmethod
    def _with(messages: Sequence[Message], text: str) -> list[Message]:
        return [replace(messages[0], content=f"{messages[0].content}\n\n{text}"), *messages[1:]]

    def calls(self, parsed: Parsed) -> list[str]:
        """The calls of a turn that is written in tags."""
        return [block.content for block in parsed.all(*CALLS) if block.content]

    def knows(self, call: str) -> bool:
        """Whether a call names one of these tools."""
        return str(find_object(call).get("name", "")) in self.tools

    async def shown(
        self, context: Context, calls: Sequence[str], frame: Callable[[str], str], tokens: int = RESULT_TOKENS
    ) -> list[Shown[str]]:
        """What the calls of a turn give, each in a frame of the system's."""
        engine = context.engine

        def render(groups: Sequence[Sequence[Document]], nothing: str) -> str:
            return frame(cut_to_tokens(groups[0][0].text, tokens, engine) if groups[0] else nothing)

        return [Shown([[await self.document(context, call)]], render, tokens) for call in calls]

    async def text(self, context: Context, call: str) -> str:
        """What a call gives, as text for the model."""
        return (await self.document(context, call)).text

    async def document(self, context: Context, call: str) -> Document:
        """Carry out a call: its result, or why there is none. Only a result has an id."""
        tool, arguments, problem = self._read(call)
        if tool is None:
            context.malformed("no such tool call", problem, turn=context.last_turn)
            return Document("", "", problem)
        if self._made.total() >= self._most:
            context.run.events.emit("limit", context.id, what=f"{self._most} tool calls", message=mask(call))
            return Document("", "", "No tool calls are left for this question. Conclude from what is known.")
        self._made[tool.name] += 1
        context.usage += Usage(tool_calls=1)
        source = mask(f"{tool.name}({json.dumps(arguments, ensure_ascii=False)})")
        emit = functools.partial(context.run.events.emit, "code", context.id, tool=tool.name, source=source)
        try:
            self._check_reach(tool)
            text = _cut(mask(await self._in_time(context, tool, arguments)))
        except BadArguments as error:
            emit(output="", error=str(error))
            context.malformed("bad arguments", f"{tool.name}: {error}")
            return Document("", "", f"The arguments do not fit: {error}. Call it as {tool.signature()}")
        except ToolError as error:
            emit(output="", error=str(error))
            context.run.fail("tool", f"{tool.name}: {error}", context)
            return Document("", "", f"The tool failed: {error}")
        emit(output=text, error="")
        if not text.strip():
            return Document("", "", "(the tool returned nothing)")
        document = Document(source[:200], tool.name, text, {"tool": tool.name})
        context.run.note(document, document.id)
        context.read([Hit(document, 1.0)])
        return document

    def _read(self, call: str) -> tuple[FunctionTool | None, dict[str, Any], str]:
        found = find_object(call)
        name = found.get("name")
        if not isinstance(name, str):
            form = '{"name": the tool, "arguments": {its arguments}}'
            return None, {}, f"A call is a JSON object: {form}. {self._signatures}"
        if name not in self.tools:
            near = difflib.get_close_matches(name, self.tools, 1) or list(self.tools)[: len(self.tools) == 1]
            instead = "".join(f" Call {self.tools[other].signature()}." for other in near)
            return None, {}, f"There is no tool {name!r:.80}; there are {', '.join(self.tools)}.{instead}"
        arguments = found.get("arguments", found.get("parameters"))
        if isinstance(arguments, str):
            arguments = find_object(arguments)
        return self.tools[name], dict(arguments) if isinstance(arguments, Mapping) else {}, ""

    def _check_reach(self, tool: FunctionTool) -> None:
        if tool.place and self.egress.closed:
            raise EgressRefused(f"calls of {tool.name} go to {tool.place}: its egress scope is closed in this run")

    async def _in_time(self, context: Context, tool: FunctionTool, arguments: dict[str, Any]) -> str:
        """What a tool returns; it runs in a task of its own, so that nothing it does can hold up the run."""
        limits = (context.budget.seconds_left(), None if tool.keeps_time else self._seconds)
        seconds = min((limit for limit in limits if limit is not None), default=None)
        task = asyncio.ensure_future(tool.call(arguments))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            await asyncio.wait({task}, timeout=seconds)
        finally:
            if not task.done():
                task.cancel()
        if not task.done():
            raise ToolError(f"it did not end within {seconds:g} seconds")
        if task.cancelled():
            raise ToolError("it was cancelled")
        error = task.exception()
        if error is not None and not isinstance(error, ToolError):
            raise ToolError(f"{type(error).__name__}: {error}") from error
        return task.result()


def _cut(text: str) -> str:
    left = len(text) - _CHARACTERS
    return text if left <= 0 else f"{text[:_CHARACTERS]}\n… {left:,} characters left out …"
