"""
The seam for what joins a transaction that the caller lends, and for what became of it.

A store gives `Lent`. What is done in such a transaction stands or falls with it, so a
store knows only afterwards, and by asking, what has come of a claim (`Fate`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Protocol

from rowlock._job import ClaimKey, NewJob, Outcome


class Fate(Enum):
    """What became of a claim that was to be completed in its handler's transaction."""

    SUCCEEDED = auto()
    """The transaction has committed, or the job is gone: only what ended can be."""
    OPEN = auto()
    """A live transaction has the row: ask again."""
    RUNNING = auto()
    """The transaction has rolled back, and the claim holds."""
    LOST = auto()
    """It has rolled back, and the job is somebody else's."""


class Lent(Protocol):
    """What can be done on a connection that the caller lends."""

    @property
    def makes_schema(self) -> bool:
        """Whether the enqueue makes what it needs by itself, where nobody has."""
        ...

    def keeps_out(self, connection: object) -> bool:
        """
        Whether this connection's transaction may lock out a store that isn't open.

        Then nobody opens it: the enqueue makes what it needs in that transaction.
        """
        ...

    async def enqueue(
        self, jobs: Sequence[NewJob], connection: object
    ) -> Sequence[int | None]:
        """Insert jobs in the caller's transaction, as `Store.enqueue` does (law 2)."""
        ...

    def enqueue_sync(
        self, jobs: Sequence[NewJob], connection: object
    ) -> Sequence[int | None]:
        """Do the same on a synchronous connection, in this thread."""
        ...

    async def once(self, key: str, connection: object) -> bool:
        """
        Take a key in the caller's transaction; False: it was taken before.

        Waits for another transaction that is taking it. Where that rolls back, or this
        one does, nobody has taken it.
        """
        ...

    def once_sync(self, key: str, connection: object) -> bool:
        """Do the same on a synchronous connection, in this thread."""
        ...

    async def hold(self, key: ClaimKey, connection: object) -> None:
        """
        Take a claim's row in the caller's transaction: while it lives nobody ends it.

        Raises:
            ClaimLost: the fence doesn't hold, and the transaction can't commit.
        """
        ...

    def hold_sync(self, key: ClaimKey, connection: object) -> None:
        """Do the same on a synchronous connection, in this thread."""
        ...

    async def complete(
        self, outcome: Outcome, connection: object, *, progress: str | None = None
    ) -> tuple[int | None, ...]:
        """
        Write a success in the caller's transaction, with the jobs it spawns (law 7).

        `progress` is the last word of it, if it is unwritten. Gives the ids of what is
        spawned, None for a duplicate. A cancel that was asked is too late.

        Raises:
            ClaimLost: the fence doesn't hold, and the transaction can't commit.
        """
        ...

    def complete_sync(
        self, outcome: Outcome, connection: object, *, progress: str | None = None
    ) -> tuple[int | None, ...]:
        """Do the same on a synchronous connection, in this thread."""
        ...

    async def settled(self, keys: Sequence[ClaimKey]) -> Sequence[Fate]:
        """
        Tell what became of claims that were to be completed; an answer a key, in order.

        Waits for no transaction of a user's, and changes nothing.
        """
        ...
