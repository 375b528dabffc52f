"""Putting agents together: a spec becomes an agent, a place a search, a name an engine. Nobody else does it.

    spec = AgentSpec(system="coda", model="openai:qwen3@http://localhost:8000/v1", index="docs.sq")
    async with open_agent(spec) as agent:
        episode = await agent.solve("Where was the designer of the Orvane Bridge born?")

Commands fill in a spec from their options, studies from a variant, recipes from a training run. Several agents can
share engines and a search: `open_resources` opens them and `build_agent` builds on them.
"""

from .agent import AgentSpec, Resources, RoleSpec, build_agent, open_agent, open_resources, preview_agent
from .engines import EngineOptions, open_engine, open_engines
from .search import check_search, open_search

__all__ = [
    "AgentSpec",
    "EngineOptions",
    "Resources",
    "RoleSpec",
    "build_agent",
    "check_search",
    "open_agent",
    "open_engine",
    "open_engines",
    "open_resources",
    "open_search",
    "preview_agent",
]
