"""TLS before a server that has none: what a client says reaches it in the clear."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

REQUEST_BYTES = 8  # in which a client of Postgres asks for TLS
CHUNK = 65536


def certified(folder: Path) -> ssl.SSLContext:
    """Sign a certificate by itself, and take it."""
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("there is no openssl here, to make a certificate")
    key, certificate = folder / "key", folder / "certificate"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes"),
            *("-subj", "/CN=localhost", "-days", "2"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


@contextmanager
def wrapped(port: int, context: ssl.SSLContext) -> Iterator[int]:
    """Give a port that speaks TLS for the one given."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(
            target=_serve, args=(server, port, context), daemon=True
        ).start()
        yield server.getsockname()[1]
        # Alone, a close would leave the thread in its accept.
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)


def _serve(server: socket.socket, port: int, context: ssl.SSLContext) -> None:
    with contextlib.suppress(OSError):
        while True:
            client, _ = server.accept()
            arguments = (client, port, context)
            threading.Thread(target=_connect, args=arguments, daemon=True).start()


def _connect(client: socket.socket, port: int, context: ssl.SSLContext) -> None:
    with contextlib.suppress(OSError), client:
        client.recv(REQUEST_BYTES, socket.MSG_WAITALL)
        client.sendall(b"S")
        with (
            context.wrap_socket(client, server_side=True) as secured,
            socket.create_connection(("127.0.0.1", port)) as plain,
        ):
            arguments = (plain, secured)
            threading.Thread(target=_copy, args=arguments, daemon=True).start()
            _copy(secured, plain)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK):
            target.sendall(data)
        target.shutdown(socket.SHUT_RDWR)
