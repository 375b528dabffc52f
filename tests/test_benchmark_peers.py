"""The benchmarks beside vLLM and TRL (`bench rollout`, `train`, `serve` with `--peer`): ours for real, the peers acted.

The peers need a GPU and packages that are not here. A folder on `--peer-path` holds modules with their names: what
is tested is that both sides do the same work, and that a peer that fails is named.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from subquest.cli import main
from subquest.engine.chat_format import CHATML, text_of
from subquest.engine.interface import Message
from subquest.errors import OutsideError, UsageError

from .docs.endpoint import endpoint

pytestmark = pytest.mark.slow
VLLM = {
    "vllm/__init__.py": "from types import SimpleNamespace as SamplingParams\nprint('vLLM says so')",
    "vllm/sampling_params.py": "class RequestOutputKind:\n    FINAL_ONLY = 2",
    "vllm/engine/__init__.py": "",
    "vllm/engine/arg_utils.py": "from types import SimpleNamespace as AsyncEngineArgs",
    "vllm/v1/__init__.py": "",
    "vllm/v1/engine/__init__.py": "",
    "vllm/v1/engine/async_llm.py": '''
import asyncio
from types import SimpleNamespace


class AsyncLLM:
    @classmethod
    def from_engine_args(cls, arguments):
        print("libraries print, and must not disturb")
        assert arguments.max_num_batched_tokens
        made = cls()
        made.arguments = arguments
        return made

    async def generate(self, prompt, sampling, name):
        if HANGS:
            await asyncio.sleep(3600)
        assert sampling.ignore_eos and max(prompt["prompt_token_ids"]) < 49_152
        yield SimpleNamespace(outputs=[SimpleNamespace(token_ids=(7,) * (sampling.max_tokens + EXTRA))])

    async def reset_prefix_cache(self):
        """Nothing is cached."""

    def shutdown(self):
        """Nothing runs."""
''',
}


def peer_in(folder: Path, *, extra: int = 0, hangs: str = "False") -> Path:
    """`hangs` is an expression of the engine's arguments and of a request's sampling."""
    for name, text in VLLM.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("EXTRA", str(extra)).replace("HANGS", hangs), encoding="utf-8")
    return folder


class Done(NamedTuple):
    status: object
    out: str
    said: str


Bench = Callable[..., Done]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Bench:
    """`subquest bench` in this process, which has loaded torch already; peers start processes of their own."""
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(*options: str) -> Done:
        try:
            status: object = main(["bench", *options, "--json"])
        except SystemExit as ended:
            status = ended.code
        return Done(status, *capsys.readouterr())

    return run


SMALL = (
    "rollout", "--peer", "vllm", "--questions", "1", "--rollouts", "1", "--runs", "1", "--device", "cpu",
    "--shape", "tiny",
)  # fmt: skip


def rollout(path: Path, configs: str) -> list[str]:
    return [*SMALL, "--peer-path", str(path), "--peer-configs", configs]


def test_the_same_episodes_go_through_vllm(bench: Bench, tmp_path: Path) -> None:
    """The second configuration ends in the middle: its first row counts, and so do the other one's."""
    fails = "self.arguments.max_num_batched_tokens == 2048 and sampling.logprobs is None and 1 / 0"
    done = bench(*rollout(peer_in(tmp_path, hangs=fails), "two,2k"))
    assert done.status == 0, done.said
    assert "vLLM 2k ended: ZeroDivisionError" in done.said
    found = json.loads(done.out)
    figures = found["figures"]
    assert set(figures["vllm"]) == {
        "vLLM two, with log-probs",
        "vLLM two, without log-probs",
        "vLLM 2k, with log-probs",
    }
    counts = {(row["written"], row["read"], row["attended"], row["chain"]) for row in figures["vllm"].values()}
    assert counts == {tuple(figures["ours"][key] for key in ("written", "read", "attended", "chain"))}
    assert 0 < figures["prefill_steps"] < figures["prefill_tokens"]
    gap = figures["ours"]["log-prob gap"]
    assert gap["tokens"] > 20
    assert gap["largest"] < 1e-4, "float32 on a CPU"
    best = min(row["seconds"] for name, row in figures["vllm"].items() if name.endswith("with log-probs"))
    assert any(r == pytest.approx(best / figures["ours"]["seconds"]) for r in found["ratios"].values())


def test_a_peer_that_fails_is_named(bench: Bench, tmp_path: Path) -> None:
    done = bench(*rollout(tmp_path, "8k"))
    assert done.status != 0
    assert "vLLM 8k ended: ModuleNotFoundError: No module named 'vllm'" in done.said
    assert "no peer could be started" in done.said.splitlines()[-1]


def stopped(bench: Bench, save: Path, enough: Callable[[dict[str, Any]], object], *options: str) -> dict[str, Any]:
    """The result of a benchmark that is told to stop as soon as the file that it keeps holds enough."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            if save.exists() and enough(json.loads(save.read_text())):
                os.kill(os.getpid(), signal.SIGTERM)
                return

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        done = bench(*options, "--save", str(save))
    finally:
        over.set()
        watching.join()
    assert done.status == 0, done.said
    assert "stopped after" in done.said
    found: dict[str, Any] = json.loads(done.out)
    assert json.loads(save.read_text()) == found
    assert found["figures"]["stopped_after_s"] > 0
    return found


def test_what_was_measured_is_kept_when_a_peer_never_ends(bench: Bench, tmp_path: Path) -> None:
    """vLLM answers with log-probs and hangs without them: that row, ours and their ratio are the result."""
    path = peer_in(tmp_path, hangs="sampling.logprobs is None")
    found = stopped(bench, tmp_path / "found.json", lambda so_far: so_far["ratios"], *rollout(path, "8k"))
    assert list(found["figures"]["vllm"]) == ["vLLM 8k, with log-probs"]
    ours, theirs = found["figures"]["ours"], found["figures"]["vllm"]["vLLM 8k, with log-probs"]
    assert list(found["ratios"].values()) == [pytest.approx(theirs["seconds"] / ours["seconds"])]


def test_steps_that_were_measured_are_kept(bench: Bench, tmp_path: Path) -> None:
    """Of a million steps some were measured: their median is the result."""
    size = ("--questions", "1", "--group", "2", "--max-tokens", "8", "--articles", "160", "--steps", "1000000")
    options = ("train", "--only", "step", "--model", "random:llama", "--device", "cpu", *size)
    found = stopped(bench, tmp_path / "found.json", lambda so_far: "step_s" in so_far["figures"], *options)["figures"]
    assert 0 < found["steps"] < 1_000_000
    assert 0 < found["tokens"]["computed"] <= found["tokens"]["packed"]
    assert found["tokens"]["prefilled"] > 0
    assert found["update"]["peak_share"] > 0
    assert found["update"]["least_s"] == pytest.approx(found["update"]["tflop"] / found["update"]["peak_tflop_s"])


def test_a_benchmark_ends_when_its_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    from _results import Results  # type: ignore[import-not-found]

    save = tmp_path / "found.json"
    results = Results("one", SimpleNamespace(save=save, seconds=0.2))

    async def work() -> None:
        results.keep(rows=[1])
        await asyncio.sleep(600)

    with results.limited():
        asyncio.run(work())
    assert results.figures["rows"] == [1]
    assert results.figures["stopped_after_s"] >= 0.2
    assert json.loads(save.read_text()) == results.as_dict()
    with pytest.raises(UsageError, match="--seconds -3 is not a time"):
        Results("one", SimpleNamespace(save=None, seconds=-3.0))


def test_an_unknown_configuration_is_refused(bench: Bench, tmp_path: Path) -> None:
    done = bench(*rollout(tmp_path, "64k"))
    assert done.status == 2
    assert "there is no vLLM configuration '64k'; there are 8k, 16k" in done.said


def test_trl_that_is_missing_is_named(bench: Bench, tmp_path: Path) -> None:
    size = ("--questions", "1", "--group", "2", "--steps", "1", "--max-tokens", "4", "--prompt-words", "4")
    done = bench("train", "--peer", "trl", "--shape", "tiny", "--device", "cpu", *size, "--peer-path", str(tmp_path))
    assert done.status != 0
    assert "TRL with vllm ended: ModuleNotFoundError" in done.said
    assert "no peer could be started" in done.said.splitlines()[-1]


def test_questions_under_load_on_torch_and_on_an_endpoint(bench: Bench, tmp_path: Path) -> None:
    """A stand-in for vLLM: both servers are real, ask the same questions and count every answer."""
    size = ("--shape", "tiny", "--questions", "4", "--articles", "160", "--max-tokens", "8", "--max-turns", "2")
    with endpoint() as url:
        done = bench("serve", "--peer", "vllm", *size, "--peer-url", url, "--peer-logs", str(tmp_path))
    assert done.status == 0, done.said
    found = json.loads(done.out)
    ours, theirs = found["figures"]["ours"], found["figures"]["vllm"]
    for row in (ours, theirs):
        assert row["per_minute"] == pytest.approx(4 * 60 / row["seconds"])
        assert 0 < row["p50_s"] <= row["p95_s"] <= row["seconds"]
        assert row["tokens_a_question"] > 0
    assert list(found["ratios"].values()) == [
        pytest.approx(ours["per_minute"] / theirs["per_minute"]),
        pytest.approx(theirs["p95_s"] / ours["p95_s"]),
        pytest.approx(ours["tokens_s"] / theirs["tokens_s"]),
    ]
    assert "Subquest is at" in (tmp_path / "serve-ours.log").read_text()


def test_servers_can_chat_with_random_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM's server refuses a model without a template; the random ones write what our engine does."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    from _rollout_workload import tokenizer  # type: ignore[import-not-found]

    talk = [{"role": "system", "content": "Answer."}, {"role": "user", "content": " w1 w2"}]
    theirs = tokenizer().apply_chat_template(talk, tokenize=False, add_generation_prompt=True)
    assert theirs == text_of(CHATML.opening([Message(**message) for message in talk]))


def test_vllm_that_does_not_start_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    from _serve_peer import vllm  # type: ignore[import-not-found]

    with (
        pytest.raises(OutsideError, match=r"vllm.entrypoints.openai.api_server .*did not start: .*No module named"),
        vllm(tmp_path, "", tmp_path / "vllm.log", 60.0),
    ):
        raise AssertionError("it has no packages")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("rollout", "--questions", "0"), "argument --questions: a whole number from 1 on, not '0'"),
        (("rollout", "--device", "nowhere"), "argument --device: there is no device 'nowhere' here"),
        (("train", "--group", "1"), "argument --group: a whole number from 2 on, not '1'"),
        (("fits", "--ranks", "16,-1"), "argument --ranks: a whole number from 0 on, not '-1'"),
        (("serve", "--max-turns", "few"), "argument --max-turns: a whole number from 1 on, not 'few'"),
    ],
)
def test_numbers_that_measure_nothing_are_refused(bench: Bench, options: tuple[str, ...], message: str) -> None:
    done = bench(*options)
    assert done.status == 2
    assert message in done.said
