"""The page: one HTML file with its style, script, charts and traces inside. It may not load anything from anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from ...english import counted
from ...plots import COLOURS, DARK_COLOURS, palette
from ...record import Episode, Trajectory
from ..result_table import less_is_better
from .content import OUTCOME_NOTES, OUTCOMES, Content, Entry, number, shown, traced
from .figures import by_field, by_k, calibration, cost, intervals

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
SHOWN = (("em", "EM"), ("f1", "F1"), ("cem", "CEM"), ("judge", "judge"), ("sepr", "plan score"))
COSTS = (
    ("prompt_tokens", "tokens read", 0), ("completion_tokens", "written", 0), ("peak_context", "longest context", 0),
    ("model_calls", "model calls", 1), ("searches", "searches", 1), ("tool_calls", "other tools", 1),
    ("seconds", "seconds", 1), ("cost", "cost", 4),
)  # fmt: skip
_TURN = 900
"""Characters of a turn in a trace."""
_ENVIRONMENT = 400


def page(content: Content, *, title: str = "", traces: int = 8) -> str:
    """The report. `traces`: how many wrong answers of each system on each set are shown in full."""
    title = title or ("Evaluation of " + ", ".join(content.datasets))
    colours = palette(content.systems)
    chosen = list(traced(content, traces))
    anchors = {(e.run, e.row.episode): f"t-{at}" for at, (e, _) in enumerate(chosen)}
    sections = [_section(content, dataset, colours) for dataset in content.datasets]
    links = [*((f"set-{at}", name) for at, name in enumerate(content.datasets)), ("list", "Episodes")]
    links += [("traces", "Traces")] if chosen else []
    links.append(("settings", "Settings"))
    numbered = "".join(f'<section id="set-{at}">{text}</section>' for at, text in enumerate(sections))
    shown = "".join(_trace(e, episode, anchors[e.run, e.row.episode]) for e, episode in chosen)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>{_file("page.css")}{_classes()}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
<p class="lead">{_lead(content)}</p>
<nav>{"".join(f'<a href="#{anchor}">{escape(name)}</a>' for anchor, name in links)}</nav>
{numbered}
{_list(content)}
{'<h2 id="traces">Traces</h2><p class="note">Wrong and failed answers, and a few right ones.</p>' if chosen else ""}
{f'<div class="card">{shown}</div>' if chosen else ""}
{_settings(content)}
</main>
<script type="application/json" id="rows">{_rows(content, anchors)}</script>
<script>{_file("page.js")}</script>
</body>
</html>
"""


def _section(content: Content, dataset: str, colours: Mapping[str, int]) -> str:
    cells = content.table()[dataset]
    figures = [intervals(content, dataset, colours), cost(content, dataset, colours), by_k(content, dataset, colours)]
    breakdowns = content.breakdowns(dataset)
    if "hops" in breakdowns:
        figures.append(by_field(content, "hops", breakdowns["hops"], colours))
    figures.append(calibration(content, dataset, colours))
    drawn = "".join(f'<figure class="card">{figure}</figure>' for figure in figures if figure)
    return (
        f"<h2>{escape(dataset)}</h2>"
        + _results(content, dataset, cells, colours)
        + f'<div class="grid-2">{drawn}</div>'
        + _reliability(content, dataset, cells, colours)
        + "<h3>What became of the questions</h3>"
        + _outcomes(content, dataset, cells)
        + "".join(_breakdown(content, name, groups, colours) for name, groups in breakdowns.items())
        + "<h3>What it cost, for each question</h3>"
        + _costs(cells, colours)
    )


def _span(cell: Mapping[str, Any], key: str) -> str:
    """The interval of a mean, where there is one."""
    low, high = cell.get(f"{key}_low"), cell.get(f"{key}_high")
    return "" if low is None or high is None else f'<span class="span">{number(low)}–{number(high)}</span>'


def _results(content: Content, dataset: str, cells: Mapping[str, Mapping[str, Any]], colours: Mapping[str, int]) -> str:
    columns = shown(content, SHOWN, cells)
    extra = [("support_recall", "support found"), ("supported", "supported"), ("parts_supported", "parts supported")]
    extra += [
        ("em_supported", "EM supported"),
        ("em_parts_supported", "EM parts supported"),
        ("em_unsupported", "EM unsupported"),
        ("ece", "ECE"),
        ("auroc", "AUROC"),
    ]
    extra = [(key, name) for key, name in extra if any(c.get(key) is not None for c in cells.values())]
    extra = [column for column in extra if column[0] != content.metric]
    versus = {v.system: v for v in content.comparisons(dataset)}
    best = {
        key: (min if less_is_better(key) else max)(c[key] for c in cells.values() if c.get(key) is not None)
        for key, _ in columns
    }
    head = "".join(f"<th>{escape(name)}</th>" for _, name in (*columns, *extra))
    against = f"<th>against {escape(next(iter(versus.values())).reference)}</th>" if versus else ""
    rows = []
    for system, cell in cells.items():
        row = [f"<td>{_name(system, colours)}</td><td>{cell['n']}</td>"]
        for key, _ in columns:
            mark = versus[system].mark if key == content.metric and system in versus else ""
            kind = ' class="best"' if cell.get(key) == best[key] and len(cells) > 1 else ""
            row.append(f"<td{kind}>{_value(cell.get(key))}{mark}{_span(cell, key)}</td>")
        row += [f"<td>{_value(cell.get(key))}{_span(cell, key)}</td>" for key, _ in extra]
        row += [f"<td>{_share(cell.get(key))}</td>" for key in ("forced", "failed")]
        if versus:
            v = versus.get(system)
            row.append(
                "<td>–</td>"
                if v is None
                else f"<td>{v.result.difference:+.3f}<span class='span'>p {_p(v.adjusted)}, n {v.result.n}</span></td>"
            )
        rows.append(f"<tr>{''.join(row)}</tr>")
    note = (
        "Means with 95% bootstrap intervals. "
        + (
            f"† p &lt; 0.05, ‡ p &lt; 0.01 for {escape(content.metric)} against the reference: paired test on the "
            "questions both answered (exact McNemar where right and wrong are all there is, else bootstrap), "
            f"Holm-corrected. {'Less is better. ' if less_is_better(content.metric) else ''}"
            if versus
            else ""
        )
        + "Forced answers were given at a limit; failed questions count as wrong."
    )
    return (
        f'<div class="card scroll"><table><thead><tr><th>system</th><th>n</th>{head}<th>forced</th><th>failed</th>'
        f'{against}</tr></thead><tbody>{"".join(rows)}</tbody></table></div><p class="note">{note}</p>'
    )


def _reliability(content: Content, dataset: str, systems: Iterable[str], colours: Mapping[str, int]) -> str:
    """How often answers of a confidence were right; nothing where no system tells any."""
    rows = [
        f"<tr><td>{_name(system, colours)}</td><td>{b.low:.1f}–{b.high:.1f}</td><td>{b.n}</td>"
        f"<td>{b.confidence:.3f}</td><td>{b.right:.3f}"
        f'<span class="span">{b.right_low:.3f}–{b.right_high:.3f}</span></td></tr>'
        for system in systems
        if (found := content.calibration(dataset, system)) is not None
        for b in found.bins
    ]
    if not rows:
        return ""
    return (
        '<h3>How far its confidence can be trusted</h3><div class="card scroll"><table><thead><tr><th>system</th>'
        "<th>confidence</th><th>answers</th><th>mean</th><th>right</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        '<p class="note">Exact match with Wilson\'s 95% intervals. ECE is the mean gap between the two columns, AUROC '
        "the chance that a right answer has the higher confidence than a wrong one.</p>"
    )


def _outcomes(content: Content, dataset: str, cells: Mapping[str, Any]) -> str:
    rows, seen = [], set[str]()
    for system in cells:
        counts = content.outcomes(dataset, system)
        total = sum(counts.values())
        seen |= set(counts)
        bars = "".join(
            f'<i class="o-{o.replace(" ", "-")}" style="flex:{counts[o]}" title="{o}: {counts[o]} of {total}"></i>'
            for o in OUTCOMES
            if counts[o]
        )
        rows.append(f'<div class="stackrow"><span>{escape(system)}</span><div class="stack">{bars}</div></div>')
    legend = "".join(
        f'<span><i class="o-{o.replace(" ", "-")}"></i>{o}: {OUTCOME_NOTES[o]}</span>' for o in OUTCOMES if o in seen
    )
    errors = [
        f"{escape(system)}: " + ", ".join(f"{escape(place)} {n}" for place, n in sorted(content.errors[system].items()))
        for system in cells
        if system in content.errors
    ]
    where = f'<p class="note">Failures met on the way, survived or not. {"; ".join(errors)}.</p>' if errors else ""
    return f'<div class="card">{"".join(rows)}<div class="legend">{legend}</div></div>{where}'


def _breakdown(content: Content, name: str, groups: Mapping[str, Sequence[Entry]], colours: Mapping[str, int]) -> str:
    systems = [s for s in colours if any(e.row.system == s for group in groups.values() for e in group)]
    rows = []
    for value, entries in groups.items():
        questions = len({e.row.question.id for e in entries})
        cells = []
        for system in systems:
            values = content.values([e for e in entries if e.row.system == system])
            cells.append(f"<td>{sum(values) / len(values):.3f}</td>" if values else "<td>–</td>")
        rows.append(f"<tr><td>{escape(value)}</td><td>{questions}</td>{''.join(cells)}</tr>")
    head = "".join(f"<th>{_name(s, colours)}</th>" for s in systems)
    return (
        f"<h3>{escape(content.metric.upper())} by {escape(name)}</h3>"
        f'<div class="card scroll"><table><thead><tr><th>{escape(name)}</th><th>questions</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _costs(cells: Mapping[str, Mapping[str, Any]], colours: Mapping[str, int]) -> str:
    columns = [(key, name, digits) for key, name, digits in COSTS if any(c.get(key) for c in cells.values())]
    head = "".join(f"<th>{name}</th>" for _, name, _ in columns)
    rows = []
    for system, cell in cells.items():
        values = "".join(f"<td>{cell.get(key) or 0:,.{digits}f}</td>" for key, _, digits in columns)
        roles = [key.removeprefix("tokens_") for key in cell if key.startswith("tokens_")]
        split = "; ".join(f"{r} {cell[f'tokens_{r}']:,.0f} (peak {cell.get(f'peak_{r}', 0):,.0f})" for r in roles)
        rows.append(f'<tr><td>{_name(system, colours)}</td>{values}<td class="wrap">{escape(split)}</td></tr>')
    return (
        f'<div class="card scroll"><table><thead><tr><th>system</th>{head}<th class="wrap">computed tokens by role</th>'
        "</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _list(content: Content) -> str:
    def choice(name: str, label: str, values: Sequence[str]) -> str:
        options = "".join(f"<option>{escape(v)}</option>" for v in values)
        return f'<select id="{name}" aria-label="{label}"><option value="">{label}</option>{options}</select>'

    outcomes = [o for o in OUTCOMES if any(e.outcome == o for e in content.entries)]
    return (
        '<h2 id="list">Episodes</h2><div class="tools">'
        '<input id="find" type="search" placeholder="Find in questions and answers" aria-label="Find">'
        + choice("set", "every set", content.datasets)
        + choice("system", "every system", content.systems)
        + choice("outcome", "every outcome", outcomes)
        + '</div><p class="note" id="count"></p><div class="card scroll"><table id="episodes"><thead><tr>'
        "<th>outcome</th><th>system</th><th>question</th><th>answer</th><th>gold</th></tr></thead><tbody></tbody>"
        '</table></div><button id="more" hidden>Show more</button>'
        "<noscript><p>The list needs JavaScript; everything else on this page does not.</p></noscript>"
    )


def _rows(content: Content, anchors: Mapping[tuple[Any, str], str]) -> str:
    rows = [
        {
            "id": e.row.question.id,
            "set": e.row.dataset,
            "system": e.row.system,
            "outcome": e.outcome,
            "forced": bool(e.row.scores.get("forced")),
            "question": e.row.question.question,
            "answer": e.answer[:300],
            "gold": " | ".join(e.row.question.answers[:5]),
            **({"trace": anchor} if (anchor := anchors.get((e.run, e.row.episode))) else {}),
        }
        for e in content.entries
    ]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _trace(entry: Entry, episode: Episode, anchor: str) -> str:
    """Every context of an episode, its turns and what the environment said, cut to a readable length."""
    question = episode.question
    notes = "".join(f", {note}" for note in ("forced" if episode.forced else "", episode.support_note) if note)
    summary = (
        f'<span class="pill"><i class="o-{entry.outcome.replace(" ", "-")}"></i></span>{escape(question.question)}'
        f"<small>{escape(entry.row.system)}, {escape(entry.row.dataset)}, {entry.outcome}{notes}</small>"
    )
    answer = (
        f"<p>Answer: <b>{escape(episode.answer or '–')}</b><br>Gold: {escape(' | '.join(question.answers[:8]))}</p>"
    )
    errors = "".join(f'<div class="turn error">{escape(f"{e.where}: {e.message}")}</div>' for e in episode.errors)
    contexts = "".join(_context(depth, t) for depth, t in episode.walk())
    return f'<details id="{anchor}"><summary>{summary}</summary>{answer}{errors}{contexts}</details>'


def _context(depth: int, trajectory: Trajectory) -> str:
    turns = []
    for segment in trajectory.segments:
        if segment.kind == "prompt" or not segment.text.strip():
            continue
        kind, length = ("env", _ENVIRONMENT) if segment.kind == "env" else ("agent", _TURN)
        turns.append(f'<div class="turn {kind}">{escape(_cut(segment.text.strip(), length))}</div>')
    usage = trajectory.usage
    return (
        f'<div class="context" style="--depth:{min(depth, 6)}"><h4>{escape(trajectory.role)} '
        f"<small>{escape(_cut(trajectory.task, 200))} · {counted(usage.model_calls, 'call')}, longest context "
        f"{usage.peak_context:,}, {escape(trajectory.stop_reason)}</small></h4>{''.join(turns)}</div>"
    )


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length * 2 // 3]} […] {text[-length // 3 :]}"


def _settings(content: Content) -> str:
    blocks = "".join(
        f"<h3>{escape(path)}</h3><pre>{escape(json.dumps(found, indent=2, ensure_ascii=False))}</pre>"
        for path, found in content.settings.items()
    )
    return f'<h2 id="settings">Settings of the runs</h2>{blocks}'


def _lead(content: Content) -> str:
    questions = len({(e.row.dataset, e.row.question.id) for e in content.entries})
    models = list(dict.fromkeys(str(s.get("model", "")) for s in content.settings.values() if s.get("model")))
    text = f"{counted(len(content.systems), 'system')}, {counted(questions, 'question')}, "
    text += counted(len(content.entries), "episode")
    return escape(text + (f"; model {', '.join(models)}" if models else ""))


def _classes() -> str:
    light = "".join(f".c{at}{{color:{colour}}}" for at, colour in enumerate(COLOURS))
    dark = "".join(f".c{at}{{color:{colour}}}" for at, colour in enumerate(DARK_COLOURS))
    return f"{light}@media(prefers-color-scheme:dark){{{dark}}}"


def _name(system: str, colours: Mapping[str, int]) -> str:
    return f'<span class="c{colours[system] % len(COLOURS)}"><span class="key"></span></span>{escape(system)}'


def _value(value: Any) -> str:
    return "–" if value is None else number(value)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _p(value: float) -> str:
    return "&lt; 0.001" if value < 0.001 else f"{value:.3f}"


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
