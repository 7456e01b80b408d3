"""The embedded store: SQLite in process, from the standard library."""

from rowlock.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
