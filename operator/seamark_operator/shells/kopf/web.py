"""Metrics and probes over HTTP, from their own threads: a stuck event loop must not silence its probe."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from seamark_operator.shells.kopf.liveness import Verdict

Answer = tuple[int, str, bytes]
Route = Callable[[], Answer]


def probe(verdict: Callable[[], Verdict]) -> Route:
    """200 or 500, and the reasons in plain words."""

    def answer() -> Answer:
        found = verdict()
        return 200 if found.ok else 500, "text/plain; charset=utf-8", "\n".join((*found.reasons, "")).encode()

    return answer


def text(content: Callable[[], bytes]) -> Route:
    """Prometheus' text format."""
    return lambda: (200, "text/plain; version=0.0.4; charset=utf-8", content())


def serve(address: str, port: int, routes: Mapping[str, Route]) -> ThreadingHTTPServer:
    """Serve the routes until `shutdown()`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            route = routes.get(self.path.partition("?")[0])
            if route is None:
                code, kind, body = 404, "text/plain", f"known: {', '.join(routes)}\n".encode()
            else:
                code, kind, body = route()
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Probes come every few seconds; they are not news."""

    server = ThreadingHTTPServer((address, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name=f"http-{port}", daemon=True).start()
    return server
