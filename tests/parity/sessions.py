"""Our verl adapter at work on scripted servers and on random episodes: what `verl_contract` holds to verl itself.

Imports the adapter, and so verl or, in `make test`, stand-ins for the few names that the adapter takes from it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import torch

from subquest.assemble import AgentSpec, preview_agent
from subquest.record import Document, Episode, Hit, Question, Step
from subquest.rewards import Reward
from subquest.train.advantage import BASELINES, trajectory_advantages
from subquest.train.random_model import tiny_source
from subquest.train.verl import loop as loops
from subquest.train.verl.data import question_of
from subquest.train.verl.reward import compute_score

from .batches import random_rollouts

QUESTION = Question("q1", "Who wrote it?", ("Ada Vale",), dataset="toy", split="train", decomposition=(Step("a", "b"),))
PLANNER = ("<think>one step</think><task>Who is the author?</task>", "<answer>Ada Vale</answer>")
EXECUTOR = ("<search>author</search>", "<refine>Ada Vale wrote it.</refine><result>Ada Vale</result>")
SAMPLING = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "repetition_penalty": 1.0, "logprobs": True}
ROLLOUT = {"prompt_length": 4096, "response_length": 4096}


class Search:
    async def retrieve(self, queries: list[str], k: int) -> list[list[Hit]]:
        return [[Hit(Document("d", "Book", "Ada Vale wrote it."), 1.0)] for _ in queries]


class Servers:
    """Writes the script of the role whose prompt it sees, in the ids of the tokenizer."""

    def __init__(self, tokenizer: Any, output: Any = SimpleNamespace) -> None:
        """`output` is verl's record of what a server wrote."""
        self.tokenizer = tokenizer
        self.output = output
        self.turns: dict[str, int] = {}
        self.seen: list[dict[str, Any]] = []

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]) -> Any:
        self.seen.append(sampling_params)
        turn = self.turns.get(request_id, 0)
        self.turns[request_id] = turn + 1
        text = self.tokenizer.decode(prompt_ids)
        script = EXECUTOR if "Task: " in text else PLANNER
        ids = self.tokenizer.encode(script[turn], add_special_tokens=False)
        ids.append(self.tokenizer.eos_token_id)
        return self.output(token_ids=ids, log_probs=[-0.5] * len(ids), extra_fields={"max_global_steps": 7})


def vocabulary() -> Any:
    return tiny_source("qwen2", [QUESTION.question, *PLANNER, *EXECUTOR]).tokenizer


def make_loop(servers: Servers, **verls: Any) -> Any:
    """The loop as verl makes it, with verl's own arguments, over a search of one document."""
    loops._search = lambda place: Search()  # type: ignore[assignment]
    return loops.SubquestLoop(
        server_manager=servers, tokenizer=servers.tokenizer, system="coda", settings={"turns": 3}, **verls
    )


def loop_facts(loop: Any, row: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """What has to hold of an episode that the loop runs for a row of verl's data, fact by fact."""
    yield question_of(row) == QUESTION, "a question survives verl's rows, its plan included"
    plain = {**row, "extra_info": {"index": 3, "split": "train"}}
    yield question_of(plain).answers == QUESTION.answers, "rows of other projects are questions too"
    given = preview_agent(AgentSpec(system="coda", settings=loop.settings, k=loop.k)).settings
    yield (given.k, given.turns) == (3, 3), "the system acts as in our own training"
    outputs = asyncio.run(loop.run(SAMPLING, **{**row, "raw_prompt": row["prompt"]}))
    yield len(outputs) == 2, "a list of outputs"
    yield [o.extra_fields["role"] for o in outputs] == ["executor", "planner"], "the planner comes last"
    yield outputs[-1].reward_score == 3.0 + 2.0 + 0.5, "its reward is the episode's (answer, two formats, refine)"
    tokenizer = loop.tokenizer
    for output, script in zip(outputs, (EXECUTOR, PLANNER), strict=True):
        role = output.extra_fields["role"]
        actions = [i for i, m in zip(output.response_ids, output.response_mask, strict=True) if m]
        written = [i for text in script for i in (*tokenizer.encode(text), tokenizer.eos_token_id)]
        yield actions == written, f"{role}: masked tokens are those that were sampled"
        inside = [p for p, m in zip(output.response_logprobs, output.response_mask, strict=True) if m]
        yield set(inside) == {-0.5}, f"{role}: log-probs stand beside them"
    ends = {s for request in loop.server_manager.seen for s in request["stop"]}
    yield ends == {"<result>", "<documents>"}, "no role can write what the environment says"
    score = compute_score("toy", "<think>x</think><answer>ada vale</answer>", {"target": ["Ada Vale"]})
    yield score == {"score": 1.0, "em": 1.0, "f1": 1.0}, "the reward function in verl's form"


CODA = "CoDA's group advantage through the loop and verl's grpo"
DECOR = "DECOR's role advantage through the loop and our trainer"


@dataclass(frozen=True)
class Sessions:
    """Random episodes as the loop returns them: our advantages by name, verl's keys and its rows."""

    mine: Mapping[str, torch.Tensor]
    keys: list[str]
    rows: list[Any]


def session_trials(seeds: Iterable[int]) -> Iterator[Sessions]:
    """Episodes of up to three questions. Advantages stand at every action token, [row, token], 0 elsewhere."""
    for seed in seeds:
        r = random.Random(seed)
        episodes, rewards, keys, rows = [], [], [], []
        for q in range(r.randint(1, 3)):
            for session in range(r.randint(2, 4)):
                episode, reward = _random_episode(r, f"{q}-{session}", Question(f"q{q}", f"{q}?"))
                outputs = loops.outputs_of(episode, reward, loops.Lengths(4096, 4096))
                episodes.append(episode)
                rewards.append(reward)
                keys += [f"uid{q}_{session}_{i}" for i in range(len(outputs))]
                rows += outputs
        mask = masks(rows)
        by_rollout = trajectory_advantages(episodes, rewards, BASELINES["verl"])
        by_role = trajectory_advantages(episodes, rewards, BASELINES["decor"], by="role")
        shares = _shares(keys, rows)
        mine = {CODA: _in_order(episodes, by_rollout) * mask, DECOR: _in_order(episodes, by_role) * shares * mask}
        yield Sessions(mine, keys, rows)


def _shares(keys: list[str], rows: list[Any]) -> torch.Tensor:
    """[row, 1]: what makes verl's mean over rows DECOR's sum over roles, each pooled over its turns (eq. 4)."""
    tokens = [sum(row.response_mask) for row in rows]
    places = [(*key.rsplit("_", 2)[:2], row.extra_fields["role"]) for key, row in zip(keys, rows, strict=True)]
    pooled = {place: sum(t for t, p in zip(tokens, places, strict=True) if p == place) for place in places}
    rollouts = len({place[:2] for place in places})
    return torch.tensor([[t / pooled[p] * len(rows) / rollouts] for t, p in zip(tokens, places, strict=True)])


def masks(rows: list[Any]) -> torch.Tensor:
    """[row, token]: 1 for action tokens, padded on the right."""
    width = max(len(row.response_ids) for row in rows)
    return torch.tensor([[*row.response_mask, *[0] * (width - len(row.response_mask))] for row in rows]).float()


def _random_episode(r: random.Random, name: str, question: Question) -> tuple[Episode, Reward]:
    made = random_rollouts(r.randrange(1 << 30))[0].episode
    root = made.trajectories[0].id
    trajectories = tuple(
        replace(t, id=f"{name}-{t.id}", parent=None if t.id == root else f"{name}-{root}") for t in made.trajectories
    )
    worth = {role: r.choice([0.0, 1.0, r.gauss(0, 2)]) for role in sorted({t.role for t in trajectories})}
    steps = {t.id: r.gauss(0, 2) for t in trajectories}  # as DECOR's reward has them; a role's is their mean
    reward = Reward(r.choice([0.0, 1.0, r.gauss(0, 2)]), roles=worth, steps=steps)
    return Episode(name, question, "", "", trajectories=trajectories), reward


def _in_order(episodes: list[Episode], by_id: list[dict[str, float]]) -> torch.Tensor:
    """[row, 1] advantages in the order of the loop's rows: roots last."""
    values = []
    for episode, worth in zip(episodes, by_id, strict=True):
        values += [worth[t.id] for t in sorted(episode.trajectories, key=lambda t: t.parent is None)]
    return torch.tensor(values)[:, None]
