"""What docs/integrations.md shows works as it stands there, but for the server's address."""

import json
import re
from pathlib import Path

import pytest

from subquest.cli import main

from .conftest import Running

TEXT = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL)


def run(code: str, server: Running, capsys: pytest.CaptureFixture[str]) -> str:
    assert "http://127.0.0.1:8420" in code
    exec(compile(code.replace("http://127.0.0.1:8420", server.url), "integrations.md", "exec"), {})
    return capsys.readouterr().out


def test_the_openai_client(server: Running, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = [code for kind, code in BLOCKS if kind == "python" and "openai" in code]
    assert run(code, server, capsys).splitlines() == [
        "Kestel",
        "The Orvane Bridge was designed by Mila Torrun. - Orvane Bridge",
        "She was born in Kestel in 1889. - Mila Torrun",
    ]


def test_search_r1(server: Running, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("requests")
    (code,) = [code for kind, code in BLOCKS if kind == "python" and "/retrieve" in code]
    assert run(code, server, capsys).startswith('"Orvane Bridge"\nThe Orvane Bridge was designed')


def test_the_editor_settings_name_a_command_that_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = [code for kind, code in BLOCKS if kind == "json"]
    server = json.loads(text)["mcpServers"]["subquest"]
    assert server["command"] == "subquest"
    assert main([*server["args"], "--help"]) == 0
    assert "--index" in capsys.readouterr().out
