"""
Telling probes how a worker is: `/health` and `/ready` over HTTP.

In threads of its own, so that it answers where a handler blocks the event loop, and
asks no store, which may be what is ill.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from http import HTTPStatus
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    from rowlock._worker.health import Health
    from rowlock.cli.parameters import Address

logger = logging.getLogger("rowlock.cli")

# A client that says nothing holds a thread for no longer.
PATIENCE_S = 5.0


@contextmanager
def serving_health(
    address: Address | None, health: Callable[[], Health]
) -> Iterator[None]:
    """Answer probes at an address; None: at none."""
    if address is None:
        yield
        return
    server = _server(address, health)
    serving = threading.Thread(
        target=server.serve_forever, name="rowlock-health", daemon=True
    )
    serving.start()
    shown = address._replace(port=server.server_port)  # it may have been 0
    logger.info("Probes are answered at http://%s/health and /ready.", shown)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def _server(address: Address, health: Callable[[], Health]) -> ThreadingHTTPServer:
    import socket
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Answering(BaseHTTPRequestHandler):
        timeout = PATIENCE_S

        def do_GET(self) -> None:
            status, told = answer(self.path.partition("?")[0], health)
            body = json.dumps(told).encode() + b"\n"
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 - http.server's own

        def version_string(self) -> str:
            """Name no version to strangers."""
            return "rowlock"

        def log_message(self, *_: object) -> None:
            """Log nothing: a probe comes every few seconds."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET

        def handle_error(self, *_: object) -> None:
            """Do nothing: a probe that goes away harms nobody."""

    return _bound(Server, address, Answering)


def _bound(
    server: type[ThreadingHTTPServer],
    address: Address,
    answering: type[BaseHTTPRequestHandler],
) -> ThreadingHTTPServer:
    try:
        return server(address, answering)
    except OSError as error:
        msg = (
            f"Probes can't be answered at {address}: {error.strerror or error}. Name"
            " another address with --health."
        )
        raise click.ClickException(msg) from error


def answer(
    path: str, health: Callable[[], Health]
) -> tuple[HTTPStatus, dict[str, object]]:
    """Answer a probe: a status, and what stands in the document."""
    if path not in ("/health", "/ready"):
        said = f"There is no {path} here, only /health and /ready."
        return HTTPStatus.NOT_FOUND, {"error": said}
    found = health()
    is_well = found.healthy if path == "/health" else found.ready
    return (
        HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE,
        asdict(found),
    )
