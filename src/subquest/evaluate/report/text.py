"""The result table as text that goes into a paper or a README."""

from __future__ import annotations

from typing import Any

from ..result_table import less_is_better
from .content import Content, number, shown

COLUMNS = (
    ("em", "EM"),
    ("f1", "F1"),
    ("cem", "CEM"),
    ("judge", "judge"),
    ("sepr", "plan"),
    ("ece", "ECE"),
    ("auroc", "AUROC"),
)


def markdown(content: Content) -> str:
    """A table a data set, in GitHub's form."""
    lines: list[str] = []
    for dataset, systems in content.table().items():
        columns = shown(content, COLUMNS, systems)
        marks = {v.system: v for v in content.comparisons(dataset)}
        lines += [f"### {dataset}", "", "| system | n | " + " | ".join(name for _, name in columns) + " | tokens |"]
        lines.append("|" + "---|" * (len(columns) + 3))
        for system, cell in systems.items():
            values = [_value(cell, key, content, marks.get(system)) for key, _ in columns]
            lines.append(f"| {system} | {cell['n']} | " + " | ".join(values) + f" | {_tokens(cell):.0f} |")
        lines += ["", _note(content, dataset), ""]
    return "\n".join(lines)


def latex(content: Content) -> str:
    """A `tabular` with booktabs' rules for each data set."""
    parts: list[str] = []
    for dataset, systems in content.table().items():
        columns = shown(content, COLUMNS, systems)
        marks = {v.system: v for v in content.comparisons(dataset)}
        parts += [
            f"% {dataset}: {_note(content, dataset)}",
            rf"\begin{{tabular}}{{l{'r' * (len(columns) + 2)}}}",
            r"\toprule",
            " & ".join([_tex(dataset), "n", *(_tex(name) for _, name in columns), "tokens"]) + r" \\",
            r"\midrule",
        ]
        for system, cell in systems.items():
            values = [_value(cell, key, content, marks.get(system)) for key, _ in columns]
            row = " & ".join([_tex(system), str(cell["n"]), *map(_tex, values), f"{_tokens(cell):.0f}"])
            parts.append(row + r" \\")
        parts += [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(parts)


def _value(cell: dict[str, Any], key: str, content: Content, versus: Any) -> str:
    if cell.get(key) is None:
        return "-"
    low, high = cell.get(f"{key}_low"), cell.get(f"{key}_high")
    span = f" ({number(low)}-{number(high)})" if low is not None and high is not None else ""
    mark = versus.mark if versus is not None and key == content.metric else ""
    return f"{number(cell[key])}{mark}{span}"


def _note(content: Content, dataset: str) -> str:
    found = content.comparisons(dataset)
    if not found:
        return "95% bootstrap intervals."
    less = "; less is better" if less_is_better(content.metric) else ""
    return (
        f"95% bootstrap intervals. † and ‡: {content.metric} differs from {found[0].reference}'s "
        f"(p < 0.05 and p < 0.01, paired, Holm-corrected{less})."
    )


def _tokens(cell: dict[str, Any]) -> float:
    return float((cell.get("prompt_tokens") or 0) + (cell.get("completion_tokens") or 0))


_TEX = {
    **{character: "\\" + character for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "†": r"$^{\dagger}$",
    "‡": r"$^{\ddagger}$",
}


def _tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in text)
