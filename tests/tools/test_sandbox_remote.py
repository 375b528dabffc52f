"""A remote sandbox, also one whose answers are as hostile as the code that it runs."""

import gzip
import json
import threading

import pytest

from subquest.errors import ToolError
from subquest.tools.sandbox import RemoteSandbox, SandboxLimits, remote

from ..http_server import QuietHandler, serving


@pytest.fixture
def server():
    """Answers each call with the headers and parts that `answers` has for its code; the last part is sent for ever."""
    over = threading.Event()

    class Handler(QuietHandler):
        def do_POST(self):
            sent = self.rfile.read(int(self.headers["Content-Length"]))
            name = next(name for name in answers if name in sent)
            headers, *parts, last = answers[name]
            self.send_response(200)
            for header in headers.items():
                self.send_header(*header)
            self.end_headers()
            try:
                for part in parts:
                    self.wfile.write(part)
                while last and not over.wait(0.01 if name == b"trickle" else 0):
                    self.wfile.write(last)
            except OSError:
                pass

    bomb = gzip.compress(b'{"output": "' + bytes(64 << 20) + b'"}')
    long = b'{"output": "o", "error": "' + b"e" * 100_000 + b'"}'
    answers = {
        b"endless": ({}, b'{"output": "', b"x" * 65536),
        b"trickle": ({}, b'{"output": "', b"x"),
        b"bomb": ({"Content-Encoding": "gzip", "Content-Length": str(len(bomb))}, bomb, b""),
        b"long": ({"Content-Length": str(len(long))}, long, b""),
    }
    with serving(Handler) as url:
        yield url
        over.set()


@pytest.mark.parametrize("code", ["endless", "bomb"])
async def test_answers_are_bounded(server, code):
    with pytest.raises(ToolError, match="answered with more than"):
        await RemoteSandbox(server).run(code)


async def test_an_answer_that_trickles_ends(server, monkeypatch):
    monkeypatch.setattr(remote, "GRACE", 0.3)
    with pytest.raises(ToolError, match="took longer than"):
        await RemoteSandbox(server, SandboxLimits(seconds=0.2)).run("trickle")


async def test_errors_are_cut_like_output(server):
    result = await RemoteSandbox(server, SandboxLimits(output=1000)).run("long")
    assert (result.output, len(result.error)) == ("o", 1000)


async def test_a_remote_sandbox_keeps_state_by_sending_earlier_code_along():
    asked = []

    class Handler(QuietHandler):
        def do_POST(self):
            asked.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            failed = "1/0" in asked[-1][1]["call"]
            answer = {"output": "hi", "result": "3", "error": "ZeroDivisionError" if failed else None}
            odd = {"half": json.dumps({"output": "\ud83c"}).encode(), "deep": b"[" * 200_000}
            body = odd.get(asked[-1][1]["call"]) or json.dumps(answer).encode()
            self.send(body)

    with serving(Handler) as url:
        box = RemoteSandbox(url, SandboxLimits(seconds=7))
        assert (await box.run("x = 1")).text == "hi\n3"
        assert (await box.run("1/0")).error == "ZeroDivisionError"
        await box.run("x + 2")
        assert (await RemoteSandbox(box.url).run("half")).text == "?"
        with pytest.raises(ToolError, match="failed"):
            await RemoteSandbox(box.url).run("deep")
        del asked[3:]
    assert [body for _, body in asked] == [
        {"env": "", "call": "x = 1", "timeout": 7},
        {"env": "x = 1", "call": "1/0", "timeout": 7},
        {"env": "x = 1", "call": "x + 2", "timeout": 7},
    ]
    assert asked[0][0] == "/execute"
    with pytest.raises(ToolError, match="failed"):
        await box.run("1")
