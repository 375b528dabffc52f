"""The agent loop: an episode of one of our systems on verl's rollout servers, as verl's outputs.

Configured by a YAML file that `actor_rollout_ref.rollout.agent.agent_loop_config_path` names:

    - name: subquest
      _target_: subquest.train.verl.loop.SubquestLoop
      system: coda
      index: http://127.0.0.1:8000/retrieve
      settings: {turns: 6, executor_turns: 6}

Every trajectory becomes an `AgentLoopOutput`: the prompt, then actions (mask 1), observations and a forced turn (mask
0). The root goes last, because verl takes the last output's reward for the whole session and counts each session once
in the baseline: that is CoDA's group advantage, so plain `grpo` trains it. DECOR's roles have rewards of their own, in
`extra_fields["role_reward"]`, which its trainer (`roles`) reads.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, register

from ...assemble import AgentSpec, Resources, build_agent, open_engine, open_search
from ...engine.interface import Engine, Sampling
from ...judge.model import ModelJudge
from ...record import Episode, Trajectory
from ...retrieval.search import Search
from ...rewards import Reward, RewardFunction
from ...rewards import load as load_reward
from .data import LOOP, question_of
from .engine import ServerEngine


@register(LOOP)
class SubquestLoop(AgentLoopBase):  # type: ignore[misc]
    """One episode; a new loop is made for each."""

    def __init__(
        self,
        *args: Any,
        system: str = "coda",
        reward: str = "",
        index: str = "",
        k: int = 3,
        judge: str = "",
        compressor: str = "",
        max_tokens: int = 512,
        settings: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """`system` and its `settings`, the reward preset (the system's own where empty), what is searched; for DECOR
        the models that judge (rules where empty) and compress (the policy where empty)."""
        super().__init__(*args, **kwargs)
        self.system, self.k, self.max_tokens = system, k, max_tokens
        self.settings = {str(name): value for name, value in (settings or {}).items()}
        self.search = _search(index)
        self.reward = _reward(reward or system, judge)
        self.compressor = _model("compressor", compressor) if compressor else None

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> list[AgentLoopOutput]:
        lengths = Lengths(int(self.rollout_config.prompt_length), int(self.rollout_config.response_length))
        engine = ServerEngine(self.server_manager, self.tokenizer, window=sum(lengths), sampling=sampling_params)
        sampling = Sampling(max_tokens=self.max_tokens, temperature=sampling_params["temperature"], logprobs=True)
        engines = {"": engine, **({"compressor": self.compressor} if self.compressor else {})}
        spec = AgentSpec(system=self.system, settings=self.settings, k=self.k, sampling=sampling)
        system = build_agent(spec, Resources(engines, self.search))
        question = question_of(kwargs)
        episode = await system.solve(question, id=uuid.uuid4().hex)
        (reward,) = await self.reward.score([episode])
        return outputs_of(episode, reward, lengths)


@functools.cache
def _search(place: str) -> Search | None:
    return open_search(place) if place else None


@functools.cache
def _reward(name: str, judge: str) -> RewardFunction:
    return load_reward(name, judge=ModelJudge(_model("judge", judge), instruction="decor") if judge else None)


@functools.cache
def _model(part: str, spec: str) -> Engine:
    return open_engine(spec, part=part)


class Lengths(NamedTuple):
    """What verl pads the two parts of a row to."""

    prompt: int
    response: int


def outputs_of(episode: Episode, reward: Reward, lengths: Lengths) -> list[AgentLoopOutput]:
    """An episode in verl's form, its root last; trajectories that wrote nothing, or whose role is not trained (DECOR's
    compressor, which may be another model), are left out."""
    wrote = [t for t in episode.trajectories if any(s.kind == "agent" and s.token_ids for s in t.segments)]
    acted = [t for t in wrote if any(t.action_mask)] or wrote  # verl wants a row, also of an episode that was forced
    acted = [t for t in acted if t.role in reward.roles] or acted
    ordered = [t for t in acted if t.parent is not None] + [t for t in acted if t.parent is None]
    return [_output(t, reward, lengths) for t in ordered]


def _output(trajectory: Trajectory, reward: Reward, lengths: Lengths) -> AgentLoopOutput:
    """A prompt beyond verl's length, as that of a context that was opened again, goes on in the response (mask 0)."""
    first = next(n for n, s in enumerate(trajectory.segments) if s.kind != "prompt")
    start = min(lengths.prompt, sum(len(s.token_ids) for s in trajectory.segments[:first]))
    ids, mask = trajectory.token_ids, trajectory.action_mask
    own = [s for s, acts in zip(trajectory.segments, trajectory.actions, strict=True) if acts and s.token_ids]
    sampled = all(s.logprobs is not None for s in own)
    end = start + lengths.response
    return AgentLoopOutput(
        prompt_ids=list(ids[:start]),
        response_ids=list(ids[start:end]),
        response_mask=list(mask[start:end]),
        response_logprobs=list(trajectory.logprobs[start:end]) if sampled else None,
        reward_score=reward.total,
        num_turns=sum(trajectory.actions),
        metrics={},
        extra_fields={
            "reward_extra_info": dict(reward.terms),
            "role": trajectory.role,
            "role_reward": reward.roles.get(trajectory.role),
            "turn_scores": [],
            "tool_rewards": [],
        },
    )
