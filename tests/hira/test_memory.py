"""The dual-channel memory and the tolerant reading of JSON, by themselves."""

import pytest

from subquest.protocol.loose_json import find_object
from subquest.systems.hira.memory import Memory, rendered


def test_facts_keep_their_source_and_their_order():
    memory = Memory()
    memory.add_fact("Kelm lies on the Ostel. [Source: http://a.test/kelm]")
    memory.add_fact("The mayor is Ida Brandt [source: page 2 of report.pdf].")
    memory.add_resource("Table of towns", "towns.csv")
    assert [(e.text, e.source) for e in memory.entries] == [
        ("Kelm lies on the Ostel.", "http://a.test/kelm"),
        ("The mayor is Ida Brandt", "page 2 of report.pdf"),
        ("Table of towns", "towns.csv"),
    ]
    assert rendered(memory.entries).splitlines()[0] == (
        "Memory Fact 1: Kelm lies on the Ostel. [Source: http://a.test/kelm]"
    )


def test_facts_that_say_the_same_from_the_same_source_are_merged():
    memory = Memory()
    memory.add_fact("Kelm has 1200 inhabitants [Source: http://a.test/]")
    assert memory.add_fact("Kelm has 1200 inhabitants in all [Source: http://a.test/]") is not None
    assert [e.text for e in memory.entries] == ["Kelm has 1200 inhabitants in all"]
    memory.add_fact("Kelm has 1200 inhabitants [Source: http://b.test/]")
    memory.add_fact("Kelm has 1300 inhabitants [Source: http://a.test/]")
    assert len(memory.entries) == 3


def test_facts_of_one_page_that_are_worded_alike_are_all_kept():
    facts = [
        "Alva Renn was born in Kestel",
        "Bruno Hask was born in Kestel",
        "The Orvane Bridge was designed by Mila Torrun",
        "The Orvane Bridge was rebuilt by Mila Torrun",
        "The bridge is open",
        "The bridge is not open",
    ]
    memory = Memory()
    for fact in facts:
        memory.add_fact(f"{fact} [Source: http://a.test/]")
    assert [e.text for e in memory.entries] == facts
    assert memory.add_fact("Mila Torrun designed the Orvane Bridge [Source: http://a.test/]") is None


@pytest.mark.parametrize("place", ["http:///nowhere", "http://a b.test/", "http://dead.test/"])
def test_facts_from_invalid_urls_are_kept_out(place):
    memory = Memory(lambda url: "dead" in url)
    assert memory.add_fact(f"Kelm lies on the Ostel [Source: {place}]") is None
    assert memory.add_fact("") is None
    assert memory.entries == []


@pytest.mark.parametrize(
    "fact",
    [
        "The first attempts to climb Everest failed in 1922",
        "Maybe is a musical film of 1930",
        "The Likely Lads was first shown in 1964",
        "The album was not available outside Japan until 1998",
        "The code of the first Ariane 5 failed because of an overflow",
        "The bridge failed in 1940",
        "The error rate is 5%",
    ],
)
def test_no_rule_looks_into_a_fact(fact):
    """What is a fact and what the expert's own failure or guess is for the coordinator's model to tell."""
    memory = Memory()
    assert memory.add_fact(f"{fact} [Source: https://example.com/a]") is not None
    assert memory.chosen("Memory Fact 1", 5) == memory.entries
    assert memory.relevant(fact, 5) == memory.entries


def test_invalid_resources_are_kept_out():
    memory = Memory(lambda url: "dead" in url)
    assert memory.add_resource("Map", "http://dead.test/map") is None
    assert memory.add_resource("Map", "ftp://a.test/map") is None
    assert memory.add_resource("Map", "") is None
    assert memory.add_resource("Table", "df_towns") is not None


def filled():
    memory = Memory()
    for n in range(1, 9):
        memory.add_fact(f"Town number {n} of the district has the mayor named Person{n} [Source: http://t{n}.test/]")
    return memory


def test_a_reply_chooses_entries_by_number_or_words_and_memory_keeps_its_order():
    memory = filled()
    reply = "Memory Fact 5: \nMemory Fact 2: Town number 2 of the district has the mayor named Person2"
    assert [e.source for e in memory.chosen(reply, 5) or []] == ["http://t2.test/", "http://t5.test/"]


def test_a_reply_is_cut_to_the_limit_and_cannot_add_anything():
    memory = filled()
    reply = "\n".join(f"Memory Fact {n}" for n in range(8, 0, -1)) + "\nMemory Fact 99: The moon is made of cheese"
    chosen = memory.chosen(reply, 5) or []
    assert [e.source for e in chosen] == [f"http://t{n}.test/" for n in (4, 5, 6, 7, 8)]


def test_none_is_a_choice_and_nonsense_is_not():
    memory = filled()
    assert memory.chosen("none", 5) == []
    assert memory.chosen("I am a language model.", 5) is None


def test_without_a_usable_reply_words_decide():
    memory = filled()
    memory.add_fact("Bananas are yellow [Source: http://fruit.test/]")
    relevant = memory.relevant("Who is the mayor of town number 3?", 5)
    assert len(relevant) == 5
    assert all("mayor" in e.text for e in relevant)
    assert relevant == [e for e in memory.entries if e in relevant]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}', {"a": 1}),
        ('Sure:\n```json\n{"a": [1, 2,],}\n```', {"a": [1, 2]}),
        ("{'a': 'it is', 'b': True}", {"a": "it is", "b": True}),
        ('{"a": {"b": "cut off her', {"a": {"b": "cut off her"}}),
        ('{"plan": ["x", # first\n "y"]}', {"plan": ["x", "y"]}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('{not json} then {"a": 2}', {"a": 2}),
        ("no object", {}),
        ("", {}),
        ("[1, 2]", {}),
        ("{" * 5000, {}),
    ],
)
def test_json_is_read_tolerantly(text, expected):
    assert find_object(text) == expected
