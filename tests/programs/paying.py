"""A worker whose handler writes a row and completes in one transaction, at gates."""

from __future__ import annotations

from pathlib import Path

import psycopg

from rowlock import App, ClaimLost, current_attempt
from tests.journal import Gate, Journal
from tests.serve import serve

LEVELS = {
    "read committed": psycopg.IsolationLevel.READ_COMMITTED,
    "repeatable read": psycopg.IsolationLevel.REPEATABLE_READ,
    "serializable": psycopg.IsolationLevel.SERIALIZABLE,
}


def gate(folder: Path, level: str, before: str) -> Gate:
    """Give the gate before a step: `complete`, `commit` or `return`."""
    return Gate(folder, f"{level}-{before}".replace(" ", "-"))


def register(app: App, journal: Journal) -> None:
    async def passed(level: str, before: str) -> None:
        await gate(journal.folder, level, before).passed()

    @app.task(max_attempts=5, backoff=0)
    async def pay(url: str, level: str, *, holds: bool) -> None:
        attempt = current_attempt()
        async with await psycopg.AsyncConnection.connect(url) as own:
            await own.set_isolation_level(LEVELS[level])
            if holds:
                await attempt.hold(connection=own)
            await own.execute("INSERT INTO paid VALUES (%s)", (attempt.job_id,))
            journal.record("paid", job_id=attempt.job_id, number=attempt.number)
            await passed(level, "complete")
            try:
                await attempt.complete(connection=own)
            except (ClaimLost, psycopg.errors.SerializationFailure) as error:
                journal.record("refused", kind=type(error).__name__)
                raise
            journal.record("completed", number=attempt.number)
            await passed(level, "commit")
        journal.record("committed", number=attempt.number)
        await passed(level, "return")

    @app.task(max_attempts=1)
    async def tick() -> None:
        """Do nothing, for a job that must not wait for those."""


if __name__ == "__main__":
    serve(register)
