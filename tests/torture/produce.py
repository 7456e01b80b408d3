"""
One who enqueues all the time, in every way, and writes down what was committed.

What was asked for and got no answer, as its process was killed or the connection broke
in the commit, may be there or not. What was refused or rolled back must not.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg

from rowlock import OutcomeUnknown, StoreUnavailable, Task
from tests.torture import app as tortured
from tests.torture.page import Page

MOST_DUE = 60
KEYS = 6
# How often each is chosen; a keyed job is one of the first kind.
KINDS: dict[Task[[str], Any], int] = {
    tortured.quick: 6,
    tortured.plain: 5,
    tortured.long: 5,
    tortured.long_plain: 4,
    tortured.apart: 2,
    tortured.chancy: 4,
    tortured.at_most_once: 3,
    tortured.snoozed: 2,
    tortured.parent: 3,
    tortured.paid: 6,
    tortured.paid_awaited: 6,
    tortured.paid_long: 3,
    tortured.paid_parent: 4,
}

page = Page("producer")
app = tortured.app


class Producer:
    """Enqueues until its process ends."""

    def __init__(self, seed: str, rate: float) -> None:
        self._chance = random.Random(seed)
        self._rate = rate
        self._count = 0
        self._ids: list[int] = []

    def run(self) -> None:
        while True:
            try:
                self._turn()
            except (StoreUnavailable, OutcomeUnknown):
                pause(0.2)
            pause(self._chance.expovariate(self._rate))

    def _turn(self) -> None:
        chance = self._chance.random()
        if chance < 0.05 and self._ids:
            self._cancel()
        elif chance < 0.15:
            self._wait_for_room()
        elif chance < 0.4:
            self._lend()
        elif chance < 0.5:
            self._several()
        else:
            task, options, mark = self._draw()
            self._hand_over(
                [mark], lambda: [task.options(**options).enqueue_sync(mark)]
            )

    def _wait_for_room(self) -> None:
        """Enqueue no more than the workers can bear."""
        while sum(queue.due for queue in app.stats_sync().queues) > MOST_DUE:
            pause(0.5)

    def _draw(self) -> tuple[Task[[str], Any], dict[str, Any], str]:
        """Draw a task and a job's options, and write down that it is asked for."""
        chance = self._chance
        (task,) = chance.choices(list(KINDS), list(KINDS.values()))
        self._count += 1
        mark = f"{os.getpid()}.{self._count}"
        options: dict[str, Any] = {}
        if chance.random() < 0.15:
            options["delay"] = round(chance.uniform(0.5, 4), 2)
        if chance.random() < 0.15:
            task = tortured.quick
            options["idempotency_key"] = f"key {chance.randrange(KEYS)}"
        page.record("asked", mark=mark, task=task.name, **options)
        return task, options, mark

    def _hand_over(
        self, marks: list[str], enqueue: Callable[[], list[int | None]]
    ) -> None:
        try:
            ids = enqueue()
        except StoreUnavailable:
            self._tell(marks, "refused")
            raise
        except OutcomeUnknown:
            self._tell(marks, "unknown")
            raise
        self._committed(marks, ids)

    def _committed(self, marks: list[str], ids: list[int | None]) -> None:
        for mark, job_id in zip(marks, ids, strict=True):
            if job_id is None:
                page.record("duplicate", mark=mark)
            else:
                page.record("committed", mark=mark, job_id=job_id)
                self._ids = [*self._ids[-20:], job_id]

    def _tell(self, marks: list[str], what: str) -> None:
        for mark in marks:
            page.record(what, mark=mark)

    def _several(self) -> None:
        drawn = [self._draw() for _ in range(self._chance.randint(2, 4))]
        jobs = [task.options(**options).job(mark) for task, options, mark in drawn]
        self._hand_over(
            [mark for *_, mark in drawn], lambda: app.enqueue_many_sync(jobs)
        )

    def _lend(self) -> None:
        """Enqueue in a transaction of our own, which may roll back."""
        task, options, mark = self._draw()
        is_to_commit, ids = self._chance.random() < 0.6, list[int | None]()
        try:
            with closing(self._connect()) as connection:
                connection.execute("BEGIN")
                lent = task.options(connection=connection, **options)
                ids.append(lent.enqueue_sync(mark))
                pause(self._chance.uniform(0, 0.05))
                # What breaks from here on may have been committed.
                self._tell([mark], "commits" if is_to_commit else "rolled back")
                connection.execute("COMMIT" if is_to_commit else "ROLLBACK")
        except (psycopg.Error, sqlite3.Error, StoreUnavailable, OutcomeUnknown):
            self._tell([mark], "broke")
            pause(0.2)
            return
        if is_to_commit:
            self._committed([mark], ids)

    def _connect(self) -> Any:  # noqa: ANN401 - of either database
        url = os.environ["ROWLOCK_DATABASE_URL"]
        if url.startswith("sqlite:///"):
            return sqlite3.connect(
                url.removeprefix("sqlite:///"), timeout=1, isolation_level=None
            )
        return psycopg.connect(url, autocommit=True, connect_timeout=3)

    def _cancel(self) -> None:
        job_id = self._chance.choice(self._ids)
        page.record("cancel asked", job_id=job_id)
        (answer,) = app.cancel_sync(job_id, by="torture")
        page.record(
            "cancel answered", job_id=job_id, done=answer.done, status=answer.status
        )


def pause(seconds: float) -> None:
    """Wait; `time.sleep` is another's where the clock is wrong."""
    threading.Event().wait(seconds)


if __name__ == "__main__":
    import sys

    Producer(sys.argv[1], float(sys.argv[2])).run()
