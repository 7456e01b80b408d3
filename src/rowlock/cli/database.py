"""
Which database a command works on, for verbs that need no handlers.

It is the one that a worker started in this folder would use, unless `--database` says
another.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote

from rowlock._app import App
from rowlock._errors import StoreUnavailable, UsageError
from rowlock.cli.discovery import app_name, load
from rowlock.cli.parameters import Place

if TYPE_CHECKING:
    from rowlock._store import Store

R = TypeVar("R")

MEMORY = "sqlite:///:memory:"


@contextmanager
def opened(place: Place) -> Iterator[App]:
    """
    Give an app on the database that is meant, and let go of it at the end.

    `--database` first; else the app's own; else what `App()` reads.

    Raises:
        StoreUnavailable: there is no such file; looking must not make one.
        UsageError: it is in memory, and not in this process's.
    """
    name = None if place.database else app_name(place.named_app)
    app = load(name) if name else App(place.database)
    _refuse_missing(app)
    try:
        yield app
    finally:
        app.close_sync()


def file_of(app: App) -> Path | None:
    """Tell which file an app's jobs are in, None where it isn't one."""
    scheme, _, path = app.url.partition(":///")
    # Quoted as a URL is: a space or an accent isn't there as itself.
    return Path(unquote(path)) if scheme == "sqlite" and app.url != MEMORY else None


def asked(app: App, question: Callable[[Store], Awaitable[R]]) -> R:
    """Ask an app's store what no call of the app does."""

    async def ask() -> R:
        await app.open()
        return await question(app._store)

    return app._portal.run(ask(), "the question")


def now_of(app: App) -> datetime:
    """Tell a store's time: how far an instant is depends on no other clock."""
    return asked(app, lambda store: store.figures.now())


def refuse_memory(app: App) -> None:
    """Refuse a database that lives no longer than this command."""
    if app.url == MEMORY:
        msg = (
            "This app's database is in memory, so its jobs are in the process that"
            " runs it and nowhere else: give it a file, as in App('sqlite:///jobs.db')."
        )
        raise UsageError(msg)


def _refuse_missing(app: App) -> None:
    refuse_memory(app)
    file = file_of(app)
    if file is not None and not file.exists():
        msg = (
            f"There is no database {file}: run this where the worker runs, or name the"
            " database with --database or -A."
        )
        raise StoreUnavailable(msg)
