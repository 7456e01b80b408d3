"""Databases of a session, each cloned from a template that is made once."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
from psycopg import sql

from tests.cluster.binaries import find
from tests.cluster.membership import joined, place
from tests.cluster.server import Cluster

# The first half of our advisory locks' keys; the second is the session's number,
# whose shared lock says that the session lives, or 0 for who makes a template.
LOCKS = 0x726F776C
MAKING = 0
PREFIX = "rowlock_test_"

Connection = psycopg.Connection[tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Databases:
    """The databases of one session on one server."""

    admin_url: str
    session: str
    prepare: Callable[[str], None] | None = None
    """Fills the template, given its URL, once per session; closes its connections."""
    cluster: Cluster | None = None
    """None where the server was given by a URL: it is somebody else's to stop."""

    @property
    def prefix(self) -> str:
        return f"{PREFIX}{number(self.session):x}_"

    def clone(self) -> str:
        """Make a database from the template, and answer with its URL."""
        with self._admin() as admin:
            return self._create(admin, self._template(admin))

    def empty(self, name: str | None = None) -> str:
        """Make a database with nothing in it, and answer with its URL."""
        with self._admin() as admin:
            return self._create(admin, "template0", name)

    def drop(self, url: str) -> None:
        """Drop it, whoever is connected."""
        with self._admin() as admin:
            drop(admin, database_of(url))

    def _admin(self) -> Connection:
        return psycopg.connect(self.admin_url, autocommit=True)

    def _create(self, admin: Connection, template: str, name: str | None = None) -> str:
        name = name or self.prefix + secrets.token_hex(4)
        # A copy of files is three times as fast here as one through the WAL.
        statement = "CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY"
        admin.execute(
            sql.SQL(statement).format(sql.Identifier(name), sql.Identifier(template))
        )
        return with_database(self.admin_url, name)

    def _template(self, admin: Connection) -> str:
        name = f"{self.prefix}template"
        admin.execute("SELECT pg_advisory_lock(%s, %s)", (LOCKS, MAKING))
        try:
            if name not in names(admin, self.prefix):
                self._make_template(admin, name)
        finally:
            admin.execute("SELECT pg_advisory_unlock(%s, %s)", (LOCKS, MAKING))
        return name

    def _make_template(self, admin: Connection, name: str) -> None:
        # Under another name until it is whole: who dies in between leaves none.
        url = self._create(admin, "template0")
        if self.prepare is not None:
            self.prepare(url)
        made = sql.Identifier(database_of(url))
        admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(made))
        admin.execute(
            sql.SQL("ALTER DATABASE {} RENAME TO {}").format(made, sql.Identifier(name))
        )


@contextmanager
def of_session(
    session: str, choice: str = "", prepare: Callable[[str], None] | None = None
) -> Iterator[Databases]:
    """
    The databases of a session, on the server that the environment names or on ours.

    They go with the session's last process.
    """
    if url := os.environ.get("ROWLOCK_TEST_POSTGRES_URL"):
        databases = Databases(admin_url=url, session=session, prepare=prepare)
        with given(databases):
            yield databases
        return
    binaries = find(choice)
    make = partial(Cluster.make, binaries=binaries)
    with joined(f"{session}-{binaries.version}", place(), make) as cluster:
        yield Databases(
            admin_url=cluster.url, session=session, prepare=prepare, cluster=cluster
        )


@contextmanager
def given(databases: Databases) -> Iterator[None]:
    """
    Keep a server that isn't ours clean: the session's last process drops them all.

    A session lives while one of its processes holds its lock in shared mode, and the
    server takes that back from who was killed; of dead ones the next removes what
    they left.
    """
    own = number(databases.session)
    with psycopg.connect(databases.admin_url, autocommit=True) as admin:
        admin.execute("SELECT pg_advisory_lock_shared(%s, %s)", (LOCKS, own))
        sessions = {int(name.split("_")[2], 16) for name in names(admin, PREFIX)}
        for other in sessions - {own}:
            _drop_dead(admin, other)
        try:
            yield
        finally:
            admin.execute("SELECT pg_advisory_unlock_shared(%s, %s)", (LOCKS, own))
            _drop_dead(admin, own)


def _drop_dead(admin: Connection, session: int) -> None:
    lock = admin.execute("SELECT pg_try_advisory_lock(%s, %s)", (LOCKS, session))
    if lock.fetchone() == (True,):
        for name in names(admin, f"{PREFIX}{session:x}_"):
            drop(admin, name)
        admin.execute("SELECT pg_advisory_unlock(%s, %s)", (LOCKS, session))


def names(admin: Connection, prefix: str) -> list[str]:
    """The databases whose names start so."""
    found = admin.execute(
        "SELECT datname FROM pg_database WHERE starts_with(datname, %s)", (prefix,)
    )
    return [name for (name,) in found]


def drop(admin: Connection, name: str) -> None:
    admin.execute(
        sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
    )


def number(session: str) -> int:
    """Number a session for a lock: 31 bits, never that of `MAKING`."""
    digest = hashlib.sha256(session.encode()).digest()
    return int.from_bytes(digest[:4], "big") % (2**31 - 1) + 1


def with_database(url: str, name: str) -> str:
    """Let a URL lead to another database of its server."""
    return re.sub(r"^(\w+://[^/?]*)(/[^?]*)?", rf"\1/{name}", url)


def database_of(url: str) -> str:
    found = re.match(r"^\w+://[^/?]*/([^?]+)", url)
    assert found is not None, f"no database in {url}"
    return found[1]
