"""Adapters: the same numbers in both forms, and the same log-probs in llama.cpp as with the weights merged by hand."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from subquest import models
from subquest.assemble.engines import EngineOptions, open_engine
from subquest.cli import main
from subquest.codec import to_dict
from subquest.engine import adapter
from subquest.engine.adapter import Lora, Shape
from subquest.engine.adapter_base import check_base
from subquest.engine.embedded import EmbeddedEngine
from subquest.engine.embedded.adapter_difference import TEXTS, distance, log_probs
from subquest.engine.embedded.llama_cpp import open_library
from subquest.engine.embedded.model import Model
from subquest.engine.embedded.quantised import embedded_files, merged_files, quantise, quantised_copy
from subquest.engine.safetensors_file import from_bfloat16, read_safetensors, write_safetensors
from subquest.errors import DataError, UsageError
from subquest.metrics.confidence import Calibrations, Measured, calibration_place, own_calibration
from subquest.models import smollm2_path
from subquest.runtime.prompts import prompt_set_of

SMOLLM2 = Shape("llama", heads=9, kv_heads=3)
ROWS = {
    "self_attn.q_proj": (576, 576),
    "self_attn.k_proj": (192, 576),
    "self_attn.v_proj": (192, 576),
    "self_attn.o_proj": (576, 576),
    "mlp.gate_proj": (1536, 576),
    "mlp.up_proj": (1536, 576),
    "mlp.down_proj": (576, 1536),
}
"""[out, in] of SmolLM2-135M's weights."""


def random_lora(targets: tuple[str, ...] = tuple(ROWS), layers: int = 30, rank: int = 4) -> Lora:
    random = np.random.default_rng(3)
    pairs = {}
    for layer in range(layers):
        for target in targets:
            out, width = ROWS[target]
            size = 0.1 if target in ("self_attn.q_proj", "self_attn.k_proj") else 0.05
            a, b = random.normal(0, size, (rank, width)), random.normal(0, size, (out, rank))
            pairs[f"model.layers.{layer}.{target}"] = (a.astype(np.float32), b.astype(np.float32))
    return Lora(pairs, alpha=8.0)


def same(one: Lora, two: Lora) -> bool:
    return (
        one.alpha == two.alpha
        and one.pairs.keys() == two.pairs.keys()
        and all(
            np.array_equal(x, y) for name in one.pairs for x, y in zip(one.pairs[name], two.pairs[name], strict=True)
        )
    )


def test_row_order_of_one_head_by_hand() -> None:
    """Two heads of four rows: llama.cpp turns rows (0, 1) and (2, 3) together, Hugging Face rows (0, 2) and (1, 3)."""
    rows = np.arange(8, dtype=np.float32).reshape(8, 1)
    assert adapter.reorder(rows, heads=2)[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
    assert np.array_equal(adapter.restore(adapter.reorder(rows, 2), 2), rows)


def test_delta_is_scaled_b_times_a() -> None:
    lora = Lora({"m": (np.array([[1.0, 2.0]], np.float32), np.array([[3.0], [4.0]], np.float32))}, alpha=2.0)
    assert lora.delta("m").tolist() == [[6.0, 12.0], [8.0, 16.0]]


def test_round_trip_through_both_forms(tmp_path: Path) -> None:
    lora = random_lora(layers=2)
    adapter.write_peft(lora, tmp_path / "peft")
    read = adapter.read_peft(tmp_path / "peft")
    assert same(read, lora)
    adapter.write_gguf(read, tmp_path / "a.gguf", SMOLLM2)
    assert same(adapter.read_gguf(tmp_path / "a.gguf", SMOLLM2), lora)
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["a.gguf", "peft"]


def test_safetensors_are_those_of_the_library(tmp_path: Path) -> None:
    torch_files = pytest.importorskip("safetensors.torch")
    import torch

    tensors = {"x": torch.arange(6).reshape(2, 3).float() / 7, "y": torch.tensor([1e-3, -2.5]).bfloat16()}
    torch_files.save_file(tensors, tmp_path / "t.safetensors")
    read = read_safetensors(tmp_path / "t.safetensors")
    assert np.array_equal(read["x"], tensors["x"].numpy())
    assert read["y"].dtype == np.float16
    assert np.array_equal(read["y"].astype(np.float32), tensors["y"].float().numpy())
    write_safetensors(tmp_path / "u.safetensors", read)
    again = torch_files.load_file(tmp_path / "u.safetensors")
    assert torch.equal(again["x"], tensors["x"])
    assert from_bfloat16(torch.tensor([1e30]).bfloat16().view(torch.uint16).numpy()).dtype == np.float32


def test_rank_stabilised_adapters_keep_their_scale(tmp_path: Path) -> None:
    adapter.write_peft(random_lora(layers=1), tmp_path)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    (tmp_path / "adapter_config.json").write_text(json.dumps({**config, "use_rslora": True}))
    assert adapter.read_peft(tmp_path).alpha == 16.0  # alpha / sqrt(4) = 4 = 16 / 4


def test_what_cannot_be_converted_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a LoRA adapter"):
        adapter.read_peft(tmp_path)
    adapter.write_peft(random_lora(layers=1), tmp_path)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    (tmp_path / "adapter_config.json").write_text(json.dumps({**config, "use_dora": True}))
    with pytest.raises(DataError, match="use_dora"):
        adapter.read_peft(tmp_path)
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    (tmp_path / "adapter_model.safetensors").write_bytes(b"short")
    with pytest.raises(DataError, match="safetensors"):
        adapter.read_peft(tmp_path)
    with pytest.raises(DataError, match="lm_head"):
        adapter.gguf_name("lm_head")
    with pytest.raises(UsageError, match="mamba"):
        Shape("mamba", 1, 1)
    with pytest.raises(UsageError, match="192 rows cannot be 5 heads; name its own with --base"):
        adapter.write_gguf(random_lora(layers=1), tmp_path / "a.gguf", Shape("llama", heads=9, kv_heads=5))
    assert not list(tmp_path.glob("*.gguf*"))


def test_the_command_converts_both_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {"model_type": "llama", "num_attention_heads": 9, "num_key_value_heads": 3}
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").write_text(json.dumps(config))
    lora = random_lora(layers=1)
    adapter.write_peft(lora, tmp_path / "peft")
    base = ["--base", str(tmp_path / "base"), "--json"]
    convert = ["model", "adapter", "convert"]
    assert main([*convert, str(tmp_path / "peft"), str(tmp_path / "a.gguf"), *base]) == 0
    assert json.loads(capsys.readouterr().out)["rank"] == 4
    assert main([*convert, str(tmp_path / "a.gguf"), str(tmp_path / "back"), *base]) == 0
    assert same(adapter.read_peft(tmp_path / "back"), lora)
    learnt = tmp_path / "learnt.gguf"
    assert main([*convert, str(tmp_path / "peft"), str(learnt), "--prompts", "full+abstain+no-refine", *base]) == 0
    assert adapter.prompt_set_of(learnt) == "full+abstain+no-refine"
    assert main([*convert, str(tmp_path / "peft"), str(learnt), "--prompts", "full+refine", *base]) == 2
    assert "compact or full, with any of +abstain, +look-first, +no-refine behind it" in capsys.readouterr().err
    assert main([*convert, str(tmp_path / "peft"), str(tmp_path / "folder"), *base]) == 2
    assert main([*convert, str(tmp_path / "nothing"), str(tmp_path / "a.gguf"), *base]) == 2


def test_the_command_goes_part_of_the_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").write_text(
        json.dumps({"model_type": "llama", "num_attention_heads": 9, "num_key_value_heads": 3})
    )
    one = random_lora(layers=1)
    two = Lora({name: (a + 4, b - 8) for name, (a, b) in one.pairs.items()}, alpha=8.0)
    adapter.write_peft(one, tmp_path / "one")
    adapter.write_gguf(two, tmp_path / "two.gguf", SMOLLM2)
    base = ["--base", str(tmp_path / "base")]

    def mix(*arguments: str) -> int:
        return main(["model", "adapter", "mix", *(str(tmp_path / a) for a in arguments[:3]), *arguments[3:], *base])

    assert mix("one", "two.gguf", "a.gguf", "--share", "0.25") == 0
    for name, (a, b) in adapter.read_gguf(tmp_path / "a.gguf", SMOLLM2).pairs.items():
        assert np.allclose(a, one.pairs[name][0] + 1, atol=1e-5)
        assert np.allclose(b, one.pairs[name][1] - 2, atol=1e-5)
    assert mix("one", "two.gguf", "folder", "--share", "0") == 0
    assert same(adapter.read_peft(tmp_path / "folder"), one)
    capsys.readouterr()
    adapter.write_peft(random_lora(layers=1, rank=2), tmp_path / "other")
    adapter.write_peft(random_lora(layers=2), tmp_path / "deeper")
    for wrong, told in (
        (("one", "two.gguf", "a.gguf", "--share", "1.5"), "from 0 to 1"),
        (("one", "other", "a.gguf", "--share", "0.5"), "one rank"),
        (("one", "deeper", "a.gguf", "--share", "0.5"), "same modules"),
        (("one", "nothing", "a.gguf", "--share", "0.5"), "no such adapter"),
        (("one", "two.gguf", "a.bin", "--share", "0.5"), "a folder or a .gguf file"),
    ):
        assert mix(*wrong) == 2
        assert told in capsys.readouterr().err


# On the real model.


@pytest.fixture(scope="module")
def reference() -> Callable[[Lora | None], list[np.ndarray[Any, Any]]]:
    """The same GGUF in transformers, with float32 weights."""
    if not smollm2_path().is_file():
        pytest.skip("the embedded model is not here: subquest model get smollm2")
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.set_num_threads(1)
    from subquest.engine.torch.loader import load

    path = smollm2_path()
    source = load(path)
    model = transformers.LlamaForCausalLM.from_pretrained(None, config=source.config, state_dict=source.state).eval()
    vocabulary = Model(open_library(), path, adapter=None, cells=256, sequences=1, batch=8, threads=1)
    ids = [vocabulary.vocabulary.encode(text) for text in TEXTS]
    vocabulary.free()

    def run(lora: Lora | None) -> list[np.ndarray[Any, Any]]:
        weights = dict(model.named_modules())
        with torch.no_grad():
            for name in lora.pairs if lora else ():
                weights[name].weight += torch.from_numpy(lora.delta(name))  # type: ignore[union-attr]
            rows = [torch.log_softmax(model(torch.tensor([i])).logits[0, -1], -1).double().numpy() for i in ids]
            for name in lora.pairs if lora else ():
                weights[name].weight -= torch.from_numpy(lora.delta(name))  # type: ignore[union-attr]
        return rows

    return run


@pytest.mark.slow
@pytest.mark.embedded
def test_llama_cpp_computes_what_transformers_computes(reference: Any, tmp_path: Path) -> None:
    lora = random_lora()
    good, bad = tmp_path / "good.gguf", tmp_path / "bad.gguf"
    adapter.write_gguf(lora, good, SMOLLM2)
    adapter.write_gguf(lora, bad, SMOLLM2, reordered=False)
    base, adapted = reference(None), reference(lora)
    attached = log_probs(smollm2_path(), good)
    figures = {
        "base": distance(base, log_probs(smollm2_path())),
        "attached": distance(adapted, attached),
        "effect": distance(base, adapted),
        "not reordered": distance(adapted, log_probs(smollm2_path(), bad)),
    }
    quantise(smollm2_path(), good, tmp_path / "merged.gguf")
    figures["merged"] = distance(adapted, log_probs(tmp_path / "merged.gguf"))
    print(figures)
    assert figures["base"] < 0.2
    assert figures["attached"] < 0.2
    assert figures["merged"] < 0.2
    assert figures["effect"] > 0.6
    assert figures["not reordered"] > 3 * figures["attached"]


def one_layer(path: Path, width: int = 576) -> Path:
    """A model file with the matrices of SmolLM2's first layer: the whole one takes five seconds to derive from."""
    import gguf

    kind, random = gguf.GGMLQuantizationType.Q4_1, np.random.default_rng(5)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_1)
    writer.add_head_count(9)
    writer.add_head_count_kv(3)
    for target, shape in ROWS.items():
        weight = random.normal(0, 0.1, [width if n == 576 else n for n in shape]).astype(np.float32)
        name = f"{adapter.gguf_name(f'model.layers.0.{target}')}.weight"
        writer.add_tensor(name, gguf.quantize(weight, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_derived_files_are_made_once_and_follow_their_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = one_layer(tmp_path / "base.gguf")
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path))
    lora = tmp_path / "ours.gguf"
    adapter.write_gguf(random_lora(layers=1), lora, SMOLLM2)
    first = quantised_copy(base, lora)
    assert first is not None
    stamp = first.stat().st_mtime_ns
    assert quantised_copy(base, lora) == first
    assert first.stat().st_mtime_ns == stamp
    assert [p.name for p in first.parent.iterdir()] == [first.name]
    for number in range(5):
        (first.parent / f"base+old{number}.gguf").write_bytes(b"")
        os.utime(first.parent / f"base+old{number}.gguf", (number, number))
    other = first.parent / "another-model+old.gguf"
    other.write_bytes(b"")
    os.utime(other, (0, 0))
    (first.parent / f".{first.name}.1.new").write_bytes(b"of a process that was killed")
    first.unlink()
    assert quantised_copy(base, lora) == first
    kept = ["base+old2.gguf", "base+old3.gguf", "base+old4.gguf", first.name, other.name]
    assert sorted(p.name for p in first.parent.iterdir()) == sorted(kept)
    first.unlink()
    assert quantised_copy(base, lora, keep=1) == first
    assert sorted(p.name for p in first.parent.iterdir()) == sorted([first.name, other.name])
    wrong = random_lora(layers=2)
    adapter.write_gguf(wrong, lora, SMOLLM2)
    with pytest.raises(DataError, match=r"no blk\.1\."):
        quantised_copy(base, lora)
    monkeypatch.setenv("SUBQUEST_SMOLLM2", str(base))
    assert embedded_files(lora) == (base, lora)
    (tmp_path / "models").rename(tmp_path / "away")
    (tmp_path / "models").write_text("in the way")
    assert quantised_copy(base, None) is None


@pytest.mark.slow
def test_processes_that_merge_at_once_make_one_file(tmp_path: Path) -> None:
    base, lora = one_layer(tmp_path / "base.gguf"), tmp_path / "ours.gguf"
    adapter.write_gguf(random_lora(layers=1), lora, SMOLLM2)
    code = f"""
import pathlib
from subquest.engine.embedded import quantised
plain = quantised.quantise
def counted(base, adapter, target):
    print("made")
    plain(base, adapter, target)
quantised.quantise = counted
print(quantised.quantised_copy(pathlib.Path({str(base)!r}), pathlib.Path({str(lora)!r})))
"""
    environment = {**os.environ, "SUBQUEST_CACHE": str(tmp_path / "cache")}
    begun = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = [line for process in begun for line in process.communicate(timeout=120)[0].splitlines()]
    (made,) = (tmp_path / "cache" / "models" / "derived").iterdir()
    assert sorted(said) == [str(made)] * 3 + ["made"]


def test_a_disk_that_fills_up_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(writer: gguf.GGUFWriter) -> None:
        raise OSError(28, "No space left on device")

    base = one_layer(tmp_path / "base.gguf")
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path))
    monkeypatch.setattr(gguf.GGUFWriter, "write_tensors_to_file", full)
    assert quantised_copy(base, None) is None
    assert not [p for p in (tmp_path / "models" / "derived").iterdir() if p.stat().st_size]
    monkeypatch.undo()
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path))
    made = quantised_copy(base, None)
    assert made is not None
    assert [p.name for p in made.parent.iterdir()] == [made.name]


def test_an_adapter_names_its_base_and_is_refused_on_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both forms keep the digest; another quantisation is another file, and one command binds the adapter to it."""
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path / "cache"))
    base, other = tmp_path / "base.gguf", tmp_path / "base-q8.gguf"
    for path, name in ((base, "one"), (other, "two")):
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_name(name)
        writer.add_head_count(9)
        writer.add_head_count_kv(3)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
    adapter.write_peft(random_lora(layers=1), tmp_path / "peft")
    made = tmp_path / "made.gguf"
    assert main(["model", "adapter", "convert", str(tmp_path / "peft"), str(made), "--base", str(base)]) == 0
    assert adapter.base_of(made) == hashlib.sha256(base.read_bytes()).hexdigest()
    check_base(made, base)
    assert main(["model", "adapter", "convert", str(made), str(tmp_path / "back"), "--base", str(base)]) == 0
    assert adapter.base_of(tmp_path / "back") == adapter.base_of(made)
    with pytest.raises(UsageError, match="another quantisation") as error:
        check_base(made, other)
    command = str(error.value).partition("subquest ")[2].replace("NEW.gguf", str(tmp_path / "new.gguf")).split()
    capsys.readouterr()
    assert main(command) == 0, "the command that the message gives"
    check_base(tmp_path / "new.gguf", other)
    assert same(adapter.read_gguf(tmp_path / "new.gguf", SMOLLM2), adapter.read_gguf(made, SMOLLM2))
    with pytest.raises(UsageError, match="another quantisation"):
        EmbeddedEngine(other, adapter=made)


def test_the_message_names_the_known_model_that_an_adapter_is_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lora = replace(random_lora(layers=1), base=models.known_model("qwen-1.5b").files[0].sha256)
    adapter.write_peft(lora, tmp_path / "peft")
    alike, wider = one_layer(tmp_path / "alike.gguf"), one_layer(tmp_path / "wider.gguf", width=640)
    named = r"was trained on qwen-1.5b.*run it with --model qwen-1.5b"
    with pytest.raises(UsageError, match=named + ".*model adapter convert"):
        check_base(tmp_path / "peft", alike)
    adapter.write_gguf(lora, tmp_path / "a.gguf", SMOLLM2)
    for place in (tmp_path / "peft", tmp_path / "a.gguf"):
        with pytest.raises(UsageError, match=named) as error:
            check_base(place, wider)
        assert "convert" not in str(error.value), "no conversion makes it fit"
        assert main(["model", "adapter", "convert", str(place), str(tmp_path / "b.gguf"), "--base", str(wider)]) == 2
        assert re.search(r"its blk\.0\.\S+ is \d+ × \d+, and the model's is", capsys.readouterr().err)
    assert not (tmp_path / "b.gguf").exists()


@pytest.mark.parametrize(("rank", "most"), [(16, 0.80), (32, 0.54)])
def test_eight_bits_are_smaller_and_nearly_the_same(
    rank: int, most: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """B's rows have as many numbers as the rank, and Q8_0 stores 32 at a time: below that B stays in half precision."""
    whole = random_lora(layers=2, rank=rank)
    halved = replace(
        whole, pairs={n: (a.astype(np.float16), b.astype(np.float16)) for n, (a, b) in whole.pairs.items()}
    )
    adapter.write_peft(halved, tmp_path / "peft")
    sizes = {}
    for name, option in (("half", []), ("eight", ["--eight-bit"])):
        path = tmp_path / f"{name}.gguf"
        assert (
            main(["model", "adapter", "convert", str(tmp_path / "peft"), str(path), "--base", "smollm2", *option]) == 0
        )
        sizes[name] = path.stat().st_size
    assert sizes["eight"] < most * sizes["half"]
    back = adapter.read_gguf(tmp_path / "eight.gguf", SMOLLM2)
    assert back.base == models.known_model("smollm2").files[0].sha256
    for module in whole.pairs:
        difference = np.linalg.norm(back.delta(module) - whole.delta(module)) / np.linalg.norm(whole.delta(module))
        assert difference < 0.01
    into_folder = [str(tmp_path / "eight.gguf"), str(tmp_path / "back"), "--eight-bit"]
    assert main(["model", "adapter", "convert", *into_folder]) == 2
    assert "--eight-bit: only GGUF files" in capsys.readouterr().err


def test_the_shipped_adapter_names_its_base_and_prompts() -> None:
    shipped = models.default_adapter()
    assert shipped is not None
    assert adapter.base_of(shipped) == models.known_model("smollm2").files[0].sha256
    assert adapter.prompt_set_of(shipped) == "compact"


@pytest.mark.slow
@pytest.mark.embedded
def test_llama_cpp_reads_eight_bits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The shipped adapter changes far more than eight bits take from it."""
    shipped = models.default_adapter()
    assert shipped is not None
    eight = str(tmp_path / "eight.gguf")
    assert main(["model", "adapter", "convert", str(shipped), str(tmp_path / "peft")]) == 0
    assert main(["model", "adapter", "convert", str(tmp_path / "peft"), eight, "--eight-bit"]) == 0
    capsys.readouterr()
    assert main(["model", "adapter", "compare", str(shipped), eight, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    print(figures)
    assert 0 < figures["apart"] < 0.1 * figures["effect"]
    assert main(["model", "adapter", "compare", str(shipped), str(tmp_path / "peft")]) == 2
    assert "peft is a folder" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.embedded
def test_a_question_with_an_adapter_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shipped = models.default_adapter()
    assert shipped is not None
    trace, asked = str(tmp_path / "trace.json"), ["ask", "What is two and two?", "--system", "direct", "--adapter"]
    assert main([*asked, str(shipped), "--model", "embedded", "--max-tokens", "16", "--trace", trace]) == 0
    assert json.loads(Path(trace).read_text())["model"] == "embedded+smollm2-subquest"
    assert main([*asked, str(tmp_path / "none.gguf"), "--model", "embedded"]) == 2
    assert "none.gguf" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.embedded
async def test_a_known_model_runs_with_the_adapter_that_ships_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Adding `adapters/NAME-subquest.gguf` and its calibration is all that a new adapter takes."""
    published = models.known_model("smollm2")
    if not published.present:
        pytest.skip("the embedded model is not here: subquest model get smollm2")
    monkeypatch.setitem(models.MODELS, "stand-in", replace(published, name="stand-in"))
    monkeypatch.setattr(models, "ADAPTERS", tmp_path)
    assert models.default_adapter("stand-in") is None
    assert models.default_adapter(str(smollm2_path())) is None
    lora = replace(random_lora(layers=2), prompts="full", base=published.files[0].sha256)
    shipped = tmp_path / "stand-in-subquest.gguf"
    adapter.write_gguf(lora, shipped, SMOLLM2, eight_bit=True)
    measured = Measured(("dev",), 24, "2026-11-17", adapter=models.file_digest(shipped))
    calibration_place(shipped).write_text(json.dumps(to_dict(Calibrations(measured=measured))))
    engine = open_engine("stand-in", EngineOptions(context=256, threads=1))
    assert isinstance(engine, EmbeddedEngine)
    assert (engine.name, engine.prompt_set) == ("stand-in+stand-in-subquest", "full")
    assert own_calibration("stand-in", None) is not None
    attached = engine.identity["weights"]
    await engine.close()
    plain = open_engine("stand-in", EngineOptions(context=256, threads=1, adapter="none"))
    assert plain.name == "stand-in"
    assert own_calibration("stand-in", "none") is None
    await plain.close()
    assert main(["model", "list"]) == 0
    assert f"runs with our adapter {shipped}" in capsys.readouterr().out
    file = str(published.path)
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path / "cache"))
    with monkeypatch.context() as patch:
        patch.setattr("subquest.engine.embedded.quantised.available_memory", lambda: 1 << 20)
        assert main(["model", "get", "stand-in", "--file", file]) == 0
    assert "not enough disk or memory to merge our adapter into stand-in" in capsys.readouterr().err
    assert main(["model", "get", "stand-in"]) == 0
    assert "merging our adapter into stand-in" in capsys.readouterr().err
    assert main(["model", "get", "stand-in"]) == 0
    assert "merging" not in capsys.readouterr().err, "it is there already"
    (merged,) = (tmp_path / "cache" / "models" / "derived").iterdir()
    assert merged_files(models.find("stand-in"), shipped) == (merged, None)
    with monkeypatch.context() as patch:
        patch.setattr("subquest.models.memory.available_memory", lambda: merged.stat().st_size - 1)
        assert merged_files(models.find("stand-in"), shipped) == (models.find("stand-in"), shipped), "it is smaller"
    assert merged_files(models.find("stand-in"), None) == (models.find("stand-in"), None)
    faster = open_engine("stand-in", EngineOptions(context=256, threads=1))
    assert (faster.name, prompt_set_of(faster)) == ("stand-in+stand-in-subquest", "full")
    assert isinstance(faster, EmbeddedEngine)
    assert faster.identity["weights"] == merged.name != attached, "another rounding gives other log-probs"
    await faster.close()
