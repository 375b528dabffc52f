"""One role's context: its segments, and what it cost."""

from __future__ import annotations

from typing import Literal

from ..codec import Record
from ..errors import DataError

SegmentKind = Literal["prompt", "agent", "env"]
_ZERO = 0.0  # one object, by which JSON leaves it out


class Usage(Record):
    """What something cost. Adding two usages adds all counts and keeps the larger peak."""

    prompt_tokens: int = 0
    """Tokens that models read, cached ones included."""
    cached_tokens: int = 0
    """The part of `prompt_tokens` that came from a cache."""
    completion_tokens: int = 0
    """Tokens that models wrote."""
    peak_context: int = 0
    """Longest context of any model call, prompt and completion together."""
    model_calls: int = 0
    searches: int = 0
    tool_calls: int = 0
    """Pages, code, files and media, without searches."""
    seconds: float = _ZERO
    """Wall-clock time of the episode, context (for a trajectory) or call (for a generation)."""
    cost: float = _ZERO
    """In the currency of the price table; 0 if no price is known."""
    estimated_tokens: int = 0
    """The part of prompt and completion tokens that is an estimate, because the server reported no usage."""
    cache_hits: int = 0
    """Model calls and searches answered from the on-disk cache."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.completion_tokens + other.completion_tokens,
            max(self.peak_context, other.peak_context),
            self.model_calls + other.model_calls,
            self.searches + other.searches,
            self.tool_calls + other.tool_calls,
            self.seconds + other.seconds or _ZERO,
            self.cost + other.cost or _ZERO,
            self.estimated_tokens + other.estimated_tokens,
            self.cache_hits + other.cache_hits,
        )


class Segment(Record):
    """A stretch of a context.

    `token_ids` are the ids that the model saw or sampled; empty for engines that do not expose ids.
    `logprobs` exist for agent segments only, one for each of the `token_ids`.
    """

    kind: SegmentKind
    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] | None = None
    """Log-probability of each sampled token at the sampling temperature, if the engine returns them."""
    role: str = ""
    """Chat role of the message (system, user, assistant) for engines that use messages."""
    policy: int | None = None
    """Version of the weights that sampled the segment, counted by the trainer."""

    def __post_init__(self) -> None:
        if self.logprobs is not None:
            if self.kind != "agent":
                raise DataError(f"a segment of kind {self.kind!r} cannot have log-probs")
            if len(self.logprobs) != len(self.token_ids):
                raise DataError(f"{len(self.logprobs)} log-probs for {len(self.token_ids)} token ids")


class Trajectory(Record):
    """One role's context from its prompt to its last token."""

    id: str
    role: str
    task: str
    parent: str | None = None
    """Id of the trajectory that asked for this one; None for a root."""
    segments: tuple[Segment, ...] = ()
    stop_reason: str = ""
    result: str = ""
    """What it returned to its parent; for a root, its answer."""
    forced: bool = False
    """Its last turn was forced by a limit."""
    usage: Usage = Usage()
    model: str = ""
    format_errors: tuple[str, ...] = ()
    """What the tag parser found malformed in its agent turns, in order."""
    part_of: str = ""
    """Id of the trajectory that continues this one with fewer documents, because its window was full."""

    @property
    def text(self) -> str:
        return "".join(s.text for s in self.segments)

    @property
    def agent_text(self) -> str:
        return "\n".join(s.text for s in self.segments if s.kind == "agent")

    @property
    def actions(self) -> tuple[bool, ...]:
        """For each of the `segments`, whether it is a turn that the agent wrote unforced."""
        wrote = [s.kind == "agent" for s in self.segments]
        if self.forced and True in wrote:
            wrote[len(wrote) - 1 - wrote[::-1].index(True)] = False
        return tuple(wrote)

    @property
    def written_turns(self) -> tuple[str, ...]:
        """The turns that the agent wrote unforced. Rewards use only these."""
        return tuple(s.text for s, own in zip(self.segments, self.actions, strict=True) if own)

    @property
    def has_tokens(self) -> bool:
        """Whether every non-empty segment has its token ids, which training needs."""
        return bool(self.segments) and all(s.token_ids or not s.text for s in self.segments)

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(i for s in self.segments for i in s.token_ids)

    @property
    def action_mask(self) -> tuple[int, ...]:
        """1 for tokens that the agent sampled unforced; 0 for prompt and environment tokens (CoDA 3.3.3) and for a
        forced turn, which is not rewarded."""
        return tuple(
            m for s, own in zip(self.segments, self.actions, strict=True) for m in (int(own),) * len(s.token_ids)
        )

    @property
    def logprobs(self) -> tuple[float, ...]:
        """Behaviour log-probs of the `token_ids`, 0.0 where the mask is 0. Raises if an agent segment has none."""
        out: list[float] = []
        for s, own in zip(self.segments, self.actions, strict=True):
            if not own:
                out.extend([0.0] * len(s.token_ids))
            elif s.logprobs is None and s.token_ids:
                raise DataError(f"trajectory {self.id}: an agent segment has no log-probs")
            else:
                out.extend(s.logprobs or ())
        return tuple(out)
