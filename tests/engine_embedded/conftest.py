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
    So each token's log-probability must agree, and each must be as likely as the likeliest, up to that rounding.
    """
    file = quantised_copy(smollm2_path(), None) or smollm2_path()
    model = Model(open_library(), file, adapter=None, cells=2048, sequences=1, batch=512, threads=1)

    def check(session: Session) -> None:
        model.drop(0)
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
                assert alone[token] == pytest.approx(logprob, abs=0.3)
                assert alone.max() - alone[token] < 0.3
                ids.append(token)

    yield check
    model.free()
