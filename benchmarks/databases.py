"""
A fresh database for each run, and what its server burns.

Postgres is the one that `--url` names, where a database of our own is made, or else a
cluster of the tests' kind with fsync on. An embedded store has no server.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from rowlock import App
from tests.cluster.binaries import find
from tests.cluster.databases import drop, with_database
from tests.cluster.keeper import postmaster
from tests.cluster.membership import own

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where databases are made."""

    store: str
    admin_url: str = ""
    server: int | None = None
    """The process of the server, where it runs here."""

    @asynccontextmanager
    async def fresh_app(self) -> AsyncIterator[tuple[App, str]]:
        """Give an app on a database of its own, and the URL of that."""
        with self._fresh_url() as url:
            app = App(url)
            await app._store.migrate()
            async with app:
                yield app, url

    @contextmanager
    def _fresh_url(self) -> Iterator[str]:
        if self.store == "sqlite":
            with tempfile.TemporaryDirectory(prefix="rowlock-bench-") as folder:
                yield f"sqlite:///{Path(folder) / 'bench.db'}"
            return
        name = f"rowlock_bench_{secrets.token_hex(4)}"
        with psycopg.connect(self.admin_url, autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name}")
            try:
                yield with_database(self.admin_url, name)
            finally:
                drop(admin, name)

    def server_cpu_s(self) -> float | None:
        """Tell what the server and its children have burnt; None if it isn't here."""
        if self.server is None:
            return None
        total = 0.0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            is_server = int(stat.parent.name) == self.server
            if is_server or int(fields[1]) == self.server:
                # Of the server itself those of its children too that have ended.
                last = 15 if is_server else 13
                total += sum(map(int, fields[11:last])) / TICKS_PER_S
        return total


@contextmanager
def place(store: str, url: str | None) -> Iterator[Place]:
    """Find where to make databases for a store."""
    if store == "sqlite":
        yield Place(store=store)
        return
    with ExitStack() as stack:
        if url is None:
            cluster = stack.enter_context(own(find(), fsync=True))
            found = postmaster(cluster.directory)
            yield Place(
                store=store, admin_url=cluster.url, server=found[0] if found else None
            )
        else:
            yield Place(store=store, admin_url=url, server=_server_of(url))


def _server_of(url: str) -> int | None:
    """Find the server's process by that of a session, where it runs here."""
    with psycopg.connect(url) as connection:
        info = connection.info
        if info.host not in {"127.0.0.1", "localhost", "::1"} | _folders(info.host):
            return None
        try:
            stat = Path(f"/proc/{info.backend_pid}/stat").read_text()
        except OSError:
            return None
        return int(stat.rpartition(")")[2].split()[1])


def _folders(host: str) -> set[str]:
    return {host} if host.startswith("/") else set()
