"""``/metrics``, ``/livez`` and ``/readyz`` of a worker over HTTP."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from leap.schemas.errors import SettingsError
from leap.streams.runtime.liveness import Progress

#: Path to media type and body; called per request.
Pages = Callable[[], Mapping[str, tuple[str, bytes]]]
#: Seconds after which an idle connection is closed; each holds a thread.
IDLE_S = 10.0


class _Server(ThreadingHTTPServer):
    def __init__(self, port: int, progress: Progress, pages: Pages) -> None:
        super().__init__(("", port), _Handler)
        self.progress = progress
        self.pages = pages


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(IDLE_S)

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self._answer(200, CONTENT_TYPE_LATEST, generate_latest())
        elif self.path == "/livez":
            fault = self.server.progress.fault()
            self._answer(503 if fault else 200, "text/plain", (fault or "alive").encode())
        elif self.path == "/readyz":
            ready = self.server.progress.ready()
            text = "ready" if ready else "not in the consumer group yet, or a batch is failing"
            self._answer(200 if ready else 503, "text/plain", text.encode())
        elif page := self.server.pages().get(self.path):
            self._answer(200, *page)
        else:
            self._answer(404, "text/plain", b"try /metrics, /livez or /readyz")

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Do not log requests: probes come every few seconds."""


@contextmanager
def health_server(port: int, progress: Progress, pages: Pages = dict) -> Iterator[int]:
    """Serve until the block ends.

    Parameters
    ----------
    port
        TCP port; 0 picks a free one.
    progress
        Source of liveness and readiness.
    pages
        Additional pages.

    Yields
    ------
    int
        The port.

    Raises
    ------
    SettingsError
        If another process has the port, or this one may not have it.
    """
    try:
        server = _Server(port, progress, pages)
    except OSError as error:
        raise SettingsError(
            f"port {port} cannot be served: {error.strerror}; LEAP_METRICS_PORT names another"
        ) from error
    with server:
        thread = threading.Thread(target=server.serve_forever, name="health", daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
