"""`subquest bench report`: its figures, computed by hand for a scripted model over the benchmark's own folder."""

import importlib
import json
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.models import smollm2_path
from subquest.record import Evidence

from .runtime.support_cases import CITED

SCRIPT = [
    ("outliner", "Building: Who dug Tessaly Harbour?\nAirport: How long is the runway of Quillon?"),
    ("planner", "<task>Who dug Tessaly Harbour?</task>"),
    ("executor", "<search>Tessaly Harbour dug engineer</search>"),
    ("executor", "<refine>It was Ruben Aldous.</refine><result>Ruben Aldous</result>"),
    ("planner", "<answer>Ruben Aldous</answer>"),
    ("planner", "<answer>unknown</answer>"),
    (
        "reporter",
        "Tessaly Harbour was dug between 1866 and 1874 by the engineer Ruben Aldous [1]. It cost 7 million crowns [1].",
    ),
]


def test_figures_of_one_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = [line for line in SCRIPT if line[0] != "planner"]
    planner = ["<task>Who dug Tessaly Harbour?</task>", "<answer>unknown</answer>", "<answer>Ruben Aldous</answer>"]
    script += [("planner", text) for text in planner]  # the sections run at the same time
    lines = [json.dumps({"role": role, "reply": reply}) for role, reply in script]
    (tmp_path / "script.jsonl").write_text("\n".join(lines))
    assert main(["bench", "report", "--json", "--model", f"scripted:{tmp_path / 'script.jsonl'}", "--limit", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    (row,) = found["figures"]["rows"]
    assert (row["sections"], row["sentences"], row["supported"], row["dropped"]) == (3, 8, 8, 1)
    assert found["ratios"]["coverage"] == 1.0  # a section found nothing: the rest is quoted
    assert found["ratios"]["dropped"] == pytest.approx(1 / 9)


def test_what_counts_as_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong sentences whose names and numbers all stand in the quote do not count; a quote itself does."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    measure = importlib.import_module("report").is_supported
    judged = [(c, measure(c.sentence, [Evidence("d", c.title, c.quote)], c.quote)) for c in CITED]
    assert all(supported for c, supported in judged if c.right)
    assert sum(supported for c, supported in judged if not c.right) <= 1
    assert measure(CITED[0].quote, [Evidence("d", CITED[0].title, CITED[0].quote)], CITED[0].quote)
    assert not measure(CITED[0].quote, [Evidence("d", CITED[0].title, CITED[0].quote)], "another file")


@pytest.mark.slow
@pytest.mark.embedded
def test_the_embedded_model_writes_only_what_is_supported(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("xllamacpp", reason="the embedded extra is not installed")
    if not smollm2_path().is_file():
        pytest.skip("the embedded model is not here: subquest model get smollm2")
    assert (
        main(["bench", "report", "--json", "--system", "rag", "--threads", "1", "--max-tokens", "24", "--limit", "1"])
        == 0
    )
    ratios = json.loads(capsys.readouterr().out)["ratios"]
    assert ratios["supported"] >= 0.95
    assert ratios["coverage"] >= 0.5
