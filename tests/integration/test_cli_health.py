"""Probes of a worker: what is served, and what `rowlock health` makes of it."""

from __future__ import annotations

import json
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from .command_line import Command, run, run_json

pytestmark = pytest.mark.usefixtures("shop")


def enqueue(task: str) -> int:
    return int(run("enqueue", "-A", "shop", task, "{}").stdout)


def port_of(worker: Command) -> int:
    worker.prints("Probes are answered at ")
    found = re.search(
        r"Probes are answered at http://[^ ]+:(\d+)/health", worker.output
    )
    assert found is not None
    until = time.monotonic() + 20
    while probe(int(found[1]), "/ready")[0] != HTTPStatus.OK:
        assert time.monotonic() < until, worker.output
        # The worker tells its supervisor when it likes, on no clock of ours.
        time.sleep(0.02)
    return int(found[1])


def probe(port: int, path: str, method: str = "GET") -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request(method, path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def test_a_worker_answers_probes(start: type[Command]) -> None:
    worker = start("worker", "shop:app", "--health", "127.0.0.1:0")
    port = port_of(worker)

    status, body = probe(port, "/health")
    told = json.loads(body)
    assert (status, told["healthy"], told["reasons"]) == (200, True, [])
    assert probe(port, "/ready?full")[0] == 200
    assert probe(port, "/ready", "HEAD") == (200, b"")
    assert probe(port, "/metrics")[0] == 404
    asked = run("health", f"127.0.0.1:{port}")
    assert (asked.exit_code, asked.stdout) == (
        0,
        f"Worker {told['worker']} is healthy.\n",
    )
    assert run_json("health", f"127.0.0.1:{port}")["worker"] == told["worker"]


def test_probes_are_answered_while_a_handler_blocks_the_loop(
    start: type[Command],
) -> None:
    enqueue("block")
    worker = start("worker", "shop:app", "--health", "127.0.0.1:0")
    port = port_of(worker)
    worker.prints("blocking")
    worker.prints("loop.blocked")

    status, body = probe(port, "/health")
    until = time.monotonic() + 5
    while json.loads(body)["loop_blocked_s"] < 1 and time.monotonic() < until:
        # The worker tells its supervisor when it likes, on no clock of ours.
        time.sleep(0.05)
        status, body = probe(port, "/health")

    assert status == 200
    assert json.loads(body)["loop_blocked_s"] >= 1
    (blocked,) = [line for line in worker.lines if "loop.blocked" in line]
    assert "task=block" in blocked
    assert "shop.py:" in blocked


def test_a_worker_that_stops_is_healthy_and_not_ready(start: type[Command]) -> None:
    enqueue("wait")
    worker = start("worker", "shop:app", "--health", "127.0.0.1:0")
    port = port_of(worker)
    worker.prints("waiting")
    worker.signal(signal.SIGTERM)
    worker.prints("worker.draining")

    asked = run("health", "--ready", f"127.0.0.1:{port}")

    assert asked.exit_code == 1
    assert asked.stdout.endswith(" is not ready: it is stopping.\n")
    assert run("health", f"127.0.0.1:{port}").exit_code == 0
    assert worker.ends() == 0


def test_one_with_too_many_stuck_handlers_ends_with_1_to_be_replaced(
    start: type[Command],
) -> None:
    for _ in range(2):
        enqueue("hangs")

    worker = start("worker", "shop:app", "--max-stuck", "1", "--no-supervisor")

    assert worker.ends(within=20) == 1
    assert "worker.overrun" in worker.output
    assert "stuck=2 max_stuck=1" in worker.output


def test_an_address_that_is_taken_is_said_to_be(start: type[Command]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        worker = start("worker", "shop:app", "--health", f"127.0.0.1:{port}")

        # It may be free in a moment: whoever runs the worker starts it again.
        assert worker.ends() == 1
    assert f"Probes can't be answered at 127.0.0.1:{port}: " in worker.output
    assert "Traceback" not in worker.output


@pytest.mark.parametrize("address", ["8080", "here:x", "1.2.3.4:70000", ":"])
def test_what_is_no_address_is_refused(address: str) -> None:
    for call in (["worker", "shop:app", "--health", address], ["health", address]):
        result = run(*call)

        assert result.exit_code == 2
        assert "takes a host and a port, as in 127.0.0.1:8080" in result.stderr


def test_a_worker_that_doesnt_answer_is_not_healthy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    asked = run("health", f"127.0.0.1:{port}")

    assert asked.exit_code == 1
    assert asked.stderr.startswith(f"Error: No worker answers at 127.0.0.1:{port}: ")


def test_without_an_address_it_asks_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROWLOCK_HEALTH", raising=False)

    asked = run("health")

    assert asked.exit_code == 2
    assert "set ROWLOCK_HEALTH" in asked.stderr


@pytest.mark.parametrize("body", [b"hello", b"[]", b'{"worker": 1}', b"\xff"])
def test_what_is_no_worker_is_said_to_be_none(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(body) as port:
        monkeypatch.setenv("ROWLOCK_HEALTH", f"0.0.0.0:{port}")
        asked = run("health")

    assert asked.exit_code == 1
    assert asked.stderr.endswith("is no worker of Rowlock's.\n")


@contextmanager
def serving(body: bytes) -> Iterator[int]:
    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()
