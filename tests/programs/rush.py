"""
A worker that also does all that others do to a database, again and again.

It enqueues, reads as a dashboard does, cancels and prunes, in a thread of its own and
until the gate `enough` opens. Written down is what goes wrong, and each statement that
writes without having begun as a writer.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from rowlock import App, Retention, Status, Task
from rowlock.stores.sqlite.store import SQLiteStore
from rowlock.stores.sqlite.url import read_url
from tests.journal import Gate, Journal
from tests.serve import serve

ENOUGH_DUE = 100
AT_ONCE = Retention(succeeded=timedelta(0), cancelled=timedelta(0), failed=timedelta(0))
WRITES = {"INSERT", "UPDATE", "DELETE", "REPLACE", "CREATE", "DROP", "ALTER"}


def watch_writes(journal: Journal, seen: Counter[str]) -> Callable[[str], None]:
    """Follow the statements of each connection; each has a thread of its own."""
    transaction = threading.local()

    def watch(statement: str) -> None:
        word, _, rest = statement.lstrip().partition(" ")
        if word == "BEGIN":
            transaction.is_immediate = rest.strip() == "IMMEDIATE"
        elif word in ("COMMIT", "ROLLBACK") and not rest.startswith("TO"):
            transaction.is_immediate = False
        elif word in WRITES:
            seen["writes"] += 1
            if not getattr(transaction, "is_immediate", False):
                journal.record("unannounced write", statement=statement)

    return watch


def register(app: App, journal: Journal) -> None:
    seen: Counter[str] = Counter()
    app._access.store = SQLiteStore(
        read_url(app.url), trace=watch_writes(journal, seen)
    )

    @app.task
    async def step() -> None: ...

    @app.task
    async def nap() -> None:
        await asyncio.sleep(1)  # long enough to be renewed

    def rush() -> None:
        gate = Gate(journal.folder, "enough")
        rounds = 0
        while not gate.is_open():
            rounds += 1
            try:
                act(app, journal, [step] * 9 + [nap])
            except Exception as error:  # noqa: BLE001 - whatever comes is a failure
                journal.record("error", error=repr(error))
            time.sleep(random.uniform(0.001, 0.01))  # the rhythm of a busy program
        journal.record("rushed", rounds=rounds, writes=seen["writes"])

    threading.Thread(target=rush).start()


def act(app: App, journal: Journal, tasks: list[Task[[], Any]]) -> None:
    """Do once what everybody does."""
    if sum(queue.due for queue in app.stats_sync().queues) < ENOUGH_DUE:
        ids = app.enqueue_many_sync(task.job() for task in tasks)
        (answer,) = app.cancel_sync(ids[random.randrange(len(ids))] or 0)
        if answer.status is Status.CANCELLED:
            journal.record("cancelled", job_id=answer.job_id)
    app.list_sync(limit=50)
    app._portal.run(app._store.prune(AT_ONCE, limit=100), "prune")


if __name__ == "__main__":
    serve(register)
