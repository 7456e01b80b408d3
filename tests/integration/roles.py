"""Roles of a server for one test: an owner, a worker, a producer, a stranger."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

PASSWORD = "its own"  # noqa: S105 - of roles that live as long as a test


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A role, and the URL with which it connects to the test's database."""

    name: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Who there is; `admin` made them."""

    admin: str
    owner: Role
    worker: Role
    producer: Role
    stranger: Role


@contextmanager
def cast(url: str) -> Iterator[Cast]:
    """Make the roles, and drop them with all that is theirs in this database."""
    mark = secrets.token_hex(4)
    # A role may have any name, too.
    roles = {
        who: Role(name=f"{who} {mark}", url=_url(url, f"{who} {mark}"))
        for who in ("owner", "worker", "producer", "stranger")
    }
    made = Cast(admin=url, **roles)
    with psycopg.connect(url, autocommit=True) as admin:
        for role in roles.values():
            _run(admin, f"CREATE ROLE {{}} LOGIN PASSWORD '{PASSWORD}'", role.name)
        owner = made.owner.name
        _run(admin, "GRANT CREATE ON DATABASE {} TO {}", _database(url), owner)
        _run(admin, "GRANT {} TO {}", made.worker.name, owner)
    try:
        yield made
    finally:
        with psycopg.connect(url, autocommit=True) as admin:
            for role in roles.values():
                _run(admin, "DROP OWNED BY {} CASCADE", role.name)
            for role in roles.values():
                _run(admin, "DROP ROLE {}", role.name)


def _url(url: str, user: str) -> str:
    parts = urlsplit(url)
    user = f"{user}:{PASSWORD}".replace(" ", "%20")
    server = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}@{server}"))


def _database(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


def _run(
    admin: psycopg.Connection[tuple[Any, ...]], statement: str, *names: str
) -> None:
    admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))
