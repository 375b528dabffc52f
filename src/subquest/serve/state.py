"""What all request handlers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from starlette.requests import Request

from .agents import Agents
from .counters import Counters
from .jobs import JobQueue
from .loop_watch import LoopWatch
from .run_library import RunLibrary
from .settings import Settings


@dataclass(frozen=True, slots=True)
class State:
    settings: Settings
    agents: Agents
    jobs: JobQueue
    library: RunLibrary
    counters: Counters
    watch: LoopWatch


def state_of(request: Request) -> State:
    return cast(State, request.app.state.subquest)
