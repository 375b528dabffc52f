"""What a server has done, counted, in the text format of Prometheus."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from ..record import Episode


class _Family(NamedTuple):
    kind: str
    help: str


_FAMILIES = {
    "subquest_requests_total": _Family("counter", "Requests by route, method and status."),
    "subquest_request_seconds_total": _Family("counter", "Seconds spent on requests, by route; streams included."),
    "subquest_episodes_total": _Family("counter", "Episodes that ended, by system and how they ended."),
    "subquest_episode_seconds_total": _Family("counter", "Wall-clock seconds of episodes, by system."),
    "subquest_prompt_tokens_total": _Family("counter", "Tokens that models read, by system."),
    "subquest_cached_tokens_total": _Family("counter", "Tokens that models read from a cache, by system."),
    "subquest_completion_tokens_total": _Family("counter", "Tokens that models wrote, by system."),
    "subquest_searches_total": _Family("counter", "Searches that episodes made, by system."),
    "subquest_queries_total": _Family("counter", "Queries to indexes through the server, by index."),
    "subquest_jobs": _Family("gauge", "Questions that are queued or being answered."),
}


class Counters:
    """Counters by name and labels."""

    def __init__(self) -> None:
        self._values: dict[str, defaultdict[tuple[tuple[str, str], ...], float]] = {
            name: defaultdict(float) for name in _FAMILIES
        }

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None:
        self._values[name][tuple(sorted(labels.items()))] += amount

    def set(self, name: str, value: float, **labels: str) -> None:
        self._values[name][tuple(sorted(labels.items()))] = value

    def add_episode(self, episode: Episode) -> None:
        system, usage = episode.system, episode.usage
        self.add("subquest_episodes_total", system=system, ending=episode.stop_reason)
        self.add("subquest_episode_seconds_total", usage.seconds, system=system)
        self.add("subquest_prompt_tokens_total", usage.prompt_tokens, system=system)
        self.add("subquest_cached_tokens_total", usage.cached_tokens, system=system)
        self.add("subquest_completion_tokens_total", usage.completion_tokens, system=system)
        self.add("subquest_searches_total", usage.searches, system=system)

    def text(self) -> str:
        lines = []
        for name, family in _FAMILIES.items():
            lines += [f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}"]
            for labels, value in sorted(self._values[name].items()):
                inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
                lines.append(f"{name}{{{inside}}} {value:.15g}" if inside else f"{name} {value:.15g}")
        return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
