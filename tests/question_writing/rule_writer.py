"""A small collection, and a writer that knows what to ask about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from subquest.engine.scripted import Context, ScriptedEngine
from subquest.question_writing import prompts
from subquest.record import Document
from subquest.retrieval.index import Index

DOCUMENTS = [
    Document(
        "bridge",
        "Orvane Bridge",
        "The Orvane Bridge spans the river Sel and was drawn up by Mila Torrun with her pupil Dario Venn. It was "
        "opened to carts on 4 May 1871, replaced a ferry that had begun to run on 9 June 1802, and cost 31,000 crowns.",
    ),
    Document(
        "torrun",
        "Mila Torrun",
        "Mila Torrun grew up in Kestel, where her father kept the mill. She studied at the Academy of Ruhn under "
        "Ada Sund and died of a fever on 2 March 1889, a year after her last bridge had been finished.",
    ),
    Document(
        "kestel",
        "Kestel",
        "Kestel is a town of mills on the upper Sel. The elected mayor of the town is Pavel Orn. Wool, flour and paper "
        "are made there, about 2,300 people live in its narrow streets, and a fair is held in autumn.",
    ),
    Document("short", "Sel", "The Sel is a river."),
    *(
        Document(
            f"other-{n}",
            f"Hamlet {n}",
            f"Hamlet {n} lies in the hills, has {n + 2} farms and a chapel, and belongs to a parish of which nothing "
            "more is known than the year of its foundation and the name of a priest.",
        )
        for n in range(3)
    ),
]
QUESTIONS = {
    "Orvane Bridge": [
        ("Who was the engineer behind the Orvane Bridge?", "Mila Torrun"),
        ("On what day could carts first use the Orvane Bridge?", "4 May 1871"),
        ("Who is mentioned in the text about the Orvane Bridge?", "Mila Torrun"),
        ("How high is the arch of the Orvane Bridge?", "40 metres"),
        ("What was the sum paid for it?", "31,000 crowns"),
    ],
    "Mila Torrun": [("In which place did Mila Torrun spend her childhood?", "Kestel")],
    "Kestel": [
        ("Who is the elected mayor of the town Kestel?", "Pavel Orn"),
        ("Which goods come from Kestel?", "wool, flour and paper"),
    ],
}
REWORDED = {"Who is the elected mayor of the town Kestel?": "Who governs Kestel today?"}
CLARIFIED = {"What was the sum paid for it?": "What was the sum paid for this Orvane Bridge?"}
TOLD = {
    "Who was the engineer behind the Orvane Bridge?": "I walked over the Orvane Bridge today. Who was the engineer "
    "behind it?",
    "On what day could carts first use the Orvane Bridge?": "I write about carts and the Orvane Bridge. On what day "
    "could carts first use the Orvane Bridge?",
    "Who governs Kestel today?": "I moved to Kestel, where I met Pavel Orn. Who governs it today?",
    "In which place did Mila Torrun spend her childhood?": "I read of Mila Torrun and Selma Quist. In which place did "
    "she spend her childhood?",
}
DOUBLE = {
    "In which place did that person spend her childhood?": "Who was the engineer behind the Orvane Bridge, and in "
    "which place did she spend her childhood?",
    "What was the sum paid for the Orvane Bridge?": "On what day could carts first use the Orvane Bridge, and what was "
    "the sum paid for it?",
}
"""By the second of two questions."""
DESCRIBED = {
    "Who was the engineer behind the Orvane Bridge?": "The engineer behind the Orvane Bridge.",
    "In which place did the engineer behind the Orvane Bridge spend her childhood?": "the place of the childhood that "
    "the engineer behind the Orvane Bridge had to spend",
}


def answers() -> dict[str, str]:
    known = {question: answer for pairs in QUESTIONS.values() for question, answer in pairs}
    mended = REWORDED | {asked: made.replace("this", "the") for asked, made in CLARIFIED.items()}
    for asked, made in (*mended.items(), *TOLD.items()):
        known[made] = known[asked]
    return known


def write(context: Context) -> str:
    system, user = context.messages[0].content, context.messages[-1].content
    if system == prompts.WRITE:
        title = user.split("\n")[0].removeprefix("Title: ")
        return "\n".join(f"Q: {question}\nA: {answer}" for question, answer in QUESTIONS.get(title, []))
    if system == prompts.REWORD:
        return REWORDED.get(user, user)
    if system == prompts.CLARIFY:
        return CLARIFIED.get(user.partition("\n")[0].removeprefix("Question: "), "I do not know.")
    if system == prompts.READ:
        return answers().get(user.rpartition("Question: ")[2], "None")
    if system == prompts.YES_NO:
        asked, _, value = user.removeprefix("Question: ").partition("\nSuggestion: ")
        if asked.startswith("Who was"):
            return f"Was {value} the engineer behind the Orvane Bridge?"
        return f"Could carts first use the Orvane Bridge on the day {value}?"
    if system == prompts.TELL:
        return TOLD.get(user, user)
    if system == prompts.UNTELL:
        return "In which place did the engineer behind the Orvane Bridge spend her childhood?"
    if system == prompts.DOUBLE:
        return DOUBLE.get(user.splitlines()[1].removeprefix("Second: "), user)
    assert system == prompts.DESCRIBE
    return DESCRIBED.get(user, "somebody")


def rule_writer(change: Callable[[Context, str], str] | None = None) -> ScriptedEngine:
    """An engine that writes by the rules; `change` may spoil a reply."""
    return ScriptedEngine(lambda context: change(context, write(context)) if change else write(context))


def collection(folder: Path) -> Index:
    return Index.build(folder / "collection.sq", DOCUMENTS)
