from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from subquest.errors import DataError, UsageError
from subquest.record import Episode
from subquest.runs import RunStore
from subquest.runs.jsonl import export_run, import_run

from ..strategies import episodes as any_episodes
from .samples import episode, question


def exported(path: Path) -> str:
    out = io.StringIO()
    with RunStore.open(path) as run:
        export_run(run, out)
    return out.getvalue()


def full_run(path: Path) -> None:
    with RunStore.create(path, settings={"system": "coda", "k": 3}) as run:
        run.add_questions([question(9), question(1)])
        for n in range(3):
            run.add_episode(episode(f"e{n}", n), attempt=n)
        for event in episode("cut").events[:2]:
            run.add_event("cut", event)
        run.add_scores("e1", {"em": 1.0, "f1": math.nan})
        run.add_metrics(3, {"loss": 0.5, "kl": math.inf})


def test_nothing_is_lost_on_the_way(tmp_path: Path) -> None:
    full_run(tmp_path / "a.sqlite")
    text = exported(tmp_path / "a.sqlite")
    (tmp_path / "a.jsonl").write_text(text, encoding="utf-8")
    assert import_run(tmp_path / "a.jsonl", tmp_path / "b.sqlite") == 3
    assert exported(tmp_path / "b.sqlite") == text
    with RunStore.open(tmp_path / "a.sqlite") as a, RunStore.open(tmp_path / "b.sqlite") as b:
        assert list(a.episodes()) == list(b.episodes()) == [episode(f"e{n}", n) for n in range(3)]
        assert list(a.summaries()) == list(b.summaries())
        assert list(a.questions()) == list(b.questions())
        assert a.interrupted() == b.interrupted() == ["cut"]
        assert a.events("cut") == b.events("cut")
        assert a.meta() == b.meta()
        assert a.metrics() == b.metrics()
        assert repr(a.scores()) == repr(b.scores())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jsonl", "a.sqlite", "b.sqlite"]


@pytest.mark.slow
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=25, deadline=None
)
@given(st.lists(any_episodes, max_size=2, unique_by=lambda e: e.id))
def test_any_episode_travels(tmp_path: Path, made: list[Episode]) -> None:
    for name in ("a.sqlite", "a.jsonl", "b.sqlite"):
        (tmp_path / name).unlink(missing_ok=True)
    with RunStore.create(tmp_path / "a.sqlite") as run:
        for e in made:
            run.add_episode(e)
    (tmp_path / "a.jsonl").write_text(exported(tmp_path / "a.sqlite"), encoding="utf-8")
    import_run(tmp_path / "a.jsonl", tmp_path / "b.sqlite")
    with RunStore.open(tmp_path / "b.sqlite") as run:
        assert list(run.episodes()) == made


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"type": "episode", "att', "not JSON"),
        ("[1, 2]", "expected an object"),
        ('{"type": "surprise"}', "not an entry of an exported run (type 'surprise')"),
        ('{"type": "question", "question": {"id": "q"}}', "Question: missing key 'question'"),
        (
            '{"type": "events", "episode": "x", "events": [{"seq": 4, "kind": "turn", "time": 0}]}',
            "got event 4, expected 0",
        ),
        ('{"type": "scores", "episode": "e1", "scores": {"em": "x"}}', "em must be a number, not 'x'"),
        ('{"type": "scores", "episode": "e1", "scores": {"em": null}}', "em must be a number, not None"),
        ('{"type": "metrics", "step": 1, "metrics": {"loss": [1]}}', "loss must be a number, not [1]"),
        ("DUPLICATE", "already has an episode 'e1'"),
    ],
)
def test_a_wrong_line_is_named_and_no_run_is_made(tmp_path: Path, line: str, message: str) -> None:
    full_run(tmp_path / "a.sqlite")
    lines = exported(tmp_path / "a.sqlite").splitlines()
    if line == "DUPLICATE":
        line = next(text for text in lines if '"id":"e1"' in text)
    lines.append(line)
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(DataError) as caught:
        import_run(tmp_path / "a.jsonl", tmp_path / "b.sqlite")
    assert f"{tmp_path / 'a.jsonl'}:{len(lines)}: " in str(caught.value)
    assert message in str(caught.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jsonl", "a.sqlite"]


def test_other_files_are_refused(tmp_path: Path) -> None:
    source, target = tmp_path / "x.jsonl", tmp_path / "b.sqlite"
    with pytest.raises(UsageError, match="cannot read"):
        import_run(source, target)
    source.write_text("")
    with pytest.raises(DataError, match="not an exported run"):
        import_run(source, target)
    source.write_text('{"id": "q1", "question": "who?"}\n')
    with pytest.raises(DataError, match=r"x\.jsonl:1: this is not an exported run"):
        import_run(source, target)
    source.write_text(json.dumps({"type": "run", "format": 99, "settings": {}}))
    with pytest.raises(DataError, match="does not know run format 99"):
        import_run(source, target)
    source.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="not UTF-8 text"):
        import_run(source, target)
    source.write_text(json.dumps({"type": "run", "format": 1, "settings": {}}))
    assert import_run(source, tmp_path / "empty.sqlite") == 0
    with RunStore.open(tmp_path / "empty.sqlite") as run:
        assert (run.settings, run.created) == ({}, 0.0)
    target.write_text("precious")
    with pytest.raises(UsageError, match="already exists"):
        import_run(source, target)
    assert target.read_text() == "precious"
