"""What all systems share: how a question becomes an episode.

A system is a class with one async method, `answer(run)`, written in the vocabulary of its paper. Everything else is
here: settings, engines by role, prompts, events and budgets.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from ..codec import checked, to_dict
from ..engine import Engine, Message, RoleAware, Sampling
from ..engine.actions import Action, CallsTools
from ..errors import OutsideError, UsageError
from ..events import SCHEMA_VERSION, EventLog, Listener, TextListener
from ..limits import Limits
from ..protocol import TAGS as PROTOCOL_TAGS
from ..record import STYLES, Document, Episode, Question, Style, checked_question
from ..retrieval.search import Search
from ..tools.egress import Egress
from ..tools.function_tool import FunctionTool, from_function, with_unique_names
from ..tools.tool_options import ToolOptions
from ..tools.websearch import is_web
from .answering import NO_RESULT, failed_part
from .context import LimitReached
from .evidence import Finding, Support, support_of
from .given_tools import TAGS, Form, GivenTools
from .given_tools import actions as tool_actions
from .prompts import SETS, Prompts, PromptSet, folder_beside, own_folder, prompt_set_of, trained_ways
from .report_writer import ROLES as REPORT_ROLES
from .report_writer import ReportWriter
from .role_setup import RoleSetup
from .run import Answer, Run
from .solver import Solver
from .statements import declines
from .voting import MOST_VOTES, most_frequent_answer
from .window import Shown


@dataclass(frozen=True, slots=True)
class NoSettings:
    """For systems without settings of their own."""


S = TypeVar("S")
T = TypeVar("T")


class System(Solver, Generic[S]):
    """A way of answering questions with one or more roles.

    `model` is an engine, or a mapping from role to engine with `""` for all others. `sampling` and `limits` can be
    given per role in the same way; `limits[""]` is the episode's own, and its turns apply to each context.
    """

    name: ClassVar[str] = ""
    description: ClassVar[str] = ""
    """One line for somebody who chooses between systems."""
    needs_training: ClassVar[bool] = False
    """Whether it is made for a model that was trained on its format; others only follow its prompt."""
    roles: ClassVar[tuple[str, ...]] = ()
    frozen: ClassVar[tuple[str, ...]] = ()
    """Roles that are never trained: no trace of them is learnt, and a model that plays any role plays them as well."""
    Settings: ClassVar[type[Any]] = NoSettings
    sampling: ClassVar[Sampling] = Sampling()
    """How the paper decodes."""
    thought: ClassVar[int] = 16_384
    """Most tokens of a turn that goes on thinking, for models that read the full prompts. Other models were trained on
    turns that end where they are cut."""
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Named variants of the settings."""
    trained_ways: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Settings that models may be trained with, by the name under which their adapters say so (`+no-refine`). Where all
    models are, these are the defaults."""
    removed: ClassVar[Mapping[str, str]] = {}
    """Settings of earlier versions, and why they are gone."""
    stand_ins: ClassVar[Mapping[str, str]] = {}
    """Roles that run as another role does unless they are given something of their own."""
    uses_tools: ClassVar[bool] = False
    """Whether it searches the web, opens pages and runs code, with a `cache` for them (`tool_system.ToolSystem`)."""
    tool_roles: ClassVar[tuple[str, ...]] = ()
    """The roles that can call tools that the user brings."""
    tool_form: ClassVar[Form] = TAGS
    """How they write calls."""
    prompt_roles: ClassVar[Mapping[str, str]] = {}
    """The role that reads a prompt whose name does not begin with the role's."""
    reads: ClassVar[bool] = True
    """Whether it reads documents; if not, nothing is said about the support of its answers."""
    answering: ClassVar[str] = ""
    """The role that writes the final answer; the first of `roles` if empty."""

    def __init__(
        self,
        model: Engine | Mapping[str, Engine],
        search: Search | None = None,
        *,
        sampling: Sampling | Mapping[str, Sampling] | None = None,
        limits: Limits | Mapping[str, Limits] | None = None,
        prompts: str | Path | None = None,
        preset: str = "",
        abstain: bool | None = None,
        only_supported: bool = False,
        votes: int = 1,
        style: Style = "short",
        tools: Sequence[FunctionTool | Callable[..., Any]] = (),
        tool_options: ToolOptions | None = None,
        search_tokens: int | None = None,
        **settings: Any,
    ) -> None:
        """`prompts` is a prompt set, `full` or `compact` (instead of each model's own), or a folder with prompt files
        that replace single ones. `abstain` allows the answer "unknown", which ends the episode as abstained and without
        an answer; by default it is allowed where the model that answers was trained to say it. With `only_supported` an
        answer that no document supports is withheld and ends so, too. With `votes` above 1, a question is answered up
        to that many times and the majority decides. `style` is how answers are written: in a
        few words, in a sentence with a citation, or as a report. `tools` are functions that its roles can call;
        `tool_options` is the section `[tools]` of subquest.toml. What one search finds is cut to what the query needs
        of it, in `search_tokens` (`excerpts`).
        """
        if not 1 <= votes <= MOST_VOTES:
            raise UsageError(f"votes must be from 1 to {MOST_VOTES:,}, not {votes}")
        self.engines: Mapping[str, Engine] = model if isinstance(model, Mapping) else {"": model}
        self.search = search
        self.search_tokens = search_tokens
        answers = _first(self.engines, (self._answering, "", *self.engines))
        self.abstain = abstain if abstain is not None else answers is not None and "abstain" in trained_ways(answers)
        self.only_supported = only_supported
        self.votes = votes
        self.style = self._checked_style(style)
        self.settings: S = self._read_settings(preset, settings)
        self.tool_options = tool_options or ToolOptions()
        self._tools_given = self._read_tools(tools)
        self._samplings = sampling if isinstance(sampling, Mapping) else {"": sampling or type(self).sampling}
        self._limits = limits if isinstance(limits, Mapping) else {"": limits or Limits()}
        self._refuse_mistakes(search)
        self._prompts_given = str(prompts or "")
        self.prompts = self.prompts_in(self.prompt_folder())
        self._setups: dict[str, RoleSetup] = {}

    async def answer(self, run: Run) -> Answer:
        """Answer `run.question`. The one method a system writes."""
        raise NotImplementedError(f"{type(self).__name__} does not define answer()")

    def actions(self) -> Mapping[str, Sequence[Action]]:
        """What each role can do, for `--protocol tools`; a role without an entry acts by its text alone."""
        return {}

    @functools.cached_property
    def tools(self) -> tuple[FunctionTool, ...]:
        """The tools that the user brings, under names that no action of the system has."""
        taken = {action.name for actions in self.actions().values() for action in actions}
        return with_unique_names(self._tools_given, {*taken, *PROTOCOL_TAGS, "finish"})

    def shown(self, role: str, documents: Sequence[Document], tokens: int, **fields: str) -> Shown[list[Message]]:
        """The prompt of a role that reads documents, each cut to `tokens`; as many as fit into its window."""
        return self.prompts.with_documents(role, documents, tokens, self.setup(role).engine, **fields)

    def prompts_in(self, folder: Path) -> Prompts:
        """The prompts of a folder, in the set of the model that reads them; the user's own come first."""
        override = None if self._prompts_given in ("", *SETS) else own_folder(Path(self._prompts_given), self.name)
        return Prompts(folder, override, self._prompt_set)

    def _prompt_set(self, prompt: str) -> PromptSet:
        """The set that a prompt is taken from: that of the model of the role that reads it."""
        if self._prompts_given in SETS:
            return SETS[self._prompts_given]
        role = self.prompt_roles.get(prompt) or max(
            (role for role in (*self.roles, *REPORT_ROLES) if prompt == role or prompt.startswith(f"{role}_")),
            key=len,
            default="",
        )
        engine = _first(self.engines, (role, self._stand_in(role), "", *self.engines))
        return prompt_set_of(engine) if engine is not None else "full"

    @property
    def prompt_set(self) -> str:
        """What is recorded about the prompts: the set, or one per role, and the user's folder."""
        sets = {role: self._prompt_set(role) for role in self.roles or ("",)}
        by_role = ",".join(f"{role}={name}" for role, name in sets.items())
        named = by_role if len(set(sets.values())) > 1 else min(sets.values())
        return named if self._prompts_given in ("", *SETS) else f"{self._prompts_given} over {named}"

    @classmethod
    def prompt_folder(cls) -> Path:
        """Where its prompts are: in `prompts/NAME` or `prompts` beside the file of the class, or of one it extends."""
        return folder_beside([kind for kind in cls.__mro__ if issubclass(kind, System)], cls.name)

    @property
    def model_name(self) -> str:
        if set(self.engines) == {""}:
            return self.engines[""].name
        return ",".join(f"{role}={e.name}" if role else e.name for role, e in sorted(self.engines.items()))

    def for_all_roles(self) -> dict[str, Any]:
        """The options of roles that were given nothing of their own, for a system that works inside this one."""
        prompts = self._prompts_given if self._prompts_given in SETS else None
        sampling = self._samplings.get("") or type(self).sampling
        shared = {"sampling": sampling, "limits": self._limits.get("", Limits()), "prompts": prompts}
        return shared | {"search_tokens": self.search_tokens}

    def setup(self, role: str) -> RoleSetup:
        """The engine, sampling and limits of a role."""
        if role not in self._setups:
            self._setups[role] = self._new_setup(role)
        return self._setups[role]

    @property
    def _answering(self) -> str:
        return self.answering or (self.roles[0] if self.roles else "")

    def _stand_in(self, role: str) -> str:
        """The role that a role runs as unless it is given something of its own."""
        return self.stand_ins.get(role, self._answering if role in REPORT_ROLES else role)

    def _new_setup(self, role: str) -> RoleSetup:
        names = (role, self._stand_in(role), "")
        engine = _first(self.engines, names)
        if engine is None:
            raise UsageError(f"no model is given for the role {role!r} of {self.name}")
        addition = ""
        if isinstance(engine, RoleAware):
            engine = engine.for_role(role)
        actions = self.actions().get(role, ())
        if role in self.tool_roles:
            actions = (*actions, *tool_actions(self.tools, self.tool_form))
        if isinstance(engine, CallsTools) and actions:
            addition = self.prompts.text("tools") if engine.calls_tools else ""
            engine = engine.with_actions(actions)
        sampling = _first(self._samplings, names) or type(self).sampling
        limits = _first(self._limits, names[:2]) or Limits()
        shared = self._limits.get("", limits)
        if limits.turns is None:  # an episode has no turns of its own: those it is given apply to each context
            limits = dataclasses.replace(limits, turns=shared.turns)
        thought = limits.thought if limits.thought is not None else shared.thought
        if thought is None:
            thought = 0 if prompt_set_of(engine) == "compact" else self.thought
        return RoleSetup(engine, sampling, limits, addition, thought)

    async def solve(
        self,
        question: str | Question,
        *,
        listener: Listener | None = None,
        seed: int | None = None,
        id: str | None = None,
        style: Style | None = None,
        on_text: TextListener | None = None,
        support: bool = True,
    ) -> Episode:
        """One episode. Failures of models and searches are recorded in it; only defects and wrong usage raise.

        `style` is that of this answer, in place of the system's. `on_text` gets what models write while they write it.
        Without `support` no quotes are chosen, and nothing is said about whether documents support the answer.
        """
        question = checked_question(question)
        style = self._checked_style(style or self.style)
        identifier = id or uuid.uuid4().hex
        events = EventLog(listener, episode=identifier, on_text=on_text)
        additions = {self._answering: self.prompts.text("abstain")} if self.abstain else {}
        limits = self._limits.get("", Limits())
        tools = GivenTools(self.tools, self.tool_options, self._egress()) if self.tools else None
        more: dict[str, Any] = {"additions": additions, "tools": tools, "search_tokens": self.search_tokens}
        run = Run(question, self.setup, self.search, events, limits, seed, **more)
        settings = self.recorded_settings() | ({"style": style} if style != "short" else {})
        writer = ReportWriter(self.prompts, run, self.answer, self._support)
        events.emit(
            "start",
            question=question.question,
            system=self.name,
            model=self.model_name,
            settings=settings,
            schema=SCHEMA_VERSION,
        )
        answer, details = await self._answer_or_failure(run, writer if style == "report" else None)
        answer = dataclasses.replace(answer, forced=answer.forced and bool(answer.text))
        evidence, supported, parts = self._support(run, answer) if support else Support(answer.evidence, None)
        if self.only_supported and answer.text and supported is False and not parts:
            details["withheld"] = answer.text
            answer, evidence = dataclasses.replace(answer, text="", stop_reason="abstained", evidence=()), ()
        if style == "sentence" and answer.text and not declines(answer.text):
            answer = await writer.sentence(answer, evidence)
            evidence = answer.evidence if answer.evidence else evidence
        details |= {"supported": supported} | ({"parts_supported": True} if parts else {})
        events.emit("answer", answer=answer.text, forced=answer.forced, confidence=answer.confidence, **details)
        trajectories, usage = await run.finish()
        events.emit("end", stop_reason=answer.stop_reason, usage=to_dict(usage))
        return Episode(
            id=identifier,
            question=question,
            system=self.name,
            model=self.model_name,
            trajectories=trajectories,
            answer=answer.text,
            evidence=run.in_whole_documents(run.with_queries(evidence)),
            supported=supported,
            parts_supported=parts,
            confidence=answer.confidence,
            stop_reason=answer.stop_reason,
            forced=answer.forced,
            usage=usage,
            errors=tuple(run.errors),
            events=tuple(events.events),
            settings=settings,
            seed=seed,
            report=answer.report,
        )

    async def _answer_or_failure(self, run: Run, writer: ReportWriter | None) -> tuple[Answer, dict[str, Any]]:
        """What `answer` gives, and the votes if there were any; with a `writer`, its report. A run that cannot go on is
        finished first."""
        details: dict[str, Any] = {}
        try:
            if writer is not None:
                answer = await writer.report()
            elif self.votes > 1:
                answer, details["votes"] = await most_frequent_answer(self.answer, run, self.votes)
            else:
                answer = await self.answer(run)
        except (OutsideError, LimitReached) as error:
            run.fail(failed_part(error), error, fatal=True)
            return Answer("", stop_reason="failed"), details
        except BaseException as error:
            await run.finish()
            cancelled = isinstance(error, asyncio.CancelledError)
            run.events.emit("end", stop_reason="cancelled" if cancelled else "crashed", message=repr(error))
            raise
        given: Any = answer  # a user's system may return anything
        if not isinstance(given, Answer):
            await run.finish()
            raise UsageError(f"{type(self).__name__}.answer gave {given!r}; a system returns Answer(text)")
        if self.abstain and declines(answer.text):
            answer = dataclasses.replace(answer, text="", stop_reason="abstained")
        elif answer.text.strip().rstrip(".") == NO_RESULT.rstrip("."):
            answer = dataclasses.replace(answer, text="", stop_reason="no answer")
        return answer, details

    def recorded_settings(self) -> dict[str, Any]:
        """What an episode records about how it was answered."""
        settings = {**to_dict(self.settings), "prompts": self.prompt_set}
        settings |= {"abstain": True} if self.abstain else {}
        settings |= {"only_supported": True} if self.only_supported else {}
        settings |= {"search_tokens": self.search_tokens} if self.search_tokens is not None else {}
        settings |= {"tools": [tool.name for tool in self.tools]} if self.tools else {}
        return settings | ({"votes": self.votes} if self.votes > 1 else {})

    def _support(self, run: Run, answer: Answer) -> Support:
        """What supports an answer; a system that names no findings rests on all documents that were read."""
        if not self.reads:
            return Support(answer.evidence, None)
        if answer.report is not None:
            return Support(answer.evidence, bool(answer.evidence))
        everything = Finding("", "", "", list(run.documents.values()))
        return support_of(answer.text, run.question.question, answer.findings or [everything], answer.evidence)

    def _egress(self) -> Egress:
        """What calls of tools may send elsewhere; a run over a local index has private documents."""
        private = self.search is not None and not is_web(self.search)
        return Egress(self.tool_options.egress or "adaptive", private_documents=private)

    def _read_tools(self, tools: Any) -> tuple[FunctionTool, ...]:
        if not isinstance(tools, list | tuple):
            raise UsageError(f"tools is a list of functions, not {tools!r:.80}; options of tools are `tool_options`")
        if tools and not self.tool_roles:
            raise UsageError(f"{self.name} has no role that calls tools; coda, react, react-tools and hira have")
        if text := next((tool for tool in tools if isinstance(tool, str)), ""):
            raise UsageError(f"{text!r:.80} is opened by open_agent: give it as AgentSpec(tools=[…])")
        return tuple(tool if isinstance(tool, FunctionTool) else from_function(tool) for tool in tools)

    def _checked_style(self, style: Style) -> Style:
        if style not in STYLES:
            raise UsageError(f"there is no style {style!r}; give {', '.join(STYLES)}")
        if style == "report" and self.votes > 1:
            raise UsageError("votes decide between short answers; a report is written once: leave them out")
        return style

    def _read_settings(self, preset: str, settings: Mapping[str, Any]) -> S:
        if preset and preset not in self.presets:
            known = ", ".join(self.presets) or "none"
            raise UsageError(f"system {self.name!r} has no preset {preset!r}; it has {known}")
        ways = [way for way in self.trained_ways if all(way in trained_ways(one) for one in self.engines.values())]
        trained = {key: value for way in ways for key, value in self.trained_ways[way].items()}
        settings = {**trained, **self.presets.get(preset, {}), **settings}
        for key, value in settings.items():
            if key in self.removed:
                raise UsageError(f"the setting {key!r} of system {self.name!r} was removed: {self.removed[key]}")
            if isinstance(value, int | float) and not value >= 0:  # counts, lengths and shares
                raise UsageError(f"system {self.name!r}: {key} must be a number from 0, not {value!r}")
        return checked(self.Settings, settings, f"system {self.name!r}")  # type: ignore[no-any-return]

    def _refuse_mistakes(self, search: Any) -> None:
        """Refuse names in place of what they name, and roles that do not exist."""
        engines: Mapping[str, Any] = self.engines
        if name := next((str(engine) for engine in engines.values() if isinstance(engine, str | Path)), ""):
            raise UsageError(f"the model is {name!r}; give an engine: sq.embedded(), sq.openai(NAME), …")
        if isinstance(search, str | Path):
            raise UsageError(f"the search is {str(search)!r}; give an open index: sq.Index.open({str(search)!r})")
        if (tokens := self.search_tokens) is not None and (not isinstance(tokens, int) or tokens < 1):
            raise UsageError(f"search_tokens is {tokens!r}; give the tokens that a search may show, or leave it out")
        allowed = (*self.roles, *REPORT_ROLES)
        for what, given in (("model", self.engines), ("sampling", self._samplings), ("limits", self._limits)):
            if unknown := next((role for role in given if role and self.roles and role not in allowed), ""):
                known = ", ".join(self.roles)
                raise UsageError(f"{what}: system {self.name!r} has no role {unknown!r}; it has {known}")


def _first(given: Mapping[str, T], names: Iterable[str]) -> T | None:
    """The value of the first name that has one."""
    return next((given[name] for name in names if name in given), None)
