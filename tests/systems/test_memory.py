"""An episode's memory is free as soon as nobody holds the episode."""

import gc

from subquest.engine.scripted import Context, ScriptedEngine
from subquest.events import Event
from subquest.systems.coda import CoDA

from .fakes import FakeSearch


def reply(context: Context) -> str:
    if context.role == "planner":
        return "<task>Orvane Bridge</task>" if context.turn == 0 else "<answer>x</answer>"
    return "<search>Orvane Bridge</search>" if context.turn == 0 else "<result>x</result>"


def events() -> int:
    """Events in memory; other tests may hold some."""
    return sum(isinstance(o, Event) for o in gc.get_objects())


async def test_episodes_leave_no_garbage() -> None:
    """Nothing of an episode waits for the garbage collector: at hundreds a second it would take a fifth of the time."""
    agent = CoDA(ScriptedEngine(reply), FakeSearch())
    gc.collect()
    held = events()
    gc.disable()
    try:
        assert (await agent.solve("Who built it?")).answer == "x"
        assert events() == held
    finally:
        gc.enable()
