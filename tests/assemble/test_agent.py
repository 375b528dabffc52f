"""A spec becomes an agent, which closes what was opened for it."""

import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import subquest as sq
from subquest import AgentSpec, Limits, open_agent
from subquest.assemble import (
    EngineOptions,
    Resources,
    RoleSpec,
    build_agent,
    open_resources,
    open_search,
    preview_agent,
)
from subquest.config import load_config
from subquest.engine.scripted import ScriptedEngine
from subquest.errors import UsageError
from subquest.retrieval.remote import RemoteSearch
from subquest.systems.baselines.zerosearch import SimulatedSearch
from subquest.tools.tool_options import ToolOptions

from ..systems.fakes import DOCUMENTS


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.jsonl"
    path.write_text('"<answer>Kestel</answer>"\n' * 4)
    return f"scripted:{path}"


@pytest.fixture
def index(tmp_path: Path) -> str:
    sq.Index.build(tmp_path / "docs.sq", DOCUMENTS).close()
    return str(tmp_path / "docs.sq")


async def test_an_agent_answers_and_is_closed(script: str, index: str) -> None:
    async with open_agent(AgentSpec(system="coda", model=script, index=index, mode="bm25", k=2)) as agent:
        assert (await agent.solve("Which city?")).answer == "Kestel"
        search: Any = agent.search
        assert (agent.settings.k, search.mode) == (2, "bm25")
    with pytest.raises(UsageError, match="is closed"):
        await search.retrieve(["a"], 1)


class Adapted(ScriptedEngine):
    """Stands for a known model with the adapter that ships."""

    has_adapter = True

    def without_adapter(self) -> ScriptedEngine:
        return PUBLISHED


PUBLISHED = ScriptedEngine([])


def test_what_an_adapter_was_not_trained_for_runs_on_the_model_as_published(index: str) -> None:
    adapted = Adapted([])

    def engines(**more: Any) -> dict[str, bool]:
        spec = AgentSpec(**{"model": "qwen-1.5b", **more})
        return {role: one is PUBLISHED for role, one in build_agent(spec, Resources({"": adapted})).engines.items()}

    assert engines(system="coda") == {"": False}
    assert engines(system="hira") == engines(system="webthinker", model="torch:qwen-0.5b") == {"": True}
    assert engines(system="coda", style="report") == {"": False, "outliner": True, "reporter": True}
    for chosen in ("adapter.gguf", "none"):  # by the user
        assert engines(system="hira", engine=EngineOptions(adapter=chosen)) == {"": False}
    assert engines(system="hira", model="embedded") == {"": False}, "it follows no prompt without its adapter"
    assert engines(system="hira", model="gguf:mine.gguf") == {"": False}


async def test_several_agents_share_engines_and_search(script: str, index: str) -> None:
    spec = AgentSpec(model=script, index=index)
    async with open_resources(spec) as resources:
        coda, rag = (build_agent(spec.replace(system=name), resources) for name in ("coda", "rag"))
        assert coda.search is rag.search
        assert coda.engines == rag.engines == resources.engines


def test_sampling_and_limits_go_to_all_roles_or_to_one() -> None:
    roles = {"planner": RoleSpec(sampling={"temperature": 1.0}, limits=Limits(turns=3))}
    agent = preview_agent(AgentSpec(sampling={"top_p": 0.5}, limits=Limits(turns=9), roles=roles))
    planner, executor = agent.setup("planner"), agent.setup("executor")
    assert (planner.sampling.temperature, planner.sampling.top_p, planner.limits.turns) == (1.0, 0.5, 3)
    assert (executor.sampling.temperature, executor.sampling.top_p, executor.limits.turns) == (0.0, 0.5, 9)
    whole = sq.Sampling(max_tokens=7)
    assert preview_agent(AgentSpec(system="search-o1", sampling=whole)).setup("agent").sampling == whole


def test_a_model_for_each_role_may_be_a_mapping(script: str) -> None:
    from subquest.assemble import open_engines

    assert set(open_engines({"": script, "planner": script})) == {"", "planner"}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (AgentSpec(system="codaa"), "did you mean 'coda'"),
        (AgentSpec(settings={"refein": False}), "did you mean 'refine'"),
        (AgentSpec(preset="none"), "no preset 'none'"),
        (AgentSpec(roles={"plannr": RoleSpec()}), "no role 'plannr'"),
        (AgentSpec(files=("a.md",)), "--file needs a system with tools"),
        (AgentSpec(system="hira", files=("none.md",)), "there is no such file"),
        (AgentSpec(system="hira", tool_options=ToolOptions(ca="none.pem")), "tools.ca: there is no file none.pem"),
        (AgentSpec(system="hira", tool_options=ToolOptions(code_disk_mb=4096)), "code_memory_mb to 16384 or more"),
    ],
)
async def test_a_wrong_spec_is_refused_before_a_model_is_loaded(spec: AgentSpec, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        async with open_agent(spec.replace(model="scripted:not-there.jsonl")):
            pass


def test_what_tools_may_do_is_a_setting_of_systems_that_have_tools() -> None:
    spec = AgentSpec(tool_options=ToolOptions(egress="private", robots=False, code_seconds=5.0))
    settings = preview_agent(spec.replace(system="hira")).settings
    assert (settings.egress, settings.robots, settings.code_seconds) == ("private", False, 5.0)
    assert spec.tool_options.code_limits.seconds == 5.0
    own = preview_agent(spec.replace(system="hira", settings={"egress": "public"})).settings
    assert own.egress == "public"
    preview_agent(spec)  # CoDA has none, and goes without


def test_a_spec_comes_from_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "subquest.toml"
    file.write_text('system = "rag"\nprotocol = "tools"\n[engine]\nretries = 1\n[cache]\nenabled = true\npath = "c"\n')
    spec = AgentSpec.from_config(load_config(file, env={}), votes=3)
    assert (spec.system, spec.model, spec.votes, spec.cache) == ("rag", "embedded", 3, str(tmp_path / "c"))
    assert spec.engine == EngineOptions(protocol="tools", retries=1)
    assert AgentSpec.from_config(load_config(file, env={}), cache=None).cache is None
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_what_is_searched(script: str, index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SEARXNG_URL", "SERPER_API_KEY", "TAVILY_API_KEY", "BRAVE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    folder = open_search(index)
    assert isinstance(folder, sq.Index)
    folder.close()
    assert isinstance(open_search("http://127.0.0.1:9/retrieve"), RemoteSearch)
    assert isinstance(open_search(f"simulated:{script}"), SimulatedSearch)
    web = open_search("web://", tools=ToolOptions(web="searxng:http://127.0.0.1:9"))
    assert web.name == "searxng"
    for place, message in (
        ("web://", "needs a web search"),
        ("none.sq", "is not an index"),
        (f"simulated:a={script},b={script}", "a simulated search is one model"),
    ):
        with pytest.raises(UsageError, match=message):
            open_search(place)
    with pytest.raises(UsageError, match="has no vectors"):
        open_search(index, mode="dense")


def test_an_agent_on_parts_of_ones_own() -> None:
    engine = ScriptedEngine(["<answer>x</answer>"])
    assert build_agent(AgentSpec(system="direct"), Resources({"": engine})).ask("Who?").answer == "x"


WRONG: tuple[Any, ...] = (
    None, 0, -1, 1.5, float("nan"), "", "x\0y", "\ud800", b"x", [], {}, {"a": object()}, object(), True, 10**30
)  # fmt: skip


@pytest.mark.parametrize("name", AgentSpec.__struct_fields__)
async def test_a_field_of_a_spec_refuses_what_it_cannot_be(name: str, tmp_path: Path) -> None:
    """With an error of ours that names the field or the value, or not at all."""
    (tmp_path / "script.jsonl").write_text('"<answer>Kestel</answer>"\n')
    for wrong in WRONG:
        values: dict[str, Any] = {"system": "direct", "model": f"scripted:{tmp_path}/script.jsonl", name: wrong}
        with suppress(UsageError):
            async with open_agent(AgentSpec(**values)):
                pass


@pytest.mark.parametrize("wrong", WRONG)
async def test_an_agent_is_made_from_a_spec(wrong: Any) -> None:
    with pytest.raises(UsageError, match="is made from an AgentSpec"):
        async with open_agent(wrong):
            pass
