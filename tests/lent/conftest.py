"""A program that lends a connection of each kind, and the app of its jobs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rowlock import App, KeyedTask

from .callers import Awaited, Caller
from .kinds import KINDS, Kind


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    """A kind of connection."""
    found: Kind = request.param
    return found


@pytest.fixture
def address(
    kind: Kind, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[str]:
    """Where the database is, as a driver takes it: a URL, or a path."""
    if kind.store == "sqlite":
        path = str(tmp_path / "shop.db")
        with closing(sqlite3.connect(path)) as own:
            own.execute("CREATE TABLE orders (item TEXT)")
        yield path
        return
    url: str = request.getfixturevalue("url")
    with psycopg.connect(url, autocommit=True) as own:
        own.execute("CREATE TABLE orders (item text)")
    yield url


@pytest.fixture
def app(kind: Kind, address: str) -> Iterator[App]:
    """The app on that database."""
    app = App(f"sqlite:///{address}" if kind.store == "sqlite" else address)

    @app.task
    def mail(to: str) -> None: ...

    with app:
        yield app


@pytest.fixture
def mail(app: App) -> KeyedTask[..., Any]:
    """Its task."""
    return app.tasks["mail"]


@pytest.fixture
def caller(kind: Kind, address: str, app: App) -> Iterator[Caller]:
    """A program that commits by itself."""
    yield from calling(kind.make(address, autocommit=False), app)


@pytest.fixture
def quick_caller(kind: Kind, address: str, app: App) -> Iterator[Caller]:
    """A program whose connection is in autocommit."""
    yield from calling(kind.make(address, autocommit=True), app)


def calling(caller: Caller, app: App) -> Iterator[Caller]:
    yield caller
    caller.close()
    if isinstance(caller, Awaited):
        caller.end(app)
