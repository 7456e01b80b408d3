"""
Which database a command works on, for verbs that need no handlers.

It is the one that a worker started in this folder would use, unless `--database` says
another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rowlock._app import App
from rowlock._errors import StoreUnavailable
from rowlock.cli.discovery import app_name, load


@contextmanager
def opened(database: str | None, named_app: str | None) -> Iterator[App]:
    """
    Give an app on the database that is meant, and let go of it at the end.

    `--database` first; else the app's own; else what `App()` reads.

    Raises:
        StoreUnavailable: there is no such file; looking must not make one.
    """
    name = None if database else app_name(named_app)
    app = load(name) if name else App(database)
    _refuse_missing(app)
    try:
        yield app
    finally:
        app.close_sync()


def file_of(app: App) -> Path | None:
    """Tell which file an app's jobs are in, None where it isn't one."""
    path = app.url.removeprefix("sqlite:///")
    return None if path in (app.url, ":memory:") else Path(path)


def _refuse_missing(app: App) -> None:
    file = file_of(app)
    if file is not None and not file.exists():
        msg = (
            f"There is no database {file}: run this where the worker runs, or name the"
            " database with --database or -A."
        )
        raise StoreUnavailable(msg)
