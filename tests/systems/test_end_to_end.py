"""Every system on real parts: the embedded model with a real index, and an OpenAI-compatible server on loopback."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="the index needs numpy")

from subquest.cli import main
from subquest.engine import Sampling
from subquest.engine.interface import Message
from subquest.engine.openai import OpenAIEngine
from subquest.engine.scripted import Context
from subquest.errors import EngineRefused
from subquest.limits import Limits
from subquest.models import smollm2_path
from subquest.record import Document, Episode
from subquest.retrieval import Index
from subquest.systems import registry

from ..engine.loopback import Answer, Loopback, Request, chat

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from _chain_oracle import oracle, question, world

ENDS = {"answered", "forced", "no answer", "failed"}


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return world(3, 4, 9)  # hardly more than the facts: the language model reads slowly


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, documents: list[Document]) -> Iterator[Index]:
    with Index.build(tmp_path_factory.mktemp("index") / "world", documents) as index:
        yield index


def check(episode: Episode, documents: list[Document]) -> None:
    texts = {d.id: d.text for d in documents}
    assert episode.stop_reason in ENDS
    assert episode.answer or episode.stop_reason in ("no answer", "failed")
    assert episode.events[-1].kind == "end"
    assert all(texts[e.id][e.start : e.start + len(e.quote)] == e.quote for e in episode.evidence)
    assert Episode.from_json(episode.to_json()) == episode


@pytest.fixture(scope="module")
def embedded():  # type: ignore[no-untyped-def]
    pytest.importorskip("xllamacpp", reason="the embedded extra is not installed")
    if not smollm2_path().is_file():
        pytest.skip("the embedded model is not here: subquest model get smollm2")
    from subquest.engine.embedded import EmbeddedEngine

    engine = EmbeddedEngine(threads=1, context=4096)
    yield engine
    engine.shut()


@pytest.mark.slow
@pytest.mark.embedded
@pytest.mark.parametrize("name", registry.names())
def test_on_the_embedded_model(name: str, embedded, index: Index, documents: list[Document]) -> None:  # type: ignore[no-untyped-def]
    text, _ = question(documents, 0, 2)
    system = registry.get(name)(embedded, index, sampling=Sampling(max_tokens=6), limits=Limits(calls=3))
    episode = system.ask(text)
    check(episode, documents)
    assert all(t.has_tokens for t in episode.trajectories)
    assert all(sum(t.action_mask) > 0 for t in episode.trajectories if t.usage.model_calls and not t.forced)
    assert episode.usage.completion_tokens > 0


@pytest.mark.slow
@pytest.mark.embedded
def test_an_adapted_model_also_runs_without_its_adapter(embedded, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    import numpy as np

    from subquest.engine.adapter import Lora, Shape, write_gguf
    from subquest.engine.embedded import EmbeddedEngine

    ones = (np.ones((4, 576), np.float32), np.ones((576, 4), np.float32))
    smollm2 = Shape("llama", heads=9, kv_heads=3)
    write_gguf(Lora({"model.layers.0.self_attn.o_proj": ones}, alpha=8.0), tmp_path / "a.gguf", smollm2)
    adapted = EmbeddedEngine(adapter=tmp_path / "a.gguf", threads=1, context=512)
    try:
        base = adapted.without_adapter()
        assert base is adapted.without_adapter() is not adapted
        assert (adapted.has_adapter, base.has_adapter) == (True, False)
        assert (adapted.name, base.name, base.without_adapter()) == ("embedded+a", "embedded", base)
        direct = registry.get("direct")
        answers = [direct(e, sampling=Sampling(max_tokens=8)).ask("Who?").answer for e in (base, embedded)]
        assert answers[0] == answers[1]
    finally:
        adapted.shut()
    with pytest.raises(EngineRefused, match="closed"):
        _ = base.scheduler


def server_of(reply) -> Loopback:  # type: ignore[no-untyped-def]
    """A chat server that answers what `reply` says to the messages of a request."""

    def handle(request: Request) -> Answer:
        messages = [Message(m["role"], m["content"]) for m in request.body["messages"]]
        return Answer(chat(reply(Context(tuple(messages), "", sum(m.role == "assistant" for m in messages)))))

    return Loopback(handle)


@pytest.mark.parametrize("name", ["coda", "decor", "apex", "search-r1", "autorefine"])
async def test_multi_hop_questions_are_solved_through_a_server(
    name: str, index: Index, documents: list[Document]
) -> None:
    """All three facts are quoted in order, also for the agents with one context, which name no sub-results here."""
    text, answer = question(documents, 1, 3)
    async with server_of(oracle) as server:
        engine = OpenAIEngine("oracle", base_url=server.url)
        episode = await registry.get(name)(engine, index, prompts="compact").solve(text)
        await engine.close()
    check(episode, documents)
    assert (episode.answer, episode.stop_reason) == (answer, "answered")
    assert episode.usage.searches == 3
    assert [e.id for e in episode.evidence] == [d.id for d in documents[8:11]]
    assert [e.states_answer for e in episode.evidence] == [False, False, True]
    assert episode.supported


@pytest.mark.parametrize("name", registry.names())
async def test_every_system_answers_through_a_server(name: str, index: Index, documents: list[Document]) -> None:
    def reply(context: Context) -> str:
        return "<answer>Kestel</answer>\\boxed{Kestel}\nAction: Finish[Kestel]"

    async with server_of(reply) as server:
        engine = OpenAIEngine("any", base_url=server.url)
        episode = await registry.get(name)(engine, index).solve(question(documents, 0, 2)[0])
        await engine.close()
    check(episode, documents)
    assert episode.answer == "Kestel"


@pytest.mark.parametrize("name", registry.names())
async def test_every_system_runs_from_the_command_line(
    name: str, index: Index, capsys: pytest.CaptureFixture[str]
) -> None:
    reply = "<answer>Kestel</answer>\\boxed{Kestel}\nAction: Finish[Kestel]"
    async with server_of(lambda context: reply) as server:
        model = f"openai:any@{server.url}"
        options = ["--system", name, "--model", model, "--index", str(index.path), "--json"]
        status = await asyncio.to_thread(main, ["ask", "Where?", *options])
    shown = json.loads(capsys.readouterr().out)
    assert status == 0
    assert (shown["answer"], shown["system"]) == ("Kestel", name)
