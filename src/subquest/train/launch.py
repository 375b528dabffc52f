"""From a recipe to a running trainer."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from .. import assemble
from ..assemble.tools import open_tools
from ..engine.torch.engine import TorchEngine
from ..engine.torch.gpu_memory import ADVICE, explain_out_of_memory
from ..engine.torch.loader import Source
from ..english import counted
from ..errors import UsageError
from ..evaluate.fingerprint import of_adapter, of_index
from ..record import Document
from ..retrieval.index import Index
from ..retrieval.store import exists
from ..tools.tool_options import ToolOptions
from .components import (
    load_source,
    make_engine,
    make_frozen,
    make_policy,
    make_reward,
    make_served,
    make_system,
    precision,
    rollout_spec,
)
from .data import Stream, draw_sample, load_material, merge_documents, note_digest, open_search, refuse_test, with_gold
from .distributed import Ranks, shard
from .gold_traces import check_prepared, gold_traces, opening_of
from .recipe import Recipe
from .rl import RLTrainer
from .rollouts import MemoisedSearch
from .run import TrainRun
from .served_rollouts import ServedPolicy
from .sft import SFTTrainer
from .trace_prompts import check_prompts
from .traces import TraceSet, counts_in_words
from .world_sources import WORLD, WorldSources

Watch = Callable[[int, Mapping[str, float]], None]


async def train(
    recipe: Recipe,
    out: str | Path,
    *,
    minutes: float | None = None,
    stop: Callable[[], bool] = lambda: False,
    device: str = "",
    say: Callable[[str], None] = lambda text: None,
    watch: Watch | None = None,
    progress: Callable[[str], None] | None = None,
) -> TrainRun:
    """Run a recipe, or resume it if `out` contains its run. Ends within `minutes` if given, and after the current step
    once `stop` returns True; with a checkpoint either way.

    Under torchrun every process calls this; the policy is sharded over them and each rolls out its share.
    """
    place = _device(device)
    if recipe.kind == "sft":
        check_prepared(recipe, say)
    async with AsyncExitStack() as held:  # a failure must release the folder too
        held.enter_context(explain_out_of_memory(_less_memory(recipe)))
        ranks = Ranks.from_environment(place)
        held.callback(ranks.close)
        run = TrainRun(out, recipe, minutes=minutes, stop=stop, ranks=ranks)
        held.callback(run.close)
        if recipe.tools:
            assemble.preview_agent(rollout_spec(recipe, temperature=0.0))
        tools = await held.enter_async_context(open_tools(recipe.tools, ToolOptions()))
        elsewhere = bool(recipe.index)
        rl = recipe.kind == "rl"
        parts = (*recipe.dev, *(recipe.data if rl else ()))
        worlds = WorldSources(part.questions for part in parts)
        tiny = recipe.model.path.startswith("random:")  # its vocabulary is built from the texts
        dtype = precision(recipe.model, place) if recipe.model.rank else torch.float32  # trained ones are whole
        source = None if tiny else load_source(recipe.model.path, device=place, dtype=dtype)
        digests = _digests(recipe)
        known: dict[str, Any] = {
            "passages_elsewhere": elsewhere,
            "worlds": worlds,
            "digests": digests,
            "seed": recipe.seed,
        }
        dev = load_material(recipe.dev, **known)
        needed = {id for q in dev.questions if not q.unanswerable for id in q.supporting_ids}
        material = load_material(recipe.data if rl else (), **known, keep=needed)
        run.keep_sources(digests)
        source = source or load_source(recipe.model.path, [d.text for d in dev.documents[:200]])
        refuse_test(
            dev.questions, "the best weights are chosen on dev questions; evaluate on test ones with subquest eval"
        )
        refuse_test(material.questions, "nothing is learnt from it")
        plans = (recipe.reward or recipe.system) == "apex-plan"
        kept = [q for q in material.questions if q.unanswerable or not dev.withheld & set(q.supporting_ids)]
        if taken := len(material.questions) - len(kept):
            say(f"training questions whose passages no dev question may find are left out: {taken}")
        scored = with_gold(kept, plans=plans)
        if missing := len(kept) - len(scored):
            say(f"training questions without a gold {'plan' if plans else 'answer'} are left out: {missing}")
        training = draw_sample(scored, recipe.sample, recipe.seed)
        say((f"{len(training)} training and " if rl else "") + counted(len(dev.questions), "dev question"))
        say(f"training on {torch.cuda.get_device_name(place) if place.type == 'cuda' else _without_gpu()}")
        documents = merge_documents({d.id: d for d in material.documents}, dev.documents, "dev")
        for id in dev.withheld | material.withheld:
            documents.pop(id, None)
        if elsewhere:
            search = assemble.open_search(recipe.index)
        else:
            papers = tuple(dict.fromkeys((*material.papers, *dev.papers)))
            built = _built(documents.values(), run.folder / "index", papers, ranks)
            search = MemoisedSearch(held.enter_context(built))
        if ranks.first:
            _keep_vocabulary(source, run.folder)
        policy = make_policy(recipe.model, source, device=place, seed=recipe.seed)
        if recipe.model.shard:
            shard(policy, policy.model.layers, ranks)
        engine: TorchEngine | ServedPolicy
        if recipe.rollout.server:
            engine = make_served(recipe, source, run.folder / "served", ranks=ranks)
        else:
            engine = make_engine(recipe, source, device=place, policy=policy)
        held.push_async_callback(engine.close)
        frozen = make_frozen(recipe, source, device=place, window=engine.context_window)
        if frozen is not None:
            held.push_async_callback(frozen.close)
        source = replace(source, state={})  # everything is in place: nothing is held twice
        models = engine if frozen is None else {"": engine, "compressor": frozen}
        greedy = make_system(recipe, models, search, temperature=0.0, tools=tools)
        trainer: SFTTrainer | RLTrainer
        o = recipe.optimiser
        if recipe.kind == "sft":
            traces = _taught(recipe, source, run)
            say(f"{traces.in_words}; questions without one: {counts_in_words(traces.rejected)}")
            if ranks.first:
                (run.folder / "traces.json").write_text(json.dumps(traces.counts_by_name()), encoding="utf-8")
            trainer = SFTTrainer(run, policy, engine, greedy, traces, dev.questions, watch=watch, ranks=ranks)
            if trainer.steps < o.steps:
                say(
                    f"{counted(trainer.steps, 'step')}, not {o.steps}: optimiser.epochs = {o.epochs:g}, over "
                    f"{counted(len(traces), 'trace')}, {o.batch} a step; for a longer run raise optimiser.epochs"
                )
        else:
            system = make_system(recipe, models, search, temperature=recipe.rollout.temperature, tools=tools)
            questions = Stream(training, recipe.seed)
            asked = o.steps * recipe.rollout.questions
            if training and asked > len(training):
                say(
                    f"{counted(o.steps, 'step')} with {counted(asked, 'question')}, and there are {len(training)}: "
                    f"each is asked about {asked / len(training):.1f} times"
                )
            reward, judge = make_reward(recipe, run.folder / "verdicts.sqlite")
            if judge is not None:
                held.push_async_callback(judge.close)
            trainer = RLTrainer(
                run, policy, engine, system, greedy, questions, dev.questions, reward,
                watch=watch, progress=progress, ranks=ranks,
            )  # fmt: skip
        await trainer.train()
    return run


def _less_memory(recipe: Recipe) -> str:
    """What to change where a run does not fit the GPU."""
    tokens, cache = recipe.optimiser.micro_tokens, recipe.rollout.cache_tokens
    rollouts = f"rollout.cache_tokens, which is {cache}, " if cache else ""
    return (
        f"lower optimiser.micro_tokens, which is {tokens} (--set optimiser.micro_tokens={tokens // 2}), or {rollouts}"
        f"{ADVICE}; the same command resumes the run"
    )


def _digests(recipe: Recipe) -> dict[str, str]:
    """Digests of files that are not read as questions: a local index, the sources of gold traces, and the adapter that
    a KL term refers to."""
    found: dict[str, str] = {}
    start = recipe.model.adapter
    if recipe.kind == "rl" and recipe.objective.kl and start != "shipped" and (digest := of_adapter(start)):
        found[f"the weights of {start}"] = digest
    place = Path(recipe.index).expanduser()
    if recipe.index and "://" not in recipe.index and exists(place):
        found[f"the documents of {recipe.index}"] = of_index(place)
    if recipe.kind == "sft" and not recipe.traces:
        files = [part for part in recipe.data if not part.questions.startswith(WORLD)]
        load_material(files, passages_elsewhere=bool(recipe.index), digests=found)
    for path in recipe.traces if recipe.kind == "sft" else ():
        if (file := Path(path).expanduser()).is_file():
            note_digest(found, f"the traces of {path}", [hashlib.sha256(file.read_bytes()).hexdigest()])
    return found


def _device(name: str) -> torch.device:
    """The device by name; of several GPUs, the one with this process's number."""
    name = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(f"there is no device {name!r}; say cuda or cpu") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UsageError(f"torch finds no GPU for --device {name}; leave it out to train on the CPU")
    if name != "cuda":
        return device
    torch.cuda.set_device(Ranks.local())
    return torch.device("cuda", Ranks.local())


def _without_gpu() -> str:
    """The CPU, and why, where a GPU is there that torch cannot use: its driver may be down or too old."""
    there = torch.version.cuda is not None and any(Path("/dev").glob("nvidia[0-9]*"))
    return "the CPU" + ", although there is a GPU: torch cannot use it (nvidia-smi may say why)" * there


def _taught(recipe: Recipe, source: Source, run: TrainRun) -> TraceSet:
    """The gold traces of a run. Traces reworded by a teacher are kept in its folder, named by what they were made from:
    asked again, the teacher would write something else, and a position in the order of traces would mean other ones."""
    if recipe.traces or not recipe.instruct.teacher:
        return gold_traces(recipe, source, workers=os.cpu_count() or 1)
    made_from = json.dumps([recipe.as_dict(), run.sources], sort_keys=True)
    kept = run.folder / f"traces-{hashlib.sha256(made_from.encode()).hexdigest()[:8]}.xz"
    if run.ranks.first and not kept.exists():
        gold_traces(recipe, source, workers=os.cpu_count() or 1).save(kept)
    run.ranks.wait()
    traces = TraceSet.load(kept)
    check_prompts(kept, traces.prompts, recipe.prompt_set, "begin a new run (--out)")
    return traces


def _keep_vocabulary(source: Source, folder: Path) -> None:
    """Store the tokenizer with the run, so that the viewer can show token ids as text without the model."""
    place = folder / "tokenizer.json"
    if not place.exists():
        place.write_text(source.tokenizer.backend_tokenizer.to_str(), encoding="utf-8")


def _built(documents: Iterable[Document], folder: Path, papers: Sequence[Path], ranks: Ranks) -> Index:
    """Let the first process build the index; the others open it."""
    if not ranks.first:
        ranks.wait()
    search = open_search(documents, folder, papers)
    if ranks.first:
        ranks.wait()
    return search


def prepare(recipe: Recipe, file: Path, command: str = "") -> str:
    """Write the gold traces of a fine-tuning recipe to a file, with the command that does so; returns a summary."""
    if recipe.kind != "sft":
        raise UsageError(
            f"only supervised fine-tuning has gold traces to prepare; {recipe.name} is a recipe of kind rl"
        )
    if file.is_dir():
        raise UsageError(f"{file} is a folder; name a file for the traces")
    source = load_source(recipe.model.path, weights=False)  # only its words and its window are needed
    traces = gold_traces(replace(recipe, traces=()), source, workers=os.cpu_count() or 1)
    replace(traces, opening=opening_of(traces, source), command=command).save(file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return (
        f"{file}: {traces.in_words}, {len(traces.ids):,} tokens, {traces.actions.sum():,} of them learnt; "
        f"questions without a trace: {counts_in_words(traces.rejected)}; sha256 {digest}"
    )
