"""A claim in its handler's own transaction: held, completed, and what became of it."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TypeAlias
from weakref import WeakKeyDictionary

from rowlock._errors import ClaimLost, WrongConnection
from rowlock._job import ClaimKey, NewJob, Outcome, Status
from rowlock._keys import spawned_of
from rowlock._store import Fate
from rowlock.stores import guests
from rowlock.stores.postgres import rows
from rowlock.stores.postgres.errors import Locked
from rowlock.stores.postgres.guests import Guest, Steps
from rowlock.stores.postgres.sessions import Row, Session

Ids: TypeAlias = tuple[int | None, ...]
Enqueue: TypeAlias = Callable[[Guest, Sequence[NewJob]], Steps[Ids]]

# What the schema's `hold` raises, and what the server does, by SQLSTATE.
_FENCED = "RL001"
_SERIALIZATION_FAILURE = "40001"


class Holders:
    """Which connections have held which claim last, of those that live."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._held: WeakKeyDictionary[object, ClaimKey] = WeakKeyDictionary()

    def add(self, connection: object, key: ClaimKey) -> None:
        """Note that a connection has held a claim."""
        with self._lock:
            self._held[connection] = key

    @contextmanager
    def waited_for(self, connection: object, key: ClaimKey) -> Iterator[None]:
        """
        Say that it is the handler's own transaction that has the row.

        Raises:
            WrongConnection: the row is locked, and another connection has held it.
        """
        try:
            yield
        except Locked as error:
            with self._lock:
                held = list(self._held.items())
            if not any(each == key and other is not connection for other, each in held):
                raise
            msg = (
                f"This attempt holds job {key.job_id} on another connection, whose"
                " transaction is still open: call hold() and complete() on one"
                " connection, or end that transaction first. Roll this one back."
            )
            raise WrongConnection(msg) from error


def hold(guest: Guest, key: ClaimKey, holders: Holders) -> Steps[None]:
    """Take a claim's row (law 6)."""
    check_transaction(guest, "hold")
    with holders.waited_for(guest.connection, key), _fenced(key):
        yield "hold", _of(key)
    holders.add(guest.connection, key)


def complete(
    guest: Guest,
    outcome: Outcome,
    progress: str | None,
    *,
    holders: Holders,
    enqueue: Enqueue,
) -> Steps[Ids]:
    """Record a success, then add the jobs that it spawns (law 7)."""
    check_transaction(guest, "complete")
    values = {
        "result": outcome.result,
        "meta": rows.maybe_json(outcome.meta),
        "progress": progress,
    }
    try:
        with holders.waited_for(guest.connection, outcome.key), _fenced(outcome.key):
            yield "complete", _of(outcome.key) | values
        if not outcome.spawned:
            return ()
        return (yield from enqueue(guest, list(map(spawned_of, outcome.spawned))))
    except (Exception, CancelledError):
        # No success must be committed without its jobs, or that nobody was told of: if
        # there is one, the claim is over by now, so that this fails the transaction.
        with suppress(Exception):
            yield "hold", _of(outcome.key)
        raise


def _of(key: ClaimKey) -> dict[str, str | None]:
    return {"id": str(key.job_id), "claim": str(key.claim)}


def check_transaction(guest: Guest, call: str) -> None:
    """Refuse a connection that would commit what is done on it by itself."""
    if guest.commits:
        raise guests.alone(call)


@contextmanager
def _fenced(key: ClaimKey) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # The driver's own error is what is raised, or the cause of it.
        states = {_state(each) for each in (error, error.__cause__)}
        if _FENCED in states:
            raise ClaimLost(*key) from error
        if _SERIALIZATION_FAILURE in states:
            error.add_note(
                "The job's row was changed after this transaction's snapshot, as by a"
                " renewal of the lease: `hold` as the first statement of a transaction"
                " keeps renewals out."
            )
        raise


def _state(error: BaseException | None) -> str | None:
    # psycopg2 has a name of its own for it.
    found: str | None = getattr(error, "sqlstate", getattr(error, "pgcode", None))
    return found


async def settled(session: Session, keys: Sequence[ClaimKey]) -> tuple[Fate, ...]:
    """Tell what became of claims that were to be completed."""
    found = await session.run(
        "settled",
        ids=rows.numbers([key.job_id for key in keys]),
        claims=rows.numbers([key.claim for key in keys]),
    )
    stands = {row[0]: row[1:] for row in found}
    return tuple(_fate(key, stands.get(key.job_id)) for key in keys)


def _fate(key: ClaimKey, stand: Row | None) -> Fate:
    if stand is None:
        # Only what has ended is deleted or pruned: it did so within a moment.
        return Fate.SUCCEEDED
    status, claims, is_free = stand
    if claims != key.claim or status not in (Status.RUNNING, Status.SUCCEEDED):
        return Fate.LOST
    if status == Status.SUCCEEDED:
        return Fate.SUCCEEDED
    return Fate.RUNNING if is_free else Fate.OPEN
