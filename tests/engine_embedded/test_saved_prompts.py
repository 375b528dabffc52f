"""Prompts of roles are read once per machine: the same tokens, whatever happens to the files."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from subquest.engine import Message, Sampling
from subquest.engine.adapter import Lora, Shape, write_gguf
from subquest.engine.embedded import EmbeddedEngine
from subquest.engine.embedded.saved_prompts import SavedPrompts
from subquest.models import smollm2_path
from subquest.record import Segment

ROLE = "You answer questions about rivers, bridges and the towns beside them, in one short sentence. " * 5
IDS = list(range(100))


def prompts(folder: Path, identity: str = "a model", room: int = 10_000) -> SavedPrompts:
    return SavedPrompts(lambda: identity, folder=folder, room=room)


def test_states_are_found_by_model_and_tokens(tmp_path: Path) -> None:
    one = prompts(tmp_path)
    assert one.load(IDS) is None
    one.save(IDS, b"state")
    assert one.load(IDS) == prompts(tmp_path).load(IDS) == b"state"
    assert one.load(IDS[:-1]) is None
    assert prompts(tmp_path, "another model").load(IDS) is None


@pytest.mark.parametrize("damage", [b"", b"short", b"subquest prompt 1\n" + bytes(200)])
def test_a_file_that_is_damaged_is_removed_and_written_again(tmp_path: Path, damage: bytes) -> None:
    one = prompts(tmp_path)
    one.save(IDS, b"state")
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage)
    assert one.load(IDS) is None
    assert not path.exists()
    one.save(IDS, b"state")
    assert one.load(IDS) == b"state"


def test_a_file_of_another_model_under_this_name_is_not_taken(tmp_path: Path) -> None:
    one, other = prompts(tmp_path / "one"), prompts(tmp_path / "other", "another model")
    one.save(IDS, b"state")
    other.save(IDS, b"foreign")
    (mine,), (theirs,) = (tmp_path / "one").iterdir(), (tmp_path / "other").iterdir()
    mine.write_bytes(theirs.read_bytes())
    assert one.load(IDS) is None


def test_the_room_is_bounded_and_what_was_unused_for_longest_leaves(tmp_path: Path) -> None:
    one = prompts(tmp_path, room=3_500)
    for n in range(3):
        one.save([n], bytes(1_000))
        os.utime(sorted(tmp_path.iterdir(), key=lambda p: p.stat().st_mtime_ns)[-1], (n, n))
    assert one.load([0]) is not None, "used now, so it stays"
    one.save([3], bytes(1_000))
    assert [one.load([n]) is not None for n in range(4)] == [True, False, True, True]
    one.save([4], bytes(5_000))
    assert one.load([4]) is None, "larger than all the room"
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 3_500


def test_many_writers_leave_whole_files(tmp_path: Path) -> None:
    def work(n: int) -> None:
        mine = prompts(tmp_path, room=20_000)
        for turn in range(30):
            ids = [turn % 5]
            found = mine.load(ids)
            assert found is None or found == bytes([ids[0]]) * 3_000
            mine.save(ids, bytes([ids[0]]) * 3_000)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {path.suffix for path in tmp_path.iterdir()} == {".kv"}


def test_a_folder_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    one = prompts(tmp_path / "file")
    one.save(IDS, b"state")
    assert one.load(IDS) is None


@pytest.mark.slow
@pytest.mark.embedded
@pytest.mark.usefixtures("_model_file")
async def test_a_second_process_does_not_read_the_prompt_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn after a restored prompt is the turn after reading it, to the bit; also after the file was damaged."""
    models = tmp_path / "models"
    models.symlink_to(smollm2_path().parent)
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path))

    async def ask(question: str, *more: Message) -> tuple[Segment, int]:
        engine = EmbeddedEngine(threads=1, context=1024)
        session = await engine.open([Message("system", ROLE, shared=True), Message("user", question), *more])
        turn = await session.generate(Sampling(max_tokens=6))
        await session.close()
        await engine.close()
        return session.segments[-1], turn.usage.cached_tokens

    cold, none = await ask("Which river runs through Kestel?")
    (saved,) = (tmp_path / "prompts").iterdir()
    warm, cached = await ask("Which river runs through Kestel?")
    assert none == 0
    assert cached > 64
    assert (warm.token_ids, warm.logprobs) == (cold.token_ids, cold.logprobs)
    _, shared = await ask("Who built the bridge?")
    assert shared == cached, "another question has the same role"
    _, shared = await ask("Who built it?", Message("assistant", "I look it up."), Message("user", "Ann did."))
    assert shared == cached, "and so has one with more behind it"
    assert [saved] == list((tmp_path / "prompts").iterdir()), "and no question is saved"
    saved.write_bytes(saved.read_bytes()[:-1])
    again, none = await ask("Which river runs through Kestel?")
    assert none == 0
    assert again.token_ids == cold.token_ids
    _, cached = await ask("Which river runs through Kestel?")
    assert cached == shared


@pytest.mark.slow
@pytest.mark.embedded
@pytest.mark.usefixtures("_model_file")
async def test_a_prompt_that_was_read_with_another_adapter_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The adapter's content counts, not its name: a file that was trained on keeps it."""
    file, adapter = smollm2_path(), tmp_path / "adapter.gguf"
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path / "cache"))

    async def cached(lora: Path) -> int:
        engine = EmbeddedEngine(file, adapter=lora, threads=1, context=256)
        session = await engine.open([Message("system", ROLE), Message("user", "Which river runs through Kestel?")])
        turn = await session.generate(Sampling(max_tokens=1))
        await engine.close()
        return turn.usage.cached_tokens

    for seed, restored in ((1, True), (2, False)):
        a, b = np.random.default_rng(seed).normal(0, 0.1, (2, 8, 576)).astype(np.float32)
        lora = Lora({"model.layers.0.self_attn.q_proj": (a, b.T)}, alpha=8.0)
        write_gguf(lora, adapter, Shape("llama", heads=9, kv_heads=3))
        assert await cached(adapter) == 0
        assert not restored or await cached(adapter) > 64
