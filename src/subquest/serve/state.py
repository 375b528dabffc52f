"""What handlers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from starlette.requests import Request

from .agents import Agents
from .jobs import Board
from .metrics import Metrics
from .settings import Settings
from .shelf import Shelf


@dataclass(frozen=True, slots=True)
class State:
    settings: Settings
    agents: Agents
    board: Board
    shelf: Shelf
    metrics: Metrics


def state_of(request: Request) -> State:
    return cast(State, request.app.state.subquest)
