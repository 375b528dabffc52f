"""What the model is asked: to write questions, mend and answer them, make them yes or no, say what they ask for."""

from __future__ import annotations

from collections.abc import Iterable

from ..record import Document

MOST_WORDS = 250
"""Words of a passage that a model is shown."""
LONGEST_WORD = 100
"""Characters of a word that a model is shown."""
ASKERS = (
    "a new colleague",
    "somebody who is in a hurry",
    "a journalist",
    "a customer",
    "an auditor",
    "a student who writes a paper",
    "a curious reader",
    "a manager who prepares a meeting",
)

WRITE = """You write questions that people put to a search engine over a collection of documents. They have not seen \
the text that you are given, so each question must be clear by itself: name people, places, things and codes in full, \
and never write "the text", "the table", "this", "he", "she" or "they". Word the question otherwise than the text. \
Copy each answer exactly from the text: a name, a date, a number or a few words. Ask for things of different kinds: \
who, where, when, which, how many, how much, what for, why, and lists."""
WRITE_EXAMPLES = (
    """Title: Minutes of the Pell harbour board, 4 May 2021
Text: Ada Quill reported that the ferry Marlow needs a new engine, because the old one failed its inspection twice. It \
will cost 84,000 pounds. Brandt & Sons will fit it in October. The board named three boats for the summer service: \
Heron, Tern and Gull.
Asked by: a new colleague""",
    """Q: Who told the Pell harbour board about the trouble with the ferry Marlow?
A: Ada Quill
Q: How much money is needed to replace the motor of the ferry Marlow?
A: 84,000 pounds
Q: Which firm puts a new motor into the ferry Marlow?
A: Brandt & Sons
Q: What happened to the motor that the ferry Marlow had before?
A: failed its inspection twice
Q: Which boats did the Pell harbour board choose to run in summer?
A: Heron, Tern and Gull""",
    """Title: Machines of Orme Works
Text: machine: KVR-E12; kind: laser cutter; place: Low Mill; supplier: Dunn Tools; bought: 3 March 2019; price: $7,400
machine: KVR-E31; kind: press; place: High Yard; supplier: Selby Metals; bought: 9 June 2020; price: $2,150
Asked by: an auditor
Each question contains: Low Mill""",
    """Q: What was spent on the laser cutter that stands in Low Mill?
A: $7,400
Q: Since when has Orme Works had its machine in Low Mill?
A: 3 March 2019
Q: From whom did Orme Works get the equipment of Low Mill?
A: Dunn Tools""",
)
"""Passages and questions, in turn; the second time each question has to contain a name."""

REWORD = """You put a question into other words: other verbs, other nouns, another order. Keep every name and number \
exactly as it is, and ask for the same thing. Reply with the question only."""
REWORD_EXAMPLES = (
    "In what year was the Kestrel Bridge opened to traffic?",
    "Since which year have people been able to drive over the Kestrel Bridge?",
    "Who is responsible for the maintenance of the lifts at Pell Hall?",
    "Whose job is it to keep the lifts at Pell Hall running?",
)

CLARIFY = """You are given a question that is not clear by itself, and what it is about. Write the question again so \
that everybody understands it: put in the name of what it is about, and leave out words like "this", "he", "the text". \
Ask for the same thing. Reply with the question only."""
CLARIFY_EXAMPLES = (
    "Question: When did the incident occur?\nAbout: RB-17",
    "When did the incident RB-17 occur?",
    "Question: How much did he earn in 1931?\nAbout: Hugo Lund",
    "How much did Hugo Lund earn in 1931?",
    "Question: Who wrote this letter?\nAbout: Pell Hall",
    "Who wrote the letter about Pell Hall?",
)

READ = """Answer the question from the documents alone, with as few words of theirs as possible: a name, a date, a \
number, a phrase or a list. If the documents do not say, reply None. Reply with the answer only."""
READ_EXAMPLES = (
    """Document: Kestrel Bridge
The Kestrel Bridge crosses the Orme. It was opened in 1931 and has carried trams since 1948.

Document: Pell Bridge
The Pell Bridge was opened in 1927.

Question: In which year could people first cross the Kestrel Bridge?""",
    "1931",
)

YES_NO = """You are given a question and a suggested answer. Ask whether the suggestion is true, with one question \
that is answered by yes or no. Keep the suggestion and every name and number exactly as they are. Reply with the \
question only."""
YES_NO_EXAMPLES = (
    "Question: Who designed the Kestrel Bridge?\nSuggestion: Ada Quill",
    "Was Ada Quill the designer of the Kestrel Bridge?",
    "Question: When does the lease of Pell Hall end?\nSuggestion: 3 March 2026",
    "Does the lease of Pell Hall end on 3 March 2026?",
    "Question: Who works for Hugo Lund?\nSuggestion: Mina Dale",
    "Does Mina Dale work for Hugo Lund?",
)

DESCRIBE = """You turn a question into a description of what it asks for: the person who, the firm that, the place \
where, and so on. Keep every name and number exactly as it is. Reply with the description only."""
DESCRIBE_EXAMPLES = (
    "Who designed the Kestrel Bridge?",
    "the person who designed the Kestrel Bridge",
    "In which town does Ada Quill's brother go to school?",
    "the town where the brother of Ada Quill goes to school",
    "What is the name of the company that owns the ferry Marlow?",
    "the company that owns the ferry Marlow",
    "Which firm did Pell Hall hire to repair its clock in 1931?",
    "the firm that Pell Hall hired to repair its clock in 1931",
)

OTHERWISE = """You put a question as somebody would who has not read the document and knows only what it is about: in \
everyday words, in a roundabout way. Keep names, codes and numbers exactly as they are. Do not use the words that you \
are told to avoid; say the same with others. Ask for the same thing. Reply with the question only."""
OTHERWISE_EXAMPLES = (
    "Question: In what year was the Kestrel Bridge opened to traffic?\nAvoid: year, opened, traffic",
    "Since when have people been able to drive over the Kestrel Bridge?",
    "Question: What is the price of the new engine of the ferry Marlow?\nAvoid: price, engine, ferry",
    "How much do we have to spend so that the Marlow can sail again with a working motor?",
    "Question: Who approved the budget for the repair of the roof of Pell Hall?\nAvoid: approved, budget, repair, roof",
    "Who said yes to the money for making Pell Hall dry from above?",
    "Question: How many employees attended the fire safety training on 3 March 2021?\n"
    "Avoid: employees, attended, fire, safety, training",
    "On 3 March 2021, how many of the staff came to hear what to do if something burns?",
)

TELL = """You are given a question. Write what somebody says who needs the answer and does not know it: first what has \
happened to them or what they have to do, in one or two sentences that do not say yet what they want to know, then a \
short question that leans on them with words like "it", "there" or "they". Keep names, codes and numbers exactly as \
they are, and add none. Everything that the question tells must be said, in the situation or in the short question. \
Reply with what they say only, and end with the question."""
TELL_EXAMPLES = (
    "Who is responsible for the maintenance of the lifts at Pell Hall?",
    "One of the lifts at Pell Hall is stuck again, with two of us in it. Who is responsible for their maintenance?",
    "On what date does the lease of the warehouse in Low Mill end?",
    "The roof of the warehouse in Low Mill leaks, and we would rather move out. On what date does its lease end?",
    "What is the phone number of the person who ordered the new engine of the ferry Marlow?",
    "A parcel has come for the person who ordered the new engine of the ferry Marlow. What is their phone number?",
    "How much did the firm that repaired the clock of Pell Hall charge in 1931?",
    "The clock of Pell Hall has stopped. We could ask the firm that repaired it. How much did it charge in 1931?",
)


UNTELL = """Somebody tells you their situation and then asks a question. Write the question that they want answered, \
clear by itself: with all of the situation that matters for it, and names, codes and numbers exactly as they are. \
Reply with the question only."""
UNTELL_EXAMPLES = tuple(text for n in range(0, len(TELL_EXAMPLES), 2) for text in TELL_EXAMPLES[n : n + 2][::-1])


DOUBLE = """You are given two questions. Write one question that asks for both, the first thing first, as somebody \
says it in one sentence. Do not repeat a name: write "it", "there" or "they" where it is clear. Keep all other names, \
codes and numbers, and add none. Reply with the question only."""
DOUBLE_EXAMPLES = (
    "First: Who is responsible for the lifts at Pell Hall?\nSecond: When were the lifts at Pell Hall last checked?",
    "Who is responsible for the lifts at Pell Hall, and when were they last checked?",
    "First: Which firm repaired the clock of Pell Hall?\nSecond: In which town is that firm?",
    "Which firm repaired the clock of Pell Hall, and in which town is it?",
    "First: How much was spent on the laser cutter in Low Mill?\nSecond: From whom was the press of High Yard bought?",
    "How much was spent on the laser cutter in Low Mill, and from whom was the press of High Yard bought?",
    "First: Who ordered the new engine of the ferry Marlow?\nSecond: What is the phone number of that person?",
    "Who ordered the new engine of the ferry Marlow, and what is that person's phone number?",
)


def double_prompt(first: str, second: str) -> str:
    return f"First: {first}\nSecond: {second}"


def otherwise_prompt(question: str, avoid: Iterable[str]) -> str:
    return f"Question: {question}\nAvoid: {', '.join(avoid) or 'none'}"


def write_prompt(passage: Document, asker: str, name: str = "") -> str:
    """A passage to ask about; with a `name` that every question must contain."""
    rule = f"\nEach question contains: {name}" if name else ""
    return f"Title: {passage.title}\nText: {shown(passage)}\nAsked by: {asker}{rule}"


def read_prompt(documents: Iterable[Document], question: str) -> str:
    told = [f"Document: {d.title}\n{shown(d)}" for d in documents]
    return "\n\n".join([*told, f"Question: {question}"])


def shown(passage: Document) -> str:
    """The beginning of a passage, whole lines and words."""
    left, lines = MOST_WORDS, []
    for line in passage.text.strip().split("\n"):
        words = [word[:LONGEST_WORD] for word in line.split()[:left]]
        left -= len(words)
        lines.append(" ".join(words))
        if not left:
            break
    return "\n".join(lines)
