"""The package root: what it exports, and that it stays light."""

import subprocess
import sys

import subquest


def test_every_public_name_resolves() -> None:
    for name in subquest.__all__:
        assert getattr(subquest, name) is not None
    assert {*subquest._MODULES, *subquest._EARLIER} < set(subquest.__all__)


def test_import_pulls_in_nothing_heavy() -> None:
    code = "import sys, subquest, subquest.cli; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "subquest" in loaded
    assert not {"numpy", "torch", "httpx", "transformers", "xllamacpp", "asyncio"} & set(loaded)


def test_records_and_systems_need_no_third_party_package() -> None:
    code = (
        "import sys; sys.modules.update({m: None for m in ('httpx', 'httpx2', 'rich', 'numpy', 'torch', 'jinja2')});"
        "import subquest.record, subquest.events, subquest.limits, subquest.protocol, subquest.systems.coda,"
        "subquest.engine.scripted, subquest.engine.chat_format"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
