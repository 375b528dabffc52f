"""One loaded model for most tests; those that need other settings load their own."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from subquest.engine import Session
from subquest.models import smollm2_path

pytest.importorskip("xllamacpp", reason="the embedded extra is not installed")

from subquest.engine.embedded import EmbeddedEngine
from subquest.engine.embedded.llama_cpp import open_library
from subquest.engine.embedded.model import Model, Stretch
from subquest.engine.embedded.quantised import quantised_copy


def make(**settings: object) -> EmbeddedEngine:
    return EmbeddedEngine(threads=1, **{"save_prompts": False, **settings})  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def _model_file() -> None:
    if not smollm2_path().is_file():
        pytest.skip("the embedded model is not here: subquest model get smollm2")


@pytest.fixture(scope="package")
def engine(_model_file: None) -> Iterator[EmbeddedEngine]:
    engine = make(context=2048, cells=4096)
    yield engine
    engine.shut()


Check = Callable[[Session], None]


@pytest.fixture(scope="package")
def written_alone(_model_file: None) -> Iterator[Check]:
    """Check a session's greedy turns against the model reading the same ids alone, with no scheduler and no sharing.

    Equal text cannot be asked for: passes of different width round differently, and near ties then fall either way.
    So the log-probabilities must agree, and each token must be as likely as the likeliest, up to that rounding: with
    our kernels 0.04 on average where eight sessions are written at once, and up to 0.4 for a single token.
    """
    file = quantised_copy(smollm2_path(), None) or smollm2_path()
    model = Model(open_library(), file, adapter=None, cells=2048, sequences=1, batch=512, threads=1)

    def check(session: Session) -> None:
        model.drop(0)
        differences: list[float] = []
        ids: list[int] = []
        read = 0
        for segment in session.segments:
            if segment.kind != "agent":
                ids += segment.token_ids
                continue
            for token, logprob in zip(segment.token_ids, segment.logprobs or (), strict=True):
                rows = model.step([Stretch(0, read, ids[read:], True)])
                assert rows is not None
                read = len(ids)
                logits = rows[0].astype(np.float64)
                alone = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
                differences.append(abs(float(alone[token]) - logprob))
                assert alone[token] == pytest.approx(logprob, abs=0.6)
                assert alone.max() - alone[token] < 0.6
                ids.append(token)
        assert sum(differences) < 0.15 * len(differences)

    yield check
    model.free()
