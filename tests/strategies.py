"""Hypothesis strategies for every record, from hostile text to trees of contexts."""

from __future__ import annotations

from hypothesis import strategies as st

from subquest.events import EVENT_KINDS, Event
from subquest.record import Document, Episode, Evidence, Failure, Hit, Question, Segment, Step, Trajectory, Usage

texts = st.text(max_size=30) | st.sampled_from(
    ["", "\x00", "\ud800", "<result>", "line\nline\r\n", "$", "</documents>" * 9, "é" * 60, "\u2028", "a. b. " * 20]
)
floats = st.floats(allow_nan=False, width=64) | st.floats(allow_nan=False, width=32)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | texts,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(texts | st.sampled_from(["$", "$n", "$$"]), inner, max_size=3)
    ),
    max_leaves=8,
)
metas = st.dictionaries(texts, json_values, max_size=3)
counts = st.integers(0, 10**6)

documents = st.builds(Document, texts, texts, texts, metas)
hits = st.builds(Hit, documents, floats)
steps = st.builds(Step, texts, texts, texts)
questions = st.builds(
    Question,
    id=texts,
    question=texts,
    answers=st.lists(texts, max_size=3).map(tuple),
    dataset=texts,
    split=texts,
    hops=st.none() | st.integers(0, 9),
    type=texts,
    supporting_titles=st.lists(texts, max_size=2).map(tuple),
    decomposition=st.lists(steps, max_size=3).map(tuple),
    files=st.lists(texts, max_size=1).map(tuple),
    meta=metas,
)
usages = st.builds(Usage, counts, counts, counts, counts, counts, counts, counts, floats, floats)


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    kind = draw(st.sampled_from(["prompt", "agent", "env"]))
    ids = draw(st.lists(st.integers(0, 70_000), max_size=40).map(tuple))
    logprobs = None
    if kind == "agent" and draw(st.booleans()):
        logprobs = tuple(draw(st.lists(floats, min_size=len(ids), max_size=len(ids))))
    policy = draw(st.none() | st.integers(0, 9))
    return Segment(kind, draw(texts), ids, logprobs, draw(texts), policy)


@st.composite
def trajectories(draw: st.DrawFn) -> tuple[Trajectory, ...]:
    """A forest: each context after the one that asked for it."""
    out: list[Trajectory] = []
    for number in range(draw(st.integers(0, 5))):
        parent = draw(st.sampled_from([None, *(t.id for t in out)]))
        out.append(
            Trajectory(
                id=str(number),
                role=draw(texts),
                task=draw(texts),
                parent=parent,
                segments=tuple(draw(st.lists(segments(), max_size=4))),
                stop_reason=draw(texts),
                result=draw(texts),
                forced=draw(st.booleans()),
                usage=draw(usages),
                model=draw(texts),
                format_errors=tuple(draw(st.lists(texts, max_size=2))),
            )
        )
    return tuple(out)


events = st.builds(Event, counts, st.sampled_from(EVENT_KINDS), floats, texts, metas)
evidence = st.builds(Evidence, texts, texts, texts, counts, texts, texts)
failures = st.builds(Failure, texts, texts, texts, st.booleans())
episodes = st.builds(
    Episode,
    id=st.uuids().map(str),
    question=questions,
    system=texts,
    model=texts,
    trajectories=trajectories(),
    answer=texts,
    evidence=st.lists(evidence, max_size=2).map(tuple),
    confidence=st.none() | floats,
    stop_reason=texts,
    forced=st.booleans(),
    usage=usages,
    errors=st.lists(failures, max_size=2).map(tuple),
    events=st.lists(events, max_size=4).map(tuple),
    rewards=st.dictionaries(texts, floats, max_size=2),
    settings=metas,
    seed=st.none() | st.integers(),
    supported=st.none() | st.booleans(),
    parts_supported=st.booleans(),
)
