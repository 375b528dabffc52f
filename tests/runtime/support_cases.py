"""Answers that documents support, and answers like them that they do not: written by hand, in the shapes people ask.

Half are wrong but similar: a number of the same page that counts something else, the row beside the right one, a yes to
the opposite of what the document says.
"""

from __future__ import annotations

from typing import NamedTuple

from subquest.record import Document
from subquest.runtime.evidence import Finding


class Case(NamedTuple):
    kind: str
    question: str
    answer: str
    right: bool
    steps: tuple[tuple[str, str], ...] = ()
    """Sub-tasks with their results; without any, the question is the task and the answer its result."""
    read: bool = False
    """Whether the documents were only read, as by a single agent: there is no task and no result."""


class Group(NamedTuple):
    documents: tuple[Document, ...]
    cases: tuple[Case, ...]

    def findings(self, case: Case) -> list[Finding]:
        if case.read:
            return [Finding("", "", "", self.documents)]
        steps = case.steps or ((case.question, case.answer),)
        return [Finding(task, result, "", self.documents, f"1.{n}") for n, (task, result) in enumerate(steps, 1)]


def documents(*texts: tuple[str, str]) -> tuple[Document, ...]:
    return tuple(Document(f"d{n}", title, text, {"file": title}) for n, (title, text) in enumerate(texts, 1))


GROUPS = (
    Group(
        documents(
            (
                "Staff handbook",
                "Full-time staff receive 28 days of annual leave. Parental leave lasts 16 weeks. "
                "Expenses must be claimed within 30 days of the journey. The canteen opens at 7:30. "
                "Dogs are not allowed in the office. Bicycles may be kept in the courtyard.",
            ),
            (
                "Parcel room",
                "Parcels that nobody collects are returned after 14 days. The parcel room has 40 lockers. "
                "It closes at 18:00.",
            ),
        ),
        (
            Case("number", "How many days of annual leave do full-time staff receive?", "28", True),
            Case("number", "How many days of annual leave do full-time staff receive?", "30", False),
            Case("number", "How many days of annual leave do full-time staff receive?", "14", False),
            Case("number", "How many weeks of parental leave are there?", "16 weeks", True),
            Case("number", "How many weeks of parental leave are there?", "40", False),
            Case("number", "Within how many days must expenses be claimed?", "30 days", True),
            Case("number", "Within how many days must expenses be claimed?", "28 days", False),
            Case("number", "How many lockers does the parcel room have?", "40", True, read=True),
            Case("number", "How many lockers does the parcel room have?", "28", False, read=True),
            Case("time", "When does the canteen open?", "7:30", True),
            Case("time", "When does the canteen open?", "18:00", False),
            Case(
                "yes or no",
                "Are dogs allowed in the office?",
                "no",
                True,
                (("Are dogs allowed in the office?", "No, dogs are not allowed in the office."),),
            ),
            Case(
                "yes or no",
                "Are dogs allowed in the office?",
                "yes",
                False,
                (("Are dogs allowed in the office?", "Dogs are not allowed in the office."),),
            ),
            Case(
                "yes or no",
                "May bicycles be kept in the courtyard?",
                "yes",
                True,
                (("May bicycles be kept in the courtyard?", "Bicycles may be kept in the courtyard."),),
            ),
            Case(
                "yes or no",
                "May bicycles be kept in the courtyard?",
                "no",
                False,
                (("May bicycles be kept in the courtyard?", "Bicycles may be kept in the courtyard."),),
            ),
            Case(
                "yes or no",
                "May bicycles be kept in the lobby?",
                "yes",
                False,
                (("Where may bicycles be kept?", "in the courtyard"),),
            ),
            Case("word", "Where may bicycles be kept?", "courtyard", True),
            Case("word", "Where may bicycles be kept?", "office", False),
        ),
    ),
    Group(
        documents(
            (
                "Mila Torrun",
                "Mila Torrun was an engineer. She was born in Kestel in 1889 and died in Varn in 1961. "
                "She studied in Lund for 5 years. Her brother was the painter Oskar Torrun.",
            ),
            (
                "Orvane Bridge",
                "The Orvane Bridge was designed by Mila Torrun. The mayor Bo Lind opened it on 4 May 1931. "
                "It is 412 metres long and 18 metres wide. The bridge cost 3.2 million crowns.",
            ),
            ("Kestel", "Kestel is a town of 3,200 people on the Orr. Its market is held on Fridays."),
            ("Varn", "Varn is a port of 51,000 people. Its market is held on Mondays."),
        ),
        (
            Case("date", "When was Mila Torrun born?", "1889", True),
            Case("date", "When was Mila Torrun born?", "1931", False),
            Case("date", "When did Mila Torrun die?", "1961", True, read=True),
            Case("date", "When did Mila Torrun die?", "1931", False, read=True),
            Case("name", "Who designed the Orvane Bridge?", "Mila Torrun", True),
            Case("name", "Who designed the Orvane Bridge?", "Bo Lind", False),
            Case("name", "Who designed the Orvane Bridge?", "Oskar Torrun", False),
            Case("name", "Who opened the Orvane Bridge?", "Bo Lind", True),
            Case("date", "On which day was the Orvane Bridge opened?", "4 May 1931", True),
            Case("date", "On which day was the Orvane Bridge opened?", "May 1961", False),
            Case("number", "How long is the Orvane Bridge?", "412 metres", True),
            Case("number", "How long is the Orvane Bridge?", "18 metres", False),
            Case("number", "How wide is the Orvane Bridge?", "18", True),
            Case("number", "How wide is the Orvane Bridge?", "412", False),
            Case(
                "unit",
                "How long is the Orvane Bridge in kilometres?",
                "0.412 km",
                True,
                (("How long is the Orvane Bridge?", "412 metres"),),
            ),
            Case(
                "unit",
                "How long is the Orvane Bridge in kilometres?",
                "4.12 km",
                False,
                (("How long is the Orvane Bridge?", "412 metres"),),
            ),
            Case(
                "unit",
                "How long is the Orvane Bridge in feet?",
                "1,352 feet",
                True,
                (("How long is the Orvane Bridge?", "412 metres"),),
            ),
            Case(
                "unit",
                "How long is the Orvane Bridge in feet?",
                "1,236 feet",
                False,
                (("How long is the Orvane Bridge?", "412 metres"),),
            ),
            Case("number", "How many people live in Kestel?", "3,200", True),
            Case("number", "How many people live in Kestel?", "51,000", False),
            Case("number", "How many people live in Varn?", "51 000", True, read=True),
            Case("number", "How many people live in Varn?", "3,200", False, read=True),
            Case("word", "On which day is the market of Varn held?", "Mondays", True),
            Case("word", "On which day is the market of Varn held?", "Fridays", False),
            Case(
                "several hops",
                "How many people live in the town where the designer of the Orvane Bridge was born?",
                "3,200",
                True,
                (
                    ("Who designed the Orvane Bridge?", "Mila Torrun"),
                    ("Where was Mila Torrun born?", "Kestel"),
                    ("How many people live in Kestel?", "3,200"),
                ),
            ),
            Case(
                "several hops",
                "How many people live in the town where the designer of the Orvane Bridge was born?",
                "51,000",
                False,
                (
                    ("Who designed the Orvane Bridge?", "Mila Torrun"),
                    ("Where was Mila Torrun born?", "Kestel"),
                    ("How many people live in Kestel?", "51,000"),
                ),
            ),
            Case("several hops", "Where was the designer of the Orvane Bridge born?", "Kestel", True),
            Case("several hops", "Where was the designer of the Orvane Bridge born?", "Kestel", True, read=True),
            Case(
                "computed",
                "How old was Mila Torrun when she died?",
                "72",
                True,
                (("When was Mila Torrun born?", "1889"), ("When did Mila Torrun die?", "1961")),
            ),
            Case(
                "computed",
                "How old was Mila Torrun when she died?",
                "62",
                False,
                (("When was Mila Torrun born?", "1889"), ("When did Mila Torrun die?", "1961")),
            ),
            Case(
                "computed",
                "How many people live in Kestel and Varn together?",
                "54,200",
                True,
                (("How many people live in Kestel?", "3,200"), ("How many people live in Varn?", "51,000")),
            ),
            Case(
                "computed",
                "How many people live in Kestel and Varn together?",
                "64,200",
                False,
                (("How many people live in Kestel?", "3,200"), ("How many people live in Varn?", "51,000")),
            ),
            Case(
                "yes or no",
                "Was Mila Torrun born in Kestel?",
                "yes",
                True,
                (("Where was Mila Torrun born?", "Kestel"),),
            ),
            Case(
                "yes or no", "Was Mila Torrun born in Marn?", "yes", False, (("Where was Mila Torrun born?", "Kestel"),)
            ),
            Case(
                "yes or no", "Was Mila Torrun born in Marn?", "no", True, (("Where was Mila Torrun born?", "Kestel"),)
            ),
            Case(
                "yes or no",
                "Is the Orvane Bridge longer than the Tull Viaduct?",
                "yes",
                False,
                (("How long is the Orvane Bridge?", "412 metres"),),
            ),
        ),
    ),
    Group(
        documents(
            (
                "staff.csv",
                "Name: Mona Sharp; Office: Old Quay; Role: surveyor; Phone: 200\n"
                "Name: Dana Moss; Office: Harbour Row; Role: ranger; Phone: 201\n"
                "Name: Iris Moss; Office: Old Quay; Role: ranger; Phone: 207",
            ),
            (
                "stock.xlsx",
                "Item: lamp oil; Shelf: B2; In stock: 14; Price: 3.50\n"
                "Item: rope; Shelf: C4; In stock: 60; Price: 12.00\n"
                "Item: flares; Shelf: B2; In stock: 9; Price: 8.20",
            ),
        ),
        (
            Case("row", "What is the phone of Iris Moss?", "207", True),
            Case("row", "What is the phone of Iris Moss?", "201", False),
            Case("row", "What is the phone of Iris Moss?", "60", False),
            Case("row", "In which office does Dana Moss work?", "Harbour Row", True),
            Case("row", "In which office does Dana Moss work?", "Old Quay", False),
            Case("row", "How many flares are in stock?", "9", True),
            Case("row", "How many flares are in stock?", "14", False),
            Case("row", "How many flares are in stock?", "60", False, read=True),
            Case("row", "What is the price of rope?", "12.00", True),
            Case("row", "What is the price of rope?", "8.20", False),
            Case("row", "On which shelf is the lamp oil?", "B2", True),
            Case("row", "On which shelf is the lamp oil?", "C4", False),
            Case("row", "Which role has Mona Sharp?", "surveyor", True),
            Case("row", "Which role has Mona Sharp?", "ranger", False),
            Case("row", "On which shelf is the rope?", "Item", False),
            Case("row", "Which role has Dana Moss?", "Office", False),
        ),
    ),
    Group(
        documents(
            (
                "minutes-2025-09.md > Roof",
                "The committee met on 3 September 2025. Ana Brandt reported that the roof of the chapel leaks. "
                "Two offers came in: Holm & Sons ask 18,400 euros, Dachwerk asks 21,950 euros. "
                "The committee chose Dachwerk because work can start in October. Piet Vos abstained.",
            ),
            (
                "minutes-2025-09.md > Choir",
                "The choir has grown to 34 singers. Rehearsals move to Thursday evenings. "
                "Lena Fitz takes over as conductor from Piet Vos.",
            ),
            ("Summer fair", "The fair raised 2,310 euros in 2024 and 2,875 euros in 2025. It rained in neither year."),
        ),
        (
            Case("name", "Which company repairs the chapel roof?", "Dachwerk", True),
            Case("name", "Who is the new conductor of the choir?", "Lena Fitz", True),
            Case("name", "Who is the new conductor of the choir?", "Ana Brandt", False),
            Case("number", "How many singers does the choir have?", "34", True),
            Case("number", "How many singers does the choir have?", "18,400", False),
            Case("number", "What does Dachwerk ask?", "21,950 euros", True),
            Case("number", "What does Dachwerk ask?", "18,400 euros", False),
            Case("number", "How much did the fair raise in 2025?", "2,875 euros", True),
            Case("number", "How much did the fair raise in 2025?", "2,310 euros", False),
            Case("number", "How much did the fair raise in 2024?", "2,310", True, read=True),
            Case("number", "How much did the fair raise in 2024?", "21,950", False, read=True),
            Case(
                "computed",
                "By how much did the takings of the fair grow from 2024 to 2025?",
                "565 euros",
                True,
                (
                    ("How much did the fair raise in 2024?", "2,310 euros"),
                    ("How much did the fair raise in 2025?", "2,875 euros"),
                ),
            ),
            Case(
                "computed",
                "By how much did the takings of the fair grow from 2024 to 2025?",
                "655 euros",
                False,
                (
                    ("How much did the fair raise in 2024?", "2,310 euros"),
                    ("How much did the fair raise in 2025?", "2,875 euros"),
                ),
            ),
            Case(
                "yes or no",
                "Did it rain at the fair in 2025?",
                "no",
                True,
                (("Did it rain at the fair in 2025?", "It rained in neither year."),),
            ),
            Case(
                "yes or no",
                "Did it rain at the fair in 2025?",
                "yes",
                False,
                (("Did it rain at the fair in 2025?", "It rained in neither year."),),
            ),
            Case("word", "On which evening does the choir rehearse?", "Thursday", True),
            Case("word", "In which month does the work on the roof start?", "October", True),
            Case("word", "In which month does the work on the roof start?", "September", False),
            Case("date", "When did the committee meet?", "3 September 2025", True),
            Case("date", "When did the committee meet?", "2024", False),
        ),
    ),
    Group(
        documents(
            (
                "Pump P-40 data sheet",
                "Flow rate: 40 litres per minute. Maximum head: 12 m. Weight: 9.5 kg. Supply voltage: 230 V. "
                "The warranty covers 24 months. Do not run the pump dry for more than 30 seconds.",
            ),
            (
                "Pump P-60 data sheet",
                "Flow rate: 60 litres per minute. Maximum head: 18 m. Weight: 14.2 kg. Supply voltage: 400 V. "
                "The warranty covers 36 months.",
            ),
        ),
        (
            Case("number", "What is the flow rate of the P-40?", "40 litres per minute", True),
            Case("number", "What is the flow rate of the P-40?", "60 litres per minute", False),
            Case("number", "How heavy is the pump P-60?", "14.2 kg", True),
            Case("number", "How heavy is the pump P-60?", "9.5 kg", False),
            Case("number", "Which voltage does the P-40 need?", "230 V", True),
            Case("number", "Which voltage does the P-40 need?", "400 V", False),
            Case("number", "How long is the warranty of the P-60?", "36 months", True, read=True),
            Case("number", "How long is the warranty of the P-60?", "24 months", False, read=True),
            Case(
                "unit",
                "How many years is the warranty of the P-40?",
                "2 years",
                True,
                (("How long is the warranty of the P-40?", "24 months"),),
            ),
            Case(
                "unit",
                "How many years is the warranty of the P-40?",
                "3 years",
                False,
                (("How long is the warranty of the P-40?", "24 months"),),
            ),
            Case(
                "unit",
                "How many grams does the P-40 weigh?",
                "9,500 g",
                True,
                (("How much does the P-40 weigh?", "9.5 kg"),),
            ),
            Case(
                "unit",
                "How many grams does the P-40 weigh?",
                "950 g",
                False,
                (("How much does the P-40 weigh?", "9.5 kg"),),
            ),
            Case("number", "How many seconds may the P-40 run dry?", "30", True),
            Case("number", "How many seconds may the P-40 run dry?", "230", False),
            Case(
                "yes or no",
                "Is the P-60 heavier than the P-40?",
                "yes",
                True,
                (("How heavy is the P-40?", "9.5 kg"), ("How heavy is the P-60?", "14.2 kg")),
            ),
            Case(
                "yes or no",
                "Is the P-60 heavier than the P-80?",
                "yes",
                False,
                (("How heavy is the P-60?", "14.2 kg"),),
            ),
            Case("name", "Which pump has a warranty of 36 months?", "Pump P-60", True),
        ),
    ),
    Group(
        documents(
            (
                "Amoxen leaflet",
                "Adults take one tablet of 500 mg three times a day. Children under 12 take 250 mg. "
                "Store below 25 degrees. Amoxen must not be taken with alcohol. Treatment lasts 7 days.",
            ),
            ("Dolorin leaflet", "Adults take up to 400 mg every 6 hours. Dolorin may be taken with food."),
        ),
        (
            Case("number", "What dose of Amoxen do children take?", "250 mg", True),
            Case("number", "What dose of Amoxen do children take?", "500 mg", False),
            Case("number", "What dose of Amoxen do children take?", "400 mg", False),
            Case("number", "How long does a treatment with Amoxen last?", "7 days", True),
            Case("number", "How long does a treatment with Amoxen last?", "25", False),
            Case(
                "yes or no",
                "May Amoxen be taken with alcohol?",
                "no",
                True,
                (("May Amoxen be taken with alcohol?", "Amoxen must not be taken with alcohol."),),
            ),
            Case(
                "yes or no",
                "May Amoxen be taken with alcohol?",
                "yes",
                False,
                (("May Amoxen be taken with alcohol?", "Amoxen must not be taken with alcohol."),),
            ),
            Case(
                "yes or no",
                "May Dolorin be taken with food?",
                "yes",
                True,
                (("May Dolorin be taken with food?", "yes"),),
            ),
            Case(
                "yes or no",
                "May Amoxen be taken with food?",
                "yes",
                False,
                (("May Amoxen be taken with food?", "Dolorin may be taken with food."),),
            ),
            Case(
                "computed",
                "How many milligrams of Amoxen does an adult take a day?",
                "1,500 mg",
                True,
                (
                    ("How many milligrams has a tablet of Amoxen?", "500 mg"),
                    ("How many tablets of Amoxen does an adult take a day?", "three"),
                ),
            ),
        ),
    ),
    Group(
        documents(
            (
                "results.csv",
                "Team: Harwick; Played: 18; Won: 11; Points: 35\nTeam: Stanmoor; Played: 18; Won: 9; Points: 31\n"
                "Team: Ashby Vale; Played: 17; Won: 4; Points: 15",
            ),
            (
                "Stanmoor FC",
                "Stanmoor FC was founded in 1904 by dock workers. Its ground, Quayside, holds 8,600 people. "
                "The record attendance of 9,112 dates from 1951. Its captain is Joel Kemp.",
            ),
            (
                "Harwick Town",
                "Harwick Town was founded in 1911. Its ground holds 12,400 people. Rosa Lane is its trainer.",
            ),
        ),
        (
            Case("row", "How many points has Stanmoor?", "31", True),
            Case("row", "How many points has Stanmoor?", "35", False),
            Case("row", "How many games did Stanmoor win?", "9", True),
            Case("row", "How many games did Stanmoor win?", "18", False),
            Case("row", "Which team has 15 points?", "Ashby Vale", True),
            Case("row", "Which team has 15 points?", "Harwick", False),
            Case("number", "How many people does the ground of Stanmoor FC hold?", "8,600", True),
            Case("number", "How many people does the ground of Stanmoor FC hold?", "9,112", False),
            Case("number", "How many people does the ground of Stanmoor FC hold?", "12,400", False),
            Case("date", "In which year was Harwick Town founded?", "1911", True),
            Case("date", "In which year was Harwick Town founded?", "1904", False),
            Case("date", "When was the record attendance of Stanmoor FC?", "1951", True, read=True),
            Case("date", "When was the record attendance of Stanmoor FC?", "1911", False, read=True),
            Case("name", "Who is the captain of Stanmoor FC?", "Joel Kemp", True),
            Case("name", "Who is the captain of Stanmoor FC?", "Rosa Lane", False),
            Case("name", "who trains harwick town", "Rosa Lane", True),
            Case("name", "who trains harwick town", "Joel Kemp", False),
            Case(
                "computed",
                "How many years older is Stanmoor FC than Harwick Town?",
                "7",
                True,
                (("When was Stanmoor FC founded?", "1904"), ("When was Harwick Town founded?", "1911")),
            ),
            Case(
                "computed",
                "How many years older is Stanmoor FC than Harwick Town?",
                "17",
                False,
                (("When was Stanmoor FC founded?", "1904"), ("When was Harwick Town founded?", "1911")),
            ),
            Case(
                "several hops",
                "Who is the captain of the club that plays at Quayside?",
                "Joel Kemp",
                True,
                (("Which club plays at Quayside?", "Stanmoor FC"), ("Who is the captain of Stanmoor FC?", "Joel Kemp")),
            ),
        ),
    ),
)


class Cited(NamedTuple):
    """A sentence of a report and the quote it cites."""

    sentence: str
    title: str
    quote: str
    right: bool


BRIDGE = ("Orvane Bridge", "It was designed by Mila Torrun, opened in 1931 and carries 9,000 cars a day.")
LEAVE = ("Staff handbook", "Full-time staff receive 28 days of annual leave, part-time staff 14 days.")
BOILER = ("Boiler manual", "Check the pressure every month. It must stay between 1.2 and 1.8 bar.")
BUDGET = ("Budget 2026", "The board approved 84,000 pounds for the lock gates and 12,500 pounds for the towpath.")
ROW = ("staff.csv", "Name: Iris Moss; Office: Old Quay; Role: ranger; Phone: 207")
CITED = (
    Cited("The Orvane Bridge was designed by Mila Torrun.", *BRIDGE, True),
    Cited("The Orvane Bridge was financed by Mila Torrun.", *BRIDGE, False),
    Cited("The Orvane Bridge opened in 1931.", *BRIDGE, True),
    Cited("The Orvane Bridge collapsed in 1931.", *BRIDGE, False),
    Cited("The Orvane Bridge carries 9,000 cars a day.", *BRIDGE, True),
    Cited("The Orvane Bridge cost 9,000 crowns in 1931.", *BRIDGE, False),
    Cited("Every day, 9,000 cars cross the Orvane Bridge.", *BRIDGE, True),
    Cited("Full-time staff receive 28 days of annual leave.", *LEAVE, True),
    Cited("Full-time staff receive 14 days of annual leave.", *LEAVE, False),
    Cited("Part-time staff receive 28 days of annual leave.", *LEAVE, False),
    Cited("According to the staff handbook, full-time staff have 28 days of leave a year.", *LEAVE, True),
    Cited("Full-time staff do not receive 28 days of annual leave.", *LEAVE, False),
    Cited("The pressure of the boiler must stay between 1.2 and 1.8 bar.", *BOILER, True),
    Cited("The pressure of the boiler must be checked every year.", *BOILER, False),
    Cited("The boiler must be checked every month.", *BOILER, True),
    Cited("The board approved 84,000 pounds for the lock gates.", *BUDGET, True),
    Cited("The board approved 84,000 pounds for the towpath.", *BUDGET, False),
    Cited("The board approved 12,500 pounds for the towpath.", *BUDGET, True),
    Cited("The board refused 84,000 pounds for the lock gates.", *BUDGET, False),
    Cited("Iris Moss is a ranger at Old Quay.", *ROW, True),
    Cited("Iris Moss can be reached on phone 207.", *ROW, True),
    Cited("Iris Moss is the director of Old Quay.", *ROW, False),
)
