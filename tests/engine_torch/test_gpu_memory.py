"""How much memory an engine takes on a GPU that others use too; the GPU is made up."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from subquest.engine.torch import gpu_memory as memory
from subquest.engine.torch.cuda_graphs import Graphs
from subquest.engine.torch.gpu_memory import RESERVE, allocate, cache_tokens, retry_out_of_memory, wanted_share
from subquest.errors import EngineError, UsageError

GIB = 1 << 30


def test_a_cache_is_a_share_of_what_is_free() -> None:
    assert cache_tokens(10 * GIB, 1 << 20, share=0.4) == 4 * 1024
    assert cache_tokens(10 * GIB, 1 << 20, share=1.0) == 9 * 1024, "the reserve stays free"
    assert cache_tokens(10 * GIB, 1 << 20, share=0.4, wanted=5000) == 5000, "what was asked for is not cut"
    assert cache_tokens(2 * GIB, 1 << 20, share=0.4, wanted=5000) == 1024, "but never more than there is"
    assert cache_tokens(RESERVE // 2, 1, share=1.0) == 0


def test_the_share_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(memory.VARIABLE, raising=False)
    assert wanted_share() == 0.4
    monkeypatch.setenv(memory.VARIABLE, "0.2")
    assert wanted_share() == 0.2
    for wrong in ("0", "1.5", "half", "-1"):
        monkeypatch.setenv(memory.VARIABLE, wrong)
        with pytest.raises(UsageError, match="SUBQUEST_GPU_SHARE"):
            wanted_share()


class Gpu:
    """A GPU with one byte a token; `others` take memory between the look at what is free and the allocation."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, free: list[int], others: int = 0) -> None:
        self.free, self.others = free, others
        self.asked: list[int] = []
        self.slept = 0.0
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device=None: (self._look(), 1 << 40))
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
        monkeypatch.setattr(memory.time, "sleep", self._sleep)
        monkeypatch.setattr(memory.time, "monotonic", lambda: self.slept)

    def _look(self) -> int:
        self.now = self.free.pop(0) if len(self.free) > 1 else self.free[0]
        return self.now

    def _sleep(self, seconds: float) -> None:
        self.slept += seconds

    def make(self, tokens: int) -> str:
        self.asked.append(tokens)
        if tokens > self.now - self.others:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return f"{tokens} tokens"

    def take(self, **asked: Any) -> tuple[str, int]:
        return allocate(torch.device("cpu"), 1, self.make, **{"share": 0.5, **asked})


def test_memory_that_others_took_meanwhile_makes_the_cache_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu(monkeypatch, [4 * GIB], others=3 * GIB)
    made, tokens = gpu.take()
    assert gpu.asked[0] == 2 * GIB
    assert gpu.asked == sorted(gpu.asked, reverse=True)
    assert gpu.asked[-1] == tokens <= GIB < gpu.asked[-2], "a quarter less each time, no smaller than need be"
    assert made == f"{tokens} tokens"
    assert gpu.slept == 0


def test_an_engine_waits_for_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu(monkeypatch, [GIB, GIB, GIB + 20_000, 4 * GIB])
    assert gpu.take()[1] == 20_000, "as soon as the least is there beside the reserve"
    assert gpu.slept == 2.0


def test_an_engine_that_waited_in_vain_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu(monkeypatch, [GIB])
    with pytest.raises(EngineError, match=r"1\.0 GiB .* free.*SUBQUEST_GPU_SHARE=0\.25"):
        gpu.take()
    assert gpu.slept == pytest.approx(memory.PATIENCE, abs=2)
    assert gpu.asked == []


def failing(times: int) -> tuple[Callable[[], None], list[int]]:
    calls: list[int] = []

    def work() -> None:
        calls.append(len(calls))
        if len(calls) <= times:
            raise torch.OutOfMemoryError("CUDA out of memory")

    return work, calls


def test_a_step_without_memory_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu(monkeypatch, [0])
    work, calls = failing(3)
    Graphs(enabled=False).run("shape", work)
    assert len(calls) == 4
    assert gpu.slept > 0
    work, calls = failing(10**9)
    with pytest.raises(torch.OutOfMemoryError):
        retry_out_of_memory(work, patience=5)
    assert 5 < gpu.slept < 20


@pytest.mark.parametrize(
    ("free", "fails", "captures"),
    [
        ([8 * GIB], 1, 2),  # no memory during the first capture
        ([GIB // 2, GIB // 2, 8 * GIB], 0, 1),  # no room for the first, so it is not begun
        ([GIB // 2, 8 * GIB, 8 * GIB], 1, 2),  # room once the cache is emptied
    ],
)
def test_a_graph_that_cannot_be_captured_is_captured_another_time(
    monkeypatch: pytest.MonkeyPatch, free: list[int], fails: int, captures: int
) -> None:
    Gpu(monkeypatch, free)
    graphs = Graphs()
    capture, calls = failing(fails)
    replays: list[str] = []

    class Graph:
        def replay(self) -> None:
            replays.append("replay")

    def captured(work: Callable[[], object]) -> Graph:
        capture()
        return Graph()

    monkeypatch.setattr(graphs, "_captured", captured)
    done: list[str] = []
    for _ in range(3):
        graphs.run("shape", lambda: done.append("pass"))
    assert (done, replays, len(calls)) == (["pass", "pass"], ["replay"], captures)
