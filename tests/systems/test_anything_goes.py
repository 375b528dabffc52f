"""Whatever a model writes and whatever fails, every system ends with an answer or a recorded reason."""

import random

import pytest

from subquest.engine.scripted import Context, Reply, ScriptedEngine
from subquest.errors import ContextOverflow, EngineRefused, EngineUnavailable
from subquest.limits import Limits
from subquest.record import Episode
from subquest.systems import registry

from .fakes import DOCUMENTS, FakeSearch

PARTS = [
    *("<task>who</task>", "<task></task>", "<answer>Kestel</answer>", "<answer>", "<search>Orvane Bridge</search>"),
    *("<search>None</search>", "<search>", "<refine>x</refine>", "<result>y</result>", "<filter>Mila</filter>"),
    *("<plan>\n1. a #2\n2. b #1\n</plan>", "<plan>1. who?\n2. where #1?</plan>", "<filter>None</filter>", "<think>"),
    *("yes", "no", "answer", "retrieve", "</think>", "", "\n\n", "the answer is K.", "Final Information: q"),
    *("<|begin_call_subtask|>find<|end_call_subtask|>", "<|begin_search_query|>Orvane<|end_search_query|>"),
    *("<|begin_click_link|>1<|end_click_link|>", "<|begin_read_file|>x<|end_read_file|>", "\\boxed{K}", "\\boxed{"),
    *('{"selected_agent_name": "search"}', '{"query_plan": ["Mila", 3, null]}', '{"plan": ["a", "b"]}', '{"plan": 5}'),
    '{"conclusion": {"final_conclusion": "z"}, "memory": {"fact_memory": ["f [Source: http://x]", 4]}}',
    *("Action: Search[Orvane]", "Action: Finish[K]", "<tool_call>{</tool_call>", "Memory Fact 1: z", "unknown"),
    '<tool_call>{"name": "s", "arguments": {"query": ["a", "b"]}}</tool_call>',
    "<|begin_multimodal_call|>data: x<|end_multimodal_call|>",
]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", registry.names())
def test_a_model_that_writes_anything(name: str, seed: int) -> None:
    chance = random.Random(f"{name}/{seed}")

    def reply(context: Context) -> Reply:
        if chance.random() < 0.04:
            return chance.choice([EngineUnavailable("down"), EngineRefused("no"), ContextOverflow("too long")])
        return "".join(chance.choice(PARTS) for _ in range(chance.randint(0, 4)))

    settings = {
        "coda": {"depth": chance.randint(1, 3)},
        "apex": {"parallel": chance.random() < 0.5},
        "decor": {"strict": chance.random() < 0.5, "memory_tokens": chance.choice([20, 4096])},
    }.get(name, {})
    limits = chance.choice([None, Limits(calls=5), Limits(tokens=500)])
    search = FakeSearch(failures=chance.choice([0, 0, 1]))
    agent = registry.get(name)(ScriptedEngine(reply), search, limits=limits, abstain=chance.random() < 0.2, **settings)
    (episode,) = agent.ask_many(["Where was the designer born?"])
    assert episode.answer or episode.stop_reason not in ("", "answered")
    assert episode.events[-1].kind == "end"
    texts = {document.id: document.text for document in DOCUMENTS}
    assert all(texts[e.id][e.start :].startswith(e.quote) for e in episode.evidence)
    assert Episode.from_json(episode.to_json()) == episode
