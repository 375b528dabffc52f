"""An evaluation on a local Ray cluster of two nodes, one of which is killed in the middle."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from subquest.engine.scripted import Context, ScriptedEngine
from subquest.errors import UsageError
from subquest.evaluate import evaluate, jobs_for, table
from subquest.evaluate.cluster import Cluster
from subquest.evaluate.table import scored
from subquest.record import Question
from subquest.runs import RunStore
from subquest.systems.coda import CoDA

ray = pytest.importorskip("ray", reason="Ray is not installed (extra `ray`)")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

QUESTIONS = [Question(f"q{i}", f"What is {i}?", (str(i),), dataset="toy") for i in range(60)]


def opened(stack: AsyncExitStack) -> dict[str, CoDA]:
    async def reply(context: Context) -> str:
        await asyncio.sleep(0.2)
        return f"<answer>{context.messages[1].content.split()[-1].rstrip('?')}</answer>"

    return {"coda": CoDA(ScriptedEngine(reply))}


@pytest.fixture
def nodes() -> Iterator[Any]:
    from ray.cluster_utils import Cluster as LocalCluster

    local = LocalCluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield local
    ray.shutdown()
    local.shutdown()


def test_a_node_that_dies_loses_nothing(nodes: Any, tmp_path: Path) -> None:
    second = nodes.add_node(num_cpus=1)
    nodes.wait_for_nodes()
    done = 0

    async def run(store: RunStore) -> int:
        nonlocal done
        cluster = Cluster(nodes.address, opened)
        assert cluster.workers == 2
        systems = await cluster.systems()

        def finished(*_: object) -> None:
            nonlocal done
            done += 1
            if done == 15:
                nodes.remove_node(second, allow_graceful=False)

        jobs = jobs_for(store, {"toy": QUESTIONS}, systems)
        await evaluate(jobs, systems, store, concurrency=8, finished=finished)
        left = cluster.workers
        await cluster.close()
        return left

    with RunStore.resume(tmp_path / "run") as store:
        assert asyncio.run(run(store)) == 1
        cell = table(scored(store))["toy"]["coda"]
    assert (cell["n"], cell["em"], cell["failed"]) == (60, 1.0, 0.0)


def test_no_cluster_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no Ray cluster at 127\.0\.0\.1:9"):
        Cluster("127.0.0.1:9", opened)
