"""What is to be done once, by callers that are no jobs."""

from __future__ import annotations

from rowlock._access import Reaching
from rowlock._awaited import awaited
from rowlock._errors import UsageError
from rowlock._options import check_name


class Once(Reaching):
    """The part of an app that says who comes first."""

    @awaited("app")
    async def once(self, key: str, *, connection: object) -> bool:
        """
        Say whether a key comes for the first time: true for one caller only.

        It is for effects in your own database that no job brings about, as those of a
        webhook that is delivered twice. The key is taken in the transaction of your
        `connection`, so it is there if your effect is. A second caller waits until the
        first has committed, and is told false, or has rolled back, and is the first.
        Under REPEATABLE READ and SERIALIZABLE who waited gets the driver's
        serialization error instead. Keys are remembered for `Retention(once=)`, 30 days
        unless set, and are the same for the whole database: put a name before them.

            >>> from rowlock import App
            >>> async def receive(connection: object, delivery: str) -> None:
            ...     if await App().once(f"billing:{delivery}", connection=connection):
            ...         ...  # your statements, on that connection
        """
        checked = check_once(key, connection, "once")
        if not self._store.lent.keeps_out(connection):
            await self._access.open_beside()
        return await self._store.lent.once(checked, connection)

    def once_sync(self, key: str, *, connection: object) -> bool:
        """
        Do what `once` does, on a synchronous connection.

            >>> import sqlite3, tempfile
            >>> from rowlock import App
            >>> file = tempfile.NamedTemporaryFile(suffix=".db")
            >>> with App(f"sqlite:///{file.name}") as app:
            ...     with sqlite3.connect(file.name) as own:
            ...         app.once_sync("a", connection=own)
            True
        """
        checked = check_once(key, connection, "once_sync")
        if not self._store.lent.keeps_out(connection):
            self._portal.wait(self._access.open_beside())
        return self._store.lent.once_sync(checked, connection)


def check_once(key: object, connection: object, call: str) -> str:
    """Read the key of a call of `once`, and see that it has a transaction."""
    if connection is None:
        msg = (
            f"app.{call} takes the connection whose transaction has the effect, as in"
            f" app.{call}(key, connection=connection): a key that is taken apart from"
            " it would stay where the effect is rolled back."
        )
        raise UsageError(msg)
    return check_name(key, "key=")
