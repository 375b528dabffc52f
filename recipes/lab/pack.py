"""Everything that a training needs on a lent GPU, in parts that can be carried there.

python recipes/lab/pack.py runs/lab --model qwen-1.5b --carry runs/ordinary.sq

The machine has a GPU, Python and torch, and no network (README.md beside this file). There `cat part-* | tar x` gives
the models and `kit.tar.gz`, which holds `subquest/`, laid out like a checkout, and `shared/data/` beside it. With
`--peers` there is `peers.tar.gz` too: other libraries for comparisons, as `subquest/peers/`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import IO

from subquest import models
from subquest.retrieval import minilm

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("src", "benchmarks", "recipes", "tests/engine_torch/test_kernels.py", "pyproject.toml", "README.md")
LEFT_OUT = ("*/__pycache__", "*/adapters/*.gguf", "*/serve/static", "recipes/claims/results", "recipes/claims/adapters")
PACKAGES = (
    *("msgspec", "httpx2", "httpcore2", "anyio", "idna", "h11", "certifi", "truststore", "sniffio"),
    *("gguf", "tensorboardX", "protobuf"),
    # systems that open pages and run code
    *("httpx", "httpcore", "ssrfguard", "resiliparse<2", "fastwarc<2", "pyseccomp"),
)
"""What Subquest needs there besides torch, transformers, onnxruntime and what these bring."""


class Parts:
    """A file that is cut into parts of some size while it is written."""

    def __init__(self, folder: Path, size: int) -> None:
        self._folder, self._size = folder, size
        self._file: IO[bytes] | None = None
        self._room = self.number = 0

    def write(self, data: bytes) -> int:
        written = len(data)
        while data:
            if not self._room or self._file is None:
                self.close()
                self._file = (self._folder / f"part-{self.number:02}").open("wb")
                self._room, self.number = self._size, self.number + 1
            self._room -= self._file.write(data[: (room := self._room)])
            data = data[room:]
        return written

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="FOLDER", help="where part-00, part-01, ... go")
    parser.add_argument("--model", action="append", default=[], help="a known model, or minilm (may be repeated)")
    parser.add_argument("--carry", action="append", default=[], type=Path, metavar="PATH", help="data that was made")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", metavar="FOLDER")
    parser.add_argument("--sets", nargs="*", default=["train", "ordinary"], metavar="NAME", help="folders of the data")
    parser.add_argument("--peers", type=Path, metavar="FOLDER", help="packages of other libraries (peers.txt)")
    parser.add_argument("--sandbox", action="store_true", help="bubblewrap as it is here, for systems that run code")
    parser.add_argument("--part-bytes", type=int, default=62_000_000, metavar="N", help="most bytes of a part")
    parser.add_argument("--python", default="3.12", metavar="VERSION", help="the machine's Python (default 3.12)")
    parser.add_argument("--platform", default="x86_64", help="its processor (default x86_64)")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for old in args.out.glob("part-*"):
        old.unlink()
    files = [file for name in args.model for file in files_of(name)]
    peers = [args.peers] if args.peers else []
    if gone := [file for file in (*files, *args.carry, *peers) if not file.exists()]:
        sys.exit(f"not there: {', '.join(map(str, gone))} (models: subquest model get NAME)")
    parts = Parts(args.out, args.part_bytes)
    with tempfile.TemporaryDirectory() as scratch:
        write_kit(args, Path(scratch) / "kit.tar.gz")
        with tarfile.open(fileobj=parts, mode="w|") as archive:  # type: ignore[call-overload]
            archive.add(Path(scratch) / "kit.tar.gz", "kit.tar.gz")
            for folder in peers:
                with tarfile.open(Path(scratch) / "peers.tar.gz", "w:gz", compresslevel=6) as packages:
                    packages.add(folder, "subquest/peers", filter=without_tests)
                archive.add(Path(scratch) / "peers.tar.gz", "peers.tar.gz")
            for file in files:
                archive.add(file, f"subquest/cache/models/{file.name}")
    parts.close()
    print(f"{parts.number} parts in {args.out}")


def files_of(model: str) -> list[Path]:
    """MiniLM goes twice: in 8 bits for indexes, and as it was published for what compares plans and reranks."""
    return [*([minilm.get()] if model == "minilm" else []), models.known_model(model).path]


def write_kit(args: argparse.Namespace, path: Path) -> None:
    """Sources, packages and data, compressed."""
    packages = args.out / f"packages-{args.python}-{args.platform}"
    if not packages.is_dir():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
        tags = [f"--platform=manylinux{version}_{args.platform}" for version in ("2014", "_2_28")]
        where = ["--target", str(packages), "--python-version", args.python]
        subprocess.run([*install, *tags, *where, *PACKAGES], check=True)
    with tarfile.open(path, "w:gz", compresslevel=4) as archive:
        for source in (*map(ROOT.joinpath, SOURCES), *(place.resolve() for place in args.carry)):
            archive.add(source, f"subquest/{source.relative_to(ROOT)}", filter=wanted)
        archive.add(packages, "subquest/packages")
        for file in sandbox() if args.sandbox else ():
            archive.add(file.resolve(), f"subquest/sandbox/{file.name}")
        for name in args.sets:
            archive.add(args.data / name, f"shared/data/{name}")


def sandbox() -> list[Path]:
    """Bubblewrap, and the libraries that it and its filter need."""
    program = shutil.which("bwrap") or sys.exit("there is no bubblewrap here (apt-get install bubblewrap libseccomp2)")
    found = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    libraries = [Path(place) for place in re.findall(r"=> (/\S+)", found)]
    folder = next(place.parent for place in libraries if place.name == "libc.so.6")
    return [Path(program), *(place for place in libraries if place.name != "libc.so.6"), folder / "libseccomp.so.2"]


def without_tests(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if Path(member.name).name in ("__pycache__", "tests") else member


def wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if any(Path(member.name).match(pattern) for pattern in LEFT_OUT) else member


if __name__ == "__main__":
    main()
