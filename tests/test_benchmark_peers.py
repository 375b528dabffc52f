"""The benchmarks beside vLLM and TRL (`bench rollout`, `train`, `serve` with `--peer`): ours for real, the peers acted.

The peers need a GPU and packages that are not here. A folder on `--peer-path` holds modules with their names: what
is tested is that both sides do the same work, and that a peer that fails is named.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from subquest.errors import OutsideError

from .docs.endpoint import endpoint

pytestmark = pytest.mark.slow
VLLM = {
    "vllm/__init__.py": "from types import SimpleNamespace as SamplingParams",
    "vllm/sampling_params.py": "class RequestOutputKind:\n    FINAL_ONLY = 2",
    "vllm/engine/__init__.py": "",
    "vllm/engine/arg_utils.py": "from types import SimpleNamespace as AsyncEngineArgs",
    "vllm/v1/__init__.py": "",
    "vllm/v1/engine/__init__.py": "",
    "vllm/v1/engine/async_llm.py": '''
from types import SimpleNamespace


class AsyncLLM:
    @classmethod
    def from_engine_args(cls, arguments):
        print("libraries print, and must not disturb")
        assert arguments.max_num_batched_tokens
        return cls()

    async def generate(self, prompt, sampling, name):
        assert sampling.ignore_eos and max(prompt["prompt_token_ids"]) < 49_152
        yield SimpleNamespace(outputs=[SimpleNamespace(token_ids=(7,) * (sampling.max_tokens + EXTRA))])

    async def reset_prefix_cache(self):
        """Nothing is cached."""

    def shutdown(self):
        """Nothing runs."""
''',
}


def peer_in(folder: Path, *, extra: int = 0) -> Path:
    for name, text in VLLM.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("EXTRA", str(extra)), encoding="utf-8")
    return folder


def bench(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "subquest", "bench", *options, "--json"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


def rollout(path: Path, configs: str) -> subprocess.CompletedProcess[str]:
    size = ("--questions", "1", "--rollouts", "1", "--runs", "1", "--device", "cpu", "--shape", "tiny")
    return bench("rollout", "--peer", "vllm", *size, "--peer-path", str(path), "--peer-configs", configs)


def test_the_same_episodes_go_through_vllm(tmp_path: Path) -> None:
    done = rollout(peer_in(tmp_path), "two")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    figures = found["figures"]
    assert {name.partition(",")[0] for name in figures["vllm"]} == {"vLLM two"}
    counts = {(row["written"], row["read"], row["attended"], row["chain"]) for row in figures["vllm"].values()}
    assert counts == {tuple(figures["ours"][key] for key in ("written", "read", "attended", "chain"))}
    gap = figures["ours"]["log-prob gap"]
    assert gap["tokens"] > 20
    assert gap["largest"] < 1e-4, "float32 on a CPU"
    best = min(row["seconds"] for name, row in figures["vllm"].items() if name.endswith("with log-probs"))
    assert any(r == pytest.approx(best / figures["ours"]["seconds"]) for r in found["ratios"].values())


def test_a_peer_that_fails_is_named(tmp_path: Path) -> None:
    done = rollout(tmp_path, "8k")
    assert done.returncode != 0
    assert "vLLM 8k ended: ModuleNotFoundError: No module named 'vllm'" in done.stderr
    assert "no peer could be started" in done.stderr.splitlines()[-1]


def test_an_unknown_configuration_is_refused(tmp_path: Path) -> None:
    done = rollout(tmp_path, "64k")
    assert done.returncode == 2
    assert "there is no vLLM configuration '64k'; there are 8k, 16k" in done.stderr


def test_trl_that_is_missing_is_named(tmp_path: Path) -> None:
    size = ("--questions", "1", "--group", "2", "--steps", "1", "--max-tokens", "4", "--prompt-words", "4")
    done = bench("train", "--peer", "trl", "--shape", "tiny", "--device", "cpu", *size, "--peer-path", str(tmp_path))
    assert done.returncode != 0
    assert "TRL with vllm ended: ModuleNotFoundError" in done.stderr
    assert "no peer could be started" in done.stderr.splitlines()[-1]


def test_questions_under_load_on_torch_and_on_an_endpoint(tmp_path: Path) -> None:
    """A stand-in for vLLM: both servers are real, ask the same questions and count every answer."""
    size = ("--shape", "tiny", "--questions", "4", "--articles", "160", "--max-tokens", "8", "--max-turns", "2")
    with endpoint() as url:
        done = bench("serve", "--peer", "vllm", *size, "--peer-url", url, "--peer-logs", str(tmp_path))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    ours, theirs = found["figures"]["ours"], found["figures"]["vllm"]
    for row in (ours, theirs):
        assert row["per_minute"] == pytest.approx(4 * 60 / row["seconds"])
        assert 0 < row["p50_s"] <= row["p95_s"] <= row["seconds"]
        assert row["tokens_a_question"] > 0
    assert list(found["ratios"].values()) == [
        pytest.approx(ours["per_minute"] / theirs["per_minute"]),
        pytest.approx(theirs["p95_s"] / ours["p95_s"]),
    ]
    assert "Subquest is at" in (tmp_path / "serve-ours.log").read_text()


def test_vllm_that_does_not_start_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    from _serve_peer import vllm  # type: ignore[import-not-found]

    with (
        pytest.raises(OutsideError, match=r"vllm.entrypoints.openai.api_server .*did not start: .*No module named"),
        vllm(tmp_path, "", tmp_path / "vllm.log", 60.0),
    ):
        raise AssertionError("it has no packages")
