"""A site on a loopback port, with the standard library."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ..errors import SubquestError, UsageError
from .site import Answer, Site


@contextmanager
def serve(site: Site, port: int = 0) -> Iterator[str]:
    """Serves the site on 127.0.0.1 while the context lasts and gives its URL; port 0 takes any free one."""
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), _handler(site))
    except OSError as error:
        raise UsageError(f"port {port} cannot be used: {error.strerror}") from None
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                host = self.headers.get("Host") or f"127.0.0.1:{self.connection.getsockname()[1]}"
                answer = site.get(self.path, f"http://{host}")
            except SubquestError as error:
                answer = Answer(503, "text/plain; charset=utf-8", str(error).encode())
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.type)
            self.send_header("Content-Length", str(len(answer.body)))
            if answer.location:
                self.send_header("Location", answer.location)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:
            """Requests are not logged: a site serves tests and demos."""

    return Handler
