"""Episodes such as CoDA makes them, without running it."""

from __future__ import annotations

import random

from subquest.events import Event
from subquest.record import Episode, Failure, Question, Segment, Trajectory, Usage

PROMPT = "You plan. Give simple tasks to your executor, one a turn, and answer when you know enough.\n" * 5


def ids_of(text: str) -> tuple[int, ...]:
    return tuple(sum(map(ord, word)) * 31 % 49_152 for word in text.split())


def question(number: int, dataset: str = "made-up") -> Question:
    return Question(f"q{number}", f"Who founded the harbour that lies {number} miles from Lumo?", ("Ada",), dataset)


def episode(name: str, number: int = 0, *, system: str = "coda", seed: int = 0) -> Episode:
    """A planner, an executor that reads one of twenty documents, and their events."""
    rng = random.Random(f"{number} {seed}")
    page = "The harbour of place {} was founded by Ada in the year {} and is known for its lights. "
    document = "".join(page.format(n, n * 7) for n in range(number % 20, number % 20 + 6))
    shown = f"<documents>Doc 1(Title: Harbour) {document}\n</documents>"
    thought = " ".join(rng.choice(["so", "the", "harbour", "Ada", "maybe", "founded"]) for _ in range(30))
    asked = question(number)

    def agent(text: str) -> Segment:
        ids = ids_of(text)
        return Segment("agent", text, ids, tuple(-rng.random() for _ in ids), role="assistant")

    def told(kind: str, text: str) -> Segment:
        return Segment(kind, text, ids_of(text), role="user")  # type: ignore[arg-type]

    task = f"<think>{thought}</think>\n<task>Find the founder, {number}.</task>"
    planner = Trajectory(
        "1", "planner", asked.question, segments=(told("prompt", PROMPT + asked.question), agent(task)), result="Ada"
    )
    executor = Trajectory(
        "1.1",
        "executor",
        "Find the founder.",
        parent="1",
        segments=(
            told("prompt", PROMPT),
            agent("<search>harbour</search>"),
            told("env", shown),
            agent(f"<result>{thought}</result>"),
        ),
        result="Ada",
        usage=Usage(prompt_tokens=10, searches=1),
    )
    hits = [{"id": "d1", "title": "Harbour", "text": document, "score": 1.5}]
    events = (
        Event(0, "start", 0.0, "", {"question": asked.question, "system": system}),
        Event(1, "turn", 0.1, "1", {"text": task, "finish": "end"}),
        Event(2, "documents", 0.2, "1.1", {"query": "harbour", "hits": hits}),
        Event(3, "end", 0.3, "", {"stop_reason": "answered"}),
    )
    return Episode(
        name,
        asked,
        system,
        "scripted",
        (planner, executor),
        answer="Ada",
        stop_reason="answered",
        errors=(Failure("search", "timed out", "1.1"),),
        events=events,
        usage=Usage(model_calls=3),
        settings={"turns": 6},
    )
