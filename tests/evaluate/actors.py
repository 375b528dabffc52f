"""Four systems on a generated world, played by actors who know its gold plans and err at a set rate."""

import asyncio
import zlib
from pathlib import Path

from subquest.engine.scripted import Context, ScriptedEngine
from subquest.evaluate import evaluate, jobs_for
from subquest.record import Question
from subquest.retrieval import Index
from subquest.runs import RunStore
from subquest.runtime.system import System
from subquest.systems.registry import get
from subquest.worlds import make_world

SKILLS = {"direct": 20, "rag": 45, "search-r1": 60, "coda": 75}
"""Per cent of the questions that each system's actor answers rightly."""


def actor(questions: list[Question], skill: int) -> ScriptedEngine:
    steps = {}
    for q in questions:
        answers = [s.answer for s in q.decomposition]
        for s in q.decomposition:
            text = s.question
            for number, answer in enumerate(answers, 1):
                text = text.replace(f"#{number}", answer)
            steps[text] = s.answer

    def reply(context: Context) -> str:
        asked = next((q for q in questions if q.question in context.messages[1].content), None)
        if context.role == "executor":
            task = next(t for t in steps if t in context.text)
            if context.turn == 0:
                return f"<search>{task}</search>"
            return f"<refine>It is {steps[task]}.</refine><result>{steps[task]}</result>"
        assert asked is not None
        luck = zlib.crc32(f"{asked.id}".encode()) % 100
        answer = asked.answers[0] if luck < skill else "nobody knows" if luck % 7 else f"perhaps {asked.answers[0]}"
        if context.role == "planner":
            tasks = list(asked.decomposition)
            if context.turn < len(tasks):
                known = [s.answer for s in tasks]
                text = tasks[context.turn].question
                for number, found in enumerate(known, 1):
                    text = text.replace(f"#{number}", found)
                return f"<think>Step {context.turn + 1}.</think><task>{text}</task>"
        elif context.turn == 0 and "<search>" in context.messages[0].content:
            return f"<search>{asked.question}</search>"
        return f"<answer>{answer}</answer>"

    return ScriptedEngine(reply)


def make_run(folder: Path, *, questions: int = 24, k: int = 3, skill: int = 0) -> Path:
    """A finished run of the four systems in `folder`, with the world's index beside it; returns the run's path."""
    world = make_world(seed=3, articles=160, questions=questions)
    asked = [q for q in world.questions if q.decomposition]
    place = folder / "docs.sq"
    index = Index.open(place) if place.exists() else Index.build(place, world.documents)
    systems: dict[str, System] = {
        name: get(name)(actor(asked, rate + skill), index, **({} if name == "direct" else {"k": k}))
        for name, rate in SKILLS.items()
    }
    path = folder / f"run-{k}.sqlite"
    with RunStore.resume(path, settings={"model": "scripted", "search": {"k": k}}) as store:
        asyncio.run(evaluate(jobs_for(store, {"world": asked}, systems), systems, store))
    index.close()
    return path
