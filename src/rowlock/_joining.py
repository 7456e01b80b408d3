"""
What an attempt does in its handler's own transaction: hold its job, and complete it.

The worker asks afterwards what became of that transaction; see `_worker/completed.py`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn, Protocol

from rowlock._awaited import awaited
from rowlock._errors import ClaimLost, UsageError
from rowlock._job import ClaimKey, NewJob, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowlock._store import Lent


class Success(Protocol):
    """Where the success of an attempt is written: its worker, asked from any thread."""

    def lent(self, call: str) -> Lent:
        """
        Give what is done on a connection that the handler lends.

        Raises:
            UsageError: there is no such thing where this attempt runs.
        """
        ...

    def success(
        self, key: ClaimKey, result: object, jobs: tuple[NewJob, ...]
    ) -> tuple[Outcome, str | None]:
        """
        Make the outcome, with what follows it, and take the unwritten progress.

        Raises:
            PayloadError: the result can't be stored.
        """
        ...


class Elsewhere:
    """The `Success` of a process that isn't the worker's: there is none."""

    def lent(self, call: str) -> NoReturn:
        """Refuse: the worker couldn't ask what became of it."""
        msg = (
            f'{call}() doesn\'t work in a child process: leave executor="process" away,'
            " and the task runs where its worker does."
        )
        raise UsageError(msg)

    def success(
        self, key: ClaimKey, result: object, jobs: tuple[NewJob, ...]
    ) -> NoReturn:
        """Refuse, as `lent` does."""
        del key, result, jobs
        self.lent("complete")


class Completion:
    """How far an attempt has come with recording its own success."""

    __slots__ = ("is_asked", "is_lent", "is_open", "outcome", "spawned")

    def __init__(self) -> None:
        # Whether a transaction of its handler's may have the job's row.
        self.is_lent = False
        # Whether it had it, as the worker asked last.
        self.is_open = False
        # Whether it may be recorded, or not: only the store knows what became of it.
        self.is_asked = False
        # What was recorded, and the ids of the jobs that it spawned.
        self.outcome: Outcome | None = None
        self.spawned: tuple[int | None, ...] = ()


class Joining:
    """What an attempt can do in the transaction of its handler."""

    __slots__ = ()

    if TYPE_CHECKING:
        _key: ClaimKey
        _spawned: list[NewJob]
        _completion: Completion

        @property
        def _success(self) -> Success: ...

    @awaited("attempt")
    async def hold(self, *, connection: object) -> None:
        """
        Take the job in your transaction: while that lives, nobody else can have it.

        Call it first of all in a transaction that is long, or that isn't READ
        COMMITTED: a renewal of the lease behind its snapshot would be a change that it
        can't see, and make it fail. It can be called in several transactions of an
        attempt, one after the other. Postgres only.

        Raises:
            ClaimLost: another worker may have the job. The transaction can't commit.
            UsageError: this store, this connection or this executor has no such thing,
                or it comes after `complete`.

            >>> from psycopg import AsyncConnection
            >>> from rowlock import App, current_attempt
            >>> app = App("postgresql:///shop")
            >>> @app.task
            ... async def pay(order_id: int) -> None:
            ...     async with await AsyncConnection.connect("dbname=shop") as own:
            ...         await current_attempt().hold(connection=own)
            ...         await own.execute("UPDATE accounts SET balance = balance - 1")
            ...         await current_attempt().complete(connection=own)
        """
        lent = self._holds()
        with self._lending():
            await lent.hold(self._key, connection)

    def hold_sync(self, *, connection: object) -> None:
        """
        Do what `hold` does, on a synchronous connection.

            >>> import psycopg
            >>> from rowlock import App, current_attempt
            >>> app = App("postgresql:///shop")
            >>> @app.task
            ... def pay(order_id: int) -> None:
            ...     with psycopg.connect("dbname=shop") as own:
            ...         current_attempt().hold_sync(connection=own)
            ...         own.execute("UPDATE accounts SET balance = balance - 1")
            ...         current_attempt().complete_sync(connection=own)
        """
        lent = self._holds()
        with self._lending():
            lent.hold_sync(self._key, connection)

    @awaited("attempt")
    async def complete(self, result: object = None, *, connection: object) -> None:
        """
        Record this attempt's success in your transaction, with what you wrote in it.

        Both are there once you commit, or neither: so what the handler does to this
        database happens exactly once. Call it last, then commit. `result` is the job's,
        in place of what the handler returns; jobs spawned before go in, too. Where the
        handler returns and the transaction was rolled back, the attempt has failed
        (`CompletionRolledBack`); where it raises and that has committed, the job has
        succeeded all the same.

        Raises:
            ClaimLost: another worker may have the job. The transaction can't commit.
            PayloadError: the result can't be stored. Nothing is recorded: call it
                again without, or with one that can.
            UsageError: it was called before, or this connection or this executor has
                no such thing.

            >>> from psycopg import AsyncConnection
            >>> from rowlock import App, current_attempt
            >>> app = App("postgresql:///shop")
            >>> @app.task
            ... async def pay(order_id: int) -> None:
            ...     async with await AsyncConnection.connect("dbname=shop") as own:
            ...         await own.execute("UPDATE accounts SET balance = balance - 1")
            ...         await current_attempt().complete(connection=own)
        """
        lent = self._success.lent("complete")
        outcome, progress = self._completes(result)
        with self._lending(completes=True):
            ids = await lent.complete(outcome, connection, progress=progress)
        self._has_completed(outcome, ids)

    def complete_sync(self, result: object = None, *, connection: object) -> None:
        """
        Do what `complete` does, on a synchronous connection.

            >>> import pathlib, sqlite3, tempfile
            >>> from rowlock import App, current_attempt
            >>> shop = pathlib.Path(tempfile.mkdtemp(), "shop.db")
            >>> app = App(f"sqlite:///{shop}")
            >>> @app.task
            ... def order(item: str) -> None:
            ...     with sqlite3.connect(shop) as own:
            ...         own.execute("CREATE TABLE orders (item TEXT)")
            ...         own.execute("INSERT INTO orders VALUES (?)", [item])
            ...         current_attempt().complete_sync({"orders": 1}, connection=own)
            >>> async def main() -> None:
            ...     async with app, app.worker():
            ...         print((await app.wait(await order.enqueue("tea"), 10)).result)
            >>> import asyncio
            >>> asyncio.run(main())
            {'orders': 1}
        """
        lent = self._success.lent("complete")
        outcome, progress = self._completes(result)
        with self._lending(completes=True):
            ids = lent.complete_sync(outcome, connection, progress=progress)
        self._has_completed(outcome, ids)

    def _holds(self) -> Lent:
        # Where that transaction has succeeded there is no row, and it would fail.
        self._check_incomplete("hold")
        return self._success.lent("hold")

    def _completes(self, result: object) -> tuple[Outcome, str | None]:
        self._check_incomplete("complete")
        return self._success.success(self._key, result, tuple(self._spawned))

    @contextmanager
    def _lending(self, *, completes: bool = False) -> Iterator[None]:
        """Lend a connection; whatever comes of it, it is asked for from now on."""
        completion = self._completion
        was_lent, was_asked = completion.is_lent, completion.is_asked
        completion.is_lent, completion.is_asked = True, was_asked or completes
        try:
            yield
        except UsageError:
            completion.is_lent, completion.is_asked = was_lent, was_asked
            raise
        except ClaimLost:
            # Nothing can be recorded, and what it comes to is for the fence to judge.
            completion.is_asked = was_asked
            raise

    def _has_completed(self, outcome: Outcome, spawned: tuple[int | None, ...]) -> None:
        self._completion.outcome, self._completion.spawned = outcome, spawned

    def _check_incomplete(self, call: str) -> None:
        if self._completion.outcome is not None:
            msg = (
                f"{call}() comes too late: this attempt of job {self._key.job_id} has"
                " called complete(). Commit that transaction and return; where it was"
                " rolled back, raise, and the next attempt does all of it again."
            )
            raise UsageError(msg)
