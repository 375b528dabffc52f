"""A model card from the folders of training runs and evaluations: data, commands, seeds, curves and scores as they were
recorded.

Nothing in it is written by hand, so it cannot say more than the runs do. What a run did not record is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from ..codec import checked
from ..errors import DataError
from ..evaluate.result_table import broken_down, scored, table
from ..input_file import read_json
from ..models import MODELS
from ..runs import RunStore
from .recipe import DataPart, Recipe
from .traces import counts_in_words

SHOWN: Mapping[str, Sequence[str]] = {
    "sft": ("loss", "dev_em", "dev_f1_written"),
    "rl": ("reward", "em", "tasks", "one_task", "unknown", "forced", "entropy", "kl", "dev_em", "dev_f1_written"),
}
"""The figures of a curve that a card shows, by the kind of recipe."""
ROWS = 9
"""Steps of a curve at most."""


@dataclass(frozen=True, slots=True)
class Trained:
    """What a run's folder tells."""

    folder: Path
    recipe: Recipe
    commands: Sequence[str]
    traces: Mapping[str, Any]
    sources: Mapping[str, str]
    figures: Mapping[str, Mapping[int, float]]
    """By name, then by step."""
    dev: Mapping[str, Any]
    """The dev scores of the best weights."""

    @classmethod
    def read(cls, folder: Path) -> Trained:
        if not (folder / "recipe.json").is_file():
            raise DataError(f"{folder} is no training run: it has no recipe.json; name a folder of subquest train")
        figures: dict[str, dict[int, float]] = {}
        with RunStore.open(folder) as store:
            for step, name, value in store.metrics():
                figures.setdefault(name, {})[step] = value
        if not figures:
            raise DataError(f"{folder} holds no training figures yet: write its card when its first step is done")
        states = sorted((folder / "checkpoints").glob("step-*/state.json"))
        commands = folder / "commands.txt"
        return cls(
            folder,
            checked(Recipe, read_json(folder / "recipe.json", "the run's recipe"), str(folder / "recipe.json")),
            commands.read_text(encoding="utf-8").splitlines() if commands.is_file() else (),
            _object(folder / "traces.json"),
            _object(states[-1]).get("sources", {}) if states else {},
            figures,
            _object(folder / "best" / "dev.json"),
        )

    @property
    def steps(self) -> int:
        return max(step for values in self.figures.values() for step in values)


def model_card(
    name: str, folders: Iterable[Path], adapter: Path | None = None, evaluations: Iterable[Path] = ()
) -> str:
    """The card of what the last of the runs made, in Markdown. `adapter` is the file that ships, if there is one;
    `evaluations` are runs of `subquest eval` with it."""
    runs = [Trained.read(folder) for folder in folders]
    parts = [f"# {name}", *_what(runs[-1], adapter)]
    parts += ["## Results", *(part for run in evaluations for part in _measured(run)), *_measuring(runs[-1], adapter)]
    parts += ["## How it was made", *_made(runs), "## Data", *_data(runs)]
    parts += ["## Curves", *(part for run in runs for part in _curve(run))]
    if scores := [part for run in runs for part in _scores(run)]:
        parts += ["## Dev scores", *scores]
    parts += ["## Recipes", *(part for run in runs for part in _recipe(run))]
    return "\n\n".join(parts) + "\n"


def _what(run: Trained, adapter: Path | None) -> list[str]:
    model, known = run.recipe.model, MODELS.get(run.recipe.model.path)
    base = f"{known.title}, {known.licence}, SHA-256 {known.files[0].sha256}" if known else model.path
    kind = (
        f"LoRA, rank {model.rank}, alpha {model.alpha:g}, {', '.join(model.targets)}" if model.rank else "all weights"
    )
    rows = [["base", base], ["trained", kind], ["prompts", run.recipe.prompt_set], ["system", run.recipe.system]]
    if adapter is not None:
        from ..engine.adapter import base_of, prompt_set_of
        from ..models import file_digest

        file = adapter / "adapter_model.safetensors" if adapter.is_dir() else adapter
        if not file.is_file():
            raise DataError(f"no such adapter: {adapter}")
        rows += [["file", f"{file.name}, {file.stat().st_size:,} bytes, SHA-256 {file_digest(file)}"]]
        rows += [["its base by SHA-256", base_of(adapter) or "not named"], ["its prompts", prompt_set_of(adapter)]]
    return [_table(["", ""], rows)]


MEASURES = {
    "em": "EM", "f1": "F1", "judge": "judged right", "support_recall": "support recall",
    "unknown_unanswerable": "unknown", "unknown_answerable": "unknown, wrongly", "forced": "forced",
}  # fmt: skip
"""The figures of an evaluation that a card shows."""


def _measured(run: Path) -> list[str]:
    """The results of an evaluation, whole and by type of question."""
    with RunStore.open(run) as store:
        found, settings = scored(store), store.settings
    if not found:
        raise DataError(f"{run} holds no answers; name a run of subquest eval")
    cells = [(d, s, "all", cell) for d, systems in table(found).items() for s, cell in systems.items()]
    for kind, group in broken_down(found, "type").items():
        cells += [(d, s, kind, cell) for d, systems in table(group).items() for s, cell in systems.items()]
    shown = [name for name in MEASURES if any(name in cell for *_, cell in cells)]
    rows = [
        [*labels, str(cell["n"]), *(f"{cell[name]:.3f}" if cell.get(name) is not None else "" for name in shown)]
        for *labels, cell in sorted(cells, key=lambda c: (c[0], c[1], c[2] != "all", c[2]))
    ]
    said = f"Model `{settings['model']}`, " if settings.get("model") else ""
    heading = ["questions", "system", "type", "n", *(MEASURES[name] for name in shown)]
    return [f"{said}from `{run.name}`:", _table(heading, rows)]


def _measuring(run: Trained, adapter: Path | None) -> list[str]:
    """How to measure it on documents of one's own."""
    model = "" if run.recipe.model.path.startswith("random:") else f" --model {run.recipe.model.path}"
    used = f"{model} --adapter {adapter.name}" if adapter is not None else model
    command = f"subquest eval QUESTIONS.jsonl --index DOCS.sq --system {run.recipe.system}{used}"
    return [f"To measure it on your own documents:\n\n    {command} --abstain --judge rules --by type --out RUN"]


def _made(runs: Sequence[Trained]) -> list[str]:
    commands = [f"    {command}" for run in runs for command in run.commands]
    rows = []
    for run in runs:
        spent, packed = run.figures.get("seconds", {}), run.figures.get("packed", {})
        speed = f"{median(packed[s] / spent[s] for s in packed if spent.get(s)):,.0f}" if spent and packed else ""
        seconds = f"{sum(spent.values()):,.0f}"
        rows.append([run.recipe.name, run.recipe.kind, str(run.recipe.seed), f"{run.steps:,}", seconds, speed])
    heading = ["run", "kind", "seed", "steps", "seconds in steps", "tokens/s, median"]
    return [*(["\n".join(commands)] if commands else []), _table(heading, rows)]


def _data(runs: Sequence[Trained]) -> list[str]:
    parts = []
    for run in runs:
        parts.append(_table(["run", "used for", "questions", "unanswerable", "weight"], list(_sources(run))))
        if traces := run.traces:
            made = counts_in_words(traces["made_by"])
            dropped = counts_in_words(traces["rejected"])
            parts.append(
                f"{run.recipe.name}: {traces['traces']:,} gold traces ({made}), {traces['tokens']:,} tokens, of which "
                f"{traces['learnt']:,} are learnt. Questions without a trace: {dropped}."
            )
        if run.sources:
            parts.append("\n".join(f"- {what}: {digest}" for what, digest in sorted(run.sources.items())))
    return parts


def _sources(run: Trained) -> Iterable[list[str]]:
    def row(part: DataPart, use: str) -> list[str]:
        share = f"{part.unanswerable:.0%}" if part.unanswerable else ""
        return [run.recipe.name, use, part.questions, share, f"{part.weight:g}"]

    prepared = [[run.recipe.name, "training", path, "", ""] for path in run.recipe.traces]
    yield from prepared or (row(part, "training") for part in run.recipe.data)
    yield from (row(part, "dev") for part in run.recipe.dev)


def _curve(run: Trained) -> list[str]:
    names = [name for name in SHOWN[run.recipe.kind] if name in run.figures]
    steps = sorted({step for name in names for step in run.figures[name]})
    told = {step for name in names if name.startswith("dev_") for step in run.figures[name]}
    count = min(ROWS, len(steps))
    even = {steps[round(n * (len(steps) - 1) / max(count - 1, 1))] for n in range(count)}
    rows = [
        [str(step), *(f"{run.figures[n][step]:.3g}" if step in run.figures[n] else "" for n in names)]
        for step in sorted(even | told)
    ]
    return [f"{run.recipe.name}:", _table(["step", *(name.replace("_", " ") for name in names)], rows)]


def _scores(run: Trained) -> list[str]:
    scores = {name.removeprefix("dev_"): value for name, value in run.dev.items() if name.startswith("dev_")}
    if not scores:
        return []
    rows = [[name.replace("_", " "), f"{value:.3f}"] for name, value in scores.items()]
    return [f"{run.recipe.name}, best weights, step {run.dev.get('step')}:", _table(["", "dev"], rows)]


def _recipe(run: Trained) -> list[str]:
    text = json.dumps(run.recipe.as_dict(), indent=2, sort_keys=True)
    return [f"{run.recipe.name}:", f"```json\n{text}\n```"]


def _table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def _object(path: Path) -> Mapping[str, Any]:
    """A JSON object; empty where the run has none."""
    found = read_json(path, "the run") if path.is_file() else {}
    if not isinstance(found, dict):
        raise DataError(f"{path} is not a JSON object")
    return found
