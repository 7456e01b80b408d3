"""
The stores, each imported on first use.

`connect` tells them apart by the scheme of the URL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock._errors import ConfigError

if TYPE_CHECKING:
    from rowlock._clock import Clock
    from rowlock._store import Store

_POSTGRES = ("postgres", "postgresql", "postgresql+psycopg", "postgresql+asyncpg")


def connect(url: str, *, clock: Clock | None = None) -> Store:
    """
    Give the store that a URL names, not opened yet.

        >>> connect("sqlite://").url
        'sqlite:///:memory:'

    Raises:
        ConfigError: no store has this scheme, or the URL can't be one of its own.
    """
    if not isinstance(url, str):
        msg = f"A database URL is a text, as sqlite:///jobs.db, not {url!r}."
        raise ConfigError(msg)
    scheme, separator, _ = url.partition("://")
    if not separator:
        msg = f"{_shown(url)!r} isn't a database URL: write it as sqlite:///jobs.db."
        raise ConfigError(msg)
    if scheme == "sqlite":
        from rowlock.stores import sqlite  # noqa: PLC0415 - imported on first use

        return sqlite.SQLiteStore.from_url(url, clock=clock)
    if scheme in _POSTGRES:
        return _postgres(url, clock)
    msg = (
        f"There is no store for {scheme}://: the schemes that work are sqlite://"
        " (sqlite:///jobs.db) and postgresql:// (postgresql://user@host/database)."
    )
    raise ConfigError(msg)


def _postgres(url: str, clock: Clock | None) -> Store:
    try:
        from rowlock.stores import postgres  # noqa: PLC0415 - imported on first use
    except ImportError as error:
        if "psycopg" not in f"{error.name} {error}" and "pq wrapper" not in str(error):
            raise
        msg = (
            "The driver for PostgreSQL can't be imported: run"
            f" pip install 'rowlock[postgres]'. ({error})"
        )
        raise ConfigError(msg) from error
    return postgres.PostgresStore.from_url(url, clock=clock)


def _shown(url: str) -> str:
    """Leave out what may be a password."""
    return url.rpartition("@")[2]
