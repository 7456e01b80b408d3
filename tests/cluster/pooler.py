"""A PgBouncer before a server, for one test."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import SplitResult, urlsplit, urlunsplit

import psycopg

from tests.cluster import keeper
from tests.cluster.membership import place
from tests.cluster.server import _free_port

Mode: TypeAlias = Literal["session", "transaction"]

PATIENCE = 20.0

# It ends with its standard input, so that it outlives no test that is killed.
KEPT = '"$0" -q "$1" & read -r _; kill -TERM $!; wait'


class NoPooler(Exception):
    """This machine has no PgBouncer. The message says what to install."""


def find() -> str:
    """Find its program."""
    for folder in (None, "/usr/sbin", "/usr/local/sbin"):
        if program := shutil.which("pgbouncer", path=folder):
            return program
    message = "This machine has no PgBouncer: install one (Debian: pgbouncer)."
    raise NoPooler(message)


@contextmanager
def before(url: str, *, mode: Mode = "transaction", size: int = 3) -> Iterator[str]:
    """Run one that has `size` sessions of the server; the database's URL there."""
    program, parts, port = find(), urlsplit(url), _free_port()
    with tempfile.TemporaryDirectory(dir=place(), prefix="pooler-") as folder:
        config = _configure(Path(folder), parts, port, mode, size)
        process = subprocess.Popen(
            ["/bin/sh", "-c", KEPT, program, str(config)],
            stdin=subprocess.PIPE,
            **keeper.unprivileged(),
        )
        there = f"{parts.username}@127.0.0.1:{port}"
        with process:
            try:
                _await_answer(pooled := urlunsplit(parts._replace(netloc=there)))
                yield pooled
            finally:
                assert process.stdin is not None
                process.stdin.close()


def _configure(
    folder: Path, server: SplitResult, port: int, mode: Mode, size: int
) -> Path:
    config = folder / "pgbouncer.ini"
    config.touch(mode=0o600)
    config.write_text(
        f"""
[databases]
* = host={server.hostname} port={server.port} user={server.username} \
password={server.password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
# Whoever reaches this port may do what the test does: nothing of worth.
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 500
logfile = {folder / "log"}
"""
    )
    if os.getuid() == 0:
        for path in (folder, config):
            os.chown(path, keeper.NOBODY, keeper.NOBODY)
    return config


def _await_answer(url: str) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(keeper.LOOK)
        else:
            return
