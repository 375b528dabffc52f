"""A server on loopback that sends files: with ranges, redirects and a hub's headers, and with faults."""

import http.server
import threading
import time


class FileSite:
    """`files` are by path. An answer can be cut, refused, delayed or sent elsewhere."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files = dict(files or {})
        self.asked: list[tuple[str, str]] = []
        """Path and range of each GET."""
        self.keys: list[tuple[str, str]] = []
        """Path and key of each request that came with one."""
        self.cut_after: dict[str, list[int]] = {}
        """Bytes after which the next answers for a path are cut."""
        self.status: dict[str, int] = {}
        self.redirects: dict[str, str] = {}
        self.headers: dict[str, dict[str, str]] = {}
        self.ranges = True
        self.slow = 0.0
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.answer(self)

            def do_HEAD(self) -> None:
                site.answer(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        path, wanted, body = handler.path, handler.headers.get("Range", ""), handler.command == "GET"
        if body:
            self.asked.append((path, wanted))
        if key := handler.headers.get("Authorization"):
            self.keys.append((path, key))
        content = self.files.get(path)
        status = self.status.get(path, 302 if path in self.redirects else 404 if content is None else 200)
        if status != 200 or content is None:
            handler.send_response(status)
            for name, value in self.headers.get(path, {}).items():
                handler.send_header(name, value)
            if path in self.redirects:
                handler.send_header("Location", self.redirects[path])
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.ranges else 0
        if start >= len(content) > 0:
            handler.send_error(416)
            return
        handler.send_response(206 if start else 200)
        for name, value in self.headers.get(path, {}).items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content) - start))
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        handler.end_headers()
        if not body:
            return
        cuts = self.cut_after.get(path, [])
        end = start + cuts.pop(0) if cuts else len(content)
        for at in range(start, min(end, len(content)), 10_000):
            handler.wfile.write(content[at : min(at + 10_000, end)])
            time.sleep(self.slow)
        if end < len(content):
            handler.wfile.flush()
            handler.connection.close()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
