"""Files that cannot be loaded get a message that says why."""

from pathlib import Path

import pytest

from subquest.engine.embedded import EmbeddedEngine
from subquest.engine.embedded.llama_cpp import Library, open_library
from subquest.engine.embedded.scheduler import find_stop
from subquest.errors import DataError, EngineRefused, UsageError
from subquest.models import smollm2_path

pytestmark = pytest.mark.embedded


def test_files_that_are_no_models(tmp_path: Path) -> None:
    text = tmp_path / "text.gguf"
    text.write_text("hello")
    with pytest.raises(DataError, match="not a GGUF file"):
        EmbeddedEngine(text)
    with pytest.raises(DataError, match="No such file"):
        EmbeddedEngine(tmp_path / "absent.gguf")
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(EngineRefused, match="cannot load"):
        EmbeddedEngine(cut)
    if smollm2_path().is_file():
        with pytest.raises(DataError, match="no LoRA adapter"):
            EmbeddedEngine(smollm2_path(), adapter=smollm2_path(), threads=1, context=64)


@pytest.mark.parametrize(
    ("free", "said"), [(50_000_000, "MB of memory, and"), (110_000_000, r"8,192 tokens.*SUBQUEST_ENGINE_CONTEXT=2048")]
)
def test_a_model_that_does_not_fit_into_memory_is_not_loaded(
    free: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights alone, or the weights with the cache of the context: 98 MB and 8,192 cells of 23 kB."""
    if not smollm2_path().is_file():
        pytest.skip("the embedded model is not here: subquest model get smollm2")
    monkeypatch.setattr("subquest.models.memory.available_memory", lambda: free)
    with pytest.raises(UsageError, match=said):
        EmbeddedEngine(smollm2_path(), threads=1)


def test_wrong_settings() -> None:
    with pytest.raises(UsageError, match="at least 64"):
        EmbeddedEngine(context=8)
    with pytest.raises(UsageError, match="fewer cells"):
        EmbeddedEngine(context=1024, cells=512)
    with pytest.raises(UsageError, match="threads"):
        EmbeddedEngine(threads=0)
    with pytest.raises(UsageError, match="subquest model adapter convert"):
        EmbeddedEngine("any.gguf", adapter=Path(__file__).parent)
    with pytest.raises(UsageError, match="unknown llama"):
        open_library("gpt4all")  # type: ignore[arg-type]


def test_another_interface_is_noticed_before_anything_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    from subquest.engine.embedded import llama_cpp as module

    opened = open_library("xllamacpp")
    assert isinstance(opened, Library)
    module._check_layout(opened)
    monkeypatch.setitem(module._EXPECTED, "n_batch", 4096)
    with pytest.raises(EngineRefused, match="does not know"):
        module._check_layout(opened)


def test_the_stop_string_that_ends_first_wins_and_the_longest_of_those() -> None:
    assert find_stop(b"abc</a></b>", 0, ("</b>", "</a>")) == ("</a>", 7)
    assert find_stop(b"x</task>", 7, ("task>", "</task>", "")) == ("</task>", 8)
    assert find_stop(b"seen</a> and more", 10, ("</a>",)) == ("", 0)
    assert find_stop("né</a>".encode(), 3, ("é</a>",)) == ("é</a>", 7)
