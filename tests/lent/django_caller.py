"""A program with a database of Django's, which is made while the tests run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import django
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

from .callers import Sync

_numbers = itertools.count()

if not settings.configured:
    settings.configure(DATABASES={}, USE_TZ=True, LOGGING_CONFIG=None)
    django.setup()


@contextmanager
def django_wrapper(url: str, *, proxy: bool = False) -> Iterator[Any]:
    """Have a database by an alias of its own; its wrapper, or Django's proxy of it."""
    from django.db import connections  # noqa: PLC0415 - once it is configured
    from django.utils.connection import ConnectionProxy  # noqa: PLC0415 - as above

    alias = f"case{next(_numbers)}"
    configured = connections.configure_settings({"default": {}, alias: _database(url)})
    connections.settings[alias] = configured[alias]
    try:
        yield ConnectionProxy(connections, alias) if proxy else connections[alias]
    finally:
        connections[alias].close()
        del connections[alias]
        del connections.settings[alias]


def _database(url: str) -> dict[str, Any]:
    if not url.startswith("postgres"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": url}
    told = conninfo_to_dict(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": told.pop("dbname"),
        "USER": told.pop("user", ""),
        "PASSWORD": told.pop("password", ""),
        "HOST": told.pop("host", ""),
        "PORT": told.pop("port", ""),
        "OPTIONS": told,
    }


class Django(Sync):
    """A database of Django's; in `atomic`, where it isn't to be in autocommit."""

    def __init__(self, url: str, *, autocommit: bool, proxy: bool = False) -> None:
        from django.db import transaction  # noqa: PLC0415 - once it is configured

        self.made = ExitStack()
        self.lent = self.made.enter_context(django_wrapper(url, proxy=proxy))
        self.transaction = transaction
        self.atomic = None if autocommit else self._begun()

    def _begun(self) -> Any:
        atomic = self.transaction.atomic(self.lent.alias)
        atomic.__enter__()
        return atomic

    def run(self, statement: str) -> None:
        with self.lent.cursor() as cursor:
            cursor.execute(statement)

    def commit(self) -> None:
        if self.atomic is not None:
            self.atomic.__exit__(None, None, None)
            self.atomic = self._begun()

    def rollback(self) -> None:
        if self.atomic is not None:
            self.lent.set_rollback(True)
            self.commit()

    @contextmanager
    def undone(self) -> Iterator[None]:
        with self.transaction.atomic(self.lent.alias):
            yield
            self.lent.set_rollback(True)

    def close(self) -> None:
        if self.atomic is not None:
            self.lent.set_rollback(True)
            self.atomic.__exit__(None, None, None)
        self.made.close()
