"""A user's folder with an app in it, and `rowlock` run there."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rowlock import App, Task
from rowlock.stores.postgres import PostgresStore
from rowlock.testing import FakeClock

from . import supervising
from .command_line import SHOP, Command, OnTerminal, run_on_terminal
from .postgres_given import opened


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder, whose modules are forgotten afterwards."""
    for variable in ("ROWLOCK_APP", "ROWLOCK_DATABASE_URL", "DATABASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def shop(folder: Path) -> Path:
    """A working folder with `shop.py` in it."""
    (folder / "shop.py").write_text(SHOP)
    return folder


@pytest.fixture
def start(folder: Path) -> Iterator[type[Command]]:  # noqa: ARG001 - it runs there
    """Start `rowlock` as a process; what still runs at the end is killed."""
    Command.started = []
    yield Command
    for command in Command.started:
        command.kill()


@pytest.fixture
def on_terminal(folder: Path) -> OnTerminal:  # noqa: ARG001 - it runs there
    """Run `rowlock` on a terminal."""
    return run_on_terminal


@pytest.fixture
def own(each_url: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A user's connection to the test's database, in autocommit."""
    with psycopg.connect(each_url, autocommit=True) as own:
        yield own


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    """An open Postgres store on the test's database."""
    async with opened(url) as store:
        yield store


@pytest.fixture
async def noting_app(database_url: str, clock: FakeClock) -> AsyncIterator[App]:
    """An app with one task, at a time that stands still."""
    app = App(database_url, clock=clock)

    @app.task(max_attempts=1)
    def note(number: int = 0) -> int:
        if number < 0:
            raise ValueError(number)
        return number

    async with app:
        yield app


@pytest.fixture
def note(noting_app: App) -> Task[..., Any]:
    """The app's task."""
    return noting_app.tasks["note"]


@pytest.fixture
async def crew(
    folder: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[App]:
    """A working folder with that app, on each store, and the same app in here."""
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", database_url)
    async with supervising.app_of(folder, "shop", supervising.SHOP) as app:
        yield app
