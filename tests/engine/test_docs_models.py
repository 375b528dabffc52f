"""What docs/models.md shows works as it stands."""

import re
from pathlib import Path

import pytest

from subquest.engine.openai import Price, load_prices
from subquest.engine.openai.engine import OpenAIEngine

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "models.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
def test_python_blocks_run(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    names: dict[str, object] = {}
    exec(block, names)
    assert isinstance(names["engine"], OpenAIEngine)


def test_the_prices_block_is_a_prices_file(tmp_path: Path) -> None:
    block = next(b for b in re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL) if "prices" in b)
    path = tmp_path / "prices.toml"
    path.write_text(block)
    assert load_prices(path)["gpt-5-mini"] == Price(0.25, 2.0, 0.025)


def test_every_option_is_documented() -> None:
    from dataclasses import fields

    from subquest.assemble.engines import FORMS, EngineOptions

    missing = [f.name for f in fields(EngineOptions) if f"`{f.name}`" not in TEXT]
    assert missing == []
    assert all(kind in TEXT for kind in FORMS)


def test_the_table_of_known_models_is_that_of_the_code() -> None:
    from subquest.models import MODELS, megabytes

    for model in MODELS.values():
        row = next(
            line
            for line in TEXT.splitlines()
            if line.startswith(f"| `{model.name}` | {model.title.split(',')[0].split(':')[0]}")
        )
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[2:] == [model.licence, megabytes(model.size), f"{model.context:,}" if model.context else ""]
