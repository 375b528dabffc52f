"""An evaluation on a local Ray cluster of two nodes, one of which is killed in the middle."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from subquest.cli import main
from subquest.engine.scripted import Context, ScriptedEngine
from subquest.errors import UsageError
from subquest.evaluate import evaluate, jobs_for, table
from subquest.evaluate.ray_workers import Cluster
from subquest.evaluate.result_table import scored
from subquest.record import Question
from subquest.runs import RunStore
from subquest.systems.coda import CoDA

ray = pytest.importorskip("ray", reason="Ray is not installed (extra `ray`)")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

QUESTIONS = [Question(f"q{i}", f"What is {i}?", (str(i),), dataset="toy") for i in range(60)]


def opened(stack: AsyncExitStack) -> dict[str, CoDA]:
    async def reply(context: Context) -> str:
        await asyncio.sleep(0.2)
        return f"<answer>{context.messages[1].content.split()[-1].rstrip('?')}</answer>"

    return {"coda": CoDA(ScriptedEngine(reply))}


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    from ray.cluster_utils import Cluster as LocalCluster

    local = LocalCluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield local
    ray.shutdown()
    local.shutdown()


def test_the_command_runs_on_a_cluster(
    nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"id": q.id, "question": q.question, "answers": ["Kestel"]} for q in QUESTIONS[:12]]
    Path("toy.jsonl").write_text("\n".join(map(json.dumps, rows)))
    Path("answers.jsonl").write_text("\n".join(['"<answer>Kestel</answer>"'] * 20))
    command = [
        "eval",
        "toy.jsonl",
        "--system",
        "direct",
        "--model",
        f"scripted:{tmp_path}/answers.jsonl",
        "--out",
        "run",
    ]
    assert main([*command, "--ray", nodes.address, "--json"]) == 0
    ray.shutdown()
    cell = json.loads(capsys.readouterr().out)["toy"]["direct"]
    assert (cell["n"], cell["em"], cell["failed"]) == (12, 1.0, 0.0)
    assert main([*command, "--json"]) == 0  # and here: the same run, nothing left to do
    assert "12 of 12 are done already" in capsys.readouterr().err


def test_a_node_that_dies_loses_nothing(nodes: Any, tmp_path: Path) -> None:
    second = nodes.add_node(num_cpus=1)
    nodes.wait_for_nodes(timeout=600)
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
