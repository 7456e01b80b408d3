"""
Which database a command works on, for verbs that need no handlers.

It is the one that a worker started in this folder would use, unless `--database` says
another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

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
