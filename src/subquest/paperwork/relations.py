"""What can be said of the things in an organisation, in plain words that a model then rewords."""

from __future__ import annotations

from typing import NamedTuple


class Relation(NamedTuple):
    """One kind of fact. `{s}` is its subject, `{v}` its value."""

    subject: str
    """Kind of the subject."""
    name: str
    """As a column of a table has it."""
    value: str
    """A kind of thing, or word, date, money, number."""
    statement: str
    noun: str
    """The value, described by its subject."""
    question: str
    inverse: str = ""
    """The subject, described by its value; empty where nobody would look for it that way."""
    inverse_question: str = ""


_TABLE = (
    Relation("person", "job title", "word", "{s} has the job title {v}.", "the job title of {s}",
             "What is the job title of {s}?"),
    Relation("person", "team", "team", "{s} works in the {v} team.", "the team in which {s} works",
             "In which team does {s} work?", "the people in the {s} team", "Which people work in the {s} team?"),
    Relation("person", "site", "site", "{s} is based at {v}.", "the site where {s} is based",
             "At which site is {s} based?", "the people based at {s}", "Which people are based at {s}?"),
    Relation("person", "extension", "number", "The telephone extension of {s} is {v}.",
             "the telephone extension of {s}", "What is the telephone extension of {s}?",
             "the person whose telephone extension is {s}", "Which person has the telephone extension {s}?"),
    Relation("person", "line manager", "person", "{s} reports to {v}.", "the line manager of {s}",
             "Who is the line manager of {s}?"),
    Relation("person", "joined", "date", "{s} joined on {v}.", "the date on which {s} joined", "When did {s} join?"),
    Relation("team", "head", "person", "The {s} team is headed by {v}.", "the head of the {s} team",
             "Who is the head of the {s} team?"),
    Relation("team", "annual budget", "money", "The annual budget of the {s} team is {v}.",
             "the annual budget of the {s} team", "What is the annual budget of the {s} team?"),
    Relation("site", "manager", "person", "{s} is managed by {v}.", "the manager of {s}", "Who manages {s}?",
             "the site managed by {s}", "Which site does {s} manage?"),
    Relation("site", "opened", "date", "{s} opened on {v}.", "the opening date of {s}", "When did {s} open?"),
    Relation("site", "floor area in square metres", "number", "{s} has a floor area of {v} square metres.",
             "the floor area of {s} in square metres", "What is the floor area of {s} in square metres?"),
    Relation("supplier", "town", "town", "{s} has its head office in {v}.", "the town of the head office of {s}",
             "In which town is the head office of {s}?"),
    Relation("supplier", "account manager", "person", "The account manager at {s} is {v}.",
             "the account manager at {s}", "Who is the account manager at {s}?"),
    Relation("supplier", "delivery time in days", "number", "{s} delivers within {v} days.",
             "the delivery time of {s} in days", "Within how many days does {s} deliver?"),
    Relation("contract", "supplier", "supplier", "The contract {s} is with {v}.", "the supplier under contract {s}",
             "With which supplier is the contract {s}?", "the contract with {s}", "Which contract is with {s}?"),
    Relation("contract", "owner", "person", "The owner of contract {s} on our side is {v}.",
             "the owner of contract {s}", "Who is the owner of contract {s}?",
             "the contract owned by {s}", "Which contract does {s} own?"),
    Relation("contract", "annual value", "money", "The annual value of contract {s} is {v}.",
             "the annual value of contract {s}", "What is the annual value of contract {s}?"),
    Relation("contract", "ends", "date", "The contract {s} ends on {v}.", "the end date of contract {s}",
             "When does the contract {s} end?"),
    Relation("contract", "notice period in days", "number", "The notice period of contract {s} is {v} days.",
             "the notice period of contract {s} in days", "How many days is the notice period of contract {s}?"),
    Relation("equipment", "what it is", "word", "The item {s} is a {v}.", "the kind of item {s}",
             "What kind of equipment is {s}?"),
    Relation("equipment", "site", "site", "The item {s} is kept at {v}.", "the site where item {s} is kept",
             "At which site is item {s} kept?", "the equipment kept at {s}", "Which items are kept at {s}?"),
    Relation("equipment", "supplier", "supplier", "The item {s} was supplied by {v}.",
             "the supplier of item {s}", "Who supplied item {s}?",
             "the equipment supplied by {s}", "Which items did {s} supply?"),
    Relation("equipment", "bought", "date", "The item {s} was bought on {v}.",
             "the date on which item {s} was bought", "When was item {s} bought?"),
    Relation("equipment", "price", "money", "The price of item {s} was {v}.", "the price of item {s}",
             "What was the price of item {s}?"),
    Relation("incident", "item", "equipment", "The incident {s} concerned the item {v}.",
             "the item that incident {s} concerned", "Which item did incident {s} concern?",
             "the incident with item {s}", "Which incident concerned item {s}?"),
    Relation("incident", "date", "date", "The incident {s} happened on {v}.", "the date of incident {s}",
             "When did incident {s} happen?", "the incident of {s}", "Which incident happened on {s}?"),
    Relation("incident", "reported by", "person", "The incident {s} was reported by {v}.",
             "the person who reported incident {s}", "Who reported incident {s}?",
             "the incident reported by {s}", "Which incident did {s} report?"),
    Relation("incident", "investigator", "person", "The investigator of incident {s} was {v}.",
             "the investigator of incident {s}", "Who was the investigator of incident {s}?"),
    Relation("incident", "cost", "money", "The incident {s} cost {v}.", "the cost of incident {s}",
             "How much did incident {s} cost?"),
    Relation("incident", "closed", "date", "The case {s} was closed on {v}.",
             "the date on which case {s} was closed", "When was case {s} closed?"),
    Relation("project", "lead", "person", "{s} is led by {v}.", "the lead of {s}", "Who leads {s}?",
             "the project led by {s}", "Which project does {s} lead?"),
    Relation("project", "budget", "money", "The budget of {s} is {v}.", "the budget of {s}",
             "What is the budget of {s}?"),
    Relation("project", "deadline", "date", "{s} must be finished by {v}.", "the deadline of {s}",
             "What is the deadline of {s}?"),
    Relation("project", "partner", "supplier", "The partner in {s} is {v}.", "the partner in {s}",
             "Which company is the partner in {s}?", "the project with {s} as partner",
             "In which project is {s} the partner?"),
    Relation("policy", "author", "person", "{s} was written by {v}.", "the author of {s}", "Who wrote {s}?"),
    Relation("policy", "in force since", "date", "{s} has been in force since {v}.",
             "the date since which {s} has been in force", "Since when has {s} been in force?"),
    Relation("policy", "approval limit", "money", "{s} sets an approval limit of {v}.", "the approval limit in {s}",
             "What approval limit does {s} set?"),
    Relation("policy", "owner", "team", "{s} is owned by the {v} team.", "the team that owns {s}",
             "Which team owns {s}?"),
)  # fmt: skip

RELATIONS = {(r.subject, r.name): r for r in _TABLE}
KINDS = tuple(dict.fromkeys(r.subject for r in _TABLE))
MEASURES = ("date", "money", "number")
"""Kinds of value that can be compared."""


def of_kind(kind: str) -> list[Relation]:
    """What can be said of a kind of thing."""
    return [relation for relation in _TABLE if relation.subject == kind]
