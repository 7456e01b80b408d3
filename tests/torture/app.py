"""
The tortured app, which `rowlock worker tests.torture.app:app` runs.

Each handler writes down its start and its end, which stands for an effect somewhere
else: what it has written can't be taken back, so a second one is seen. Each claim and
each outcome is written down too, as the store answers it. What is paid for is an effect
in the jobs' own database, which is taken back with the rest of its transaction.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, cast

from rowlock import App, Backoff, Retry, Snooze, current_attempt
from rowlock._events import Event
from tests.serve import RecordedStore
from tests.torture import skew
from tests.torture.faults import Unfenced
from tests.torture.page import FAULT, FOLDER, Page
from tests.torture.pay import pay, pay_awaited

if TYPE_CHECKING:
    from rowlock._store import Store
    from tests.journal import Journal

HEARD = {
    "worker.started",
    "worker.draining",
    "worker.stopped",
    "claim.refused",
    "claim.lost",
    "claim.recovered",
    "attempt.abandoned",
    "outcome.dropped",
    "store.unavailable",
    "store.recovered",
}

app = App(safety_interval=3, max_attempts=6, backoff=Backoff.fixed(0.2))
page = Page("app")


class Unlucky(Exception):
    """What `chancy` raises."""


@contextmanager
def recorded(mark: str) -> Iterator[random.Random]:
    """Write down a start, and what it came to; gives the attempt's own chance."""
    attempt = current_attempt()
    of = {**attempt._key._asdict(), "number": attempt.number, "mark": mark}
    page.record("started", **of)
    try:
        yield random.Random(f"{mark}/{attempt.number}")
    except asyncio.CancelledError:
        page.record("gave up", **of)
        raise
    except Exception as error:
        page.record("raised", **of, error=type(error).__name__)
        raise
    page.record("ended", **of)
    if os.environ.get(FAULT) == "twice" and attempt.job_id % 10 == 0:
        page.record("ended", **of)


@app.task
async def quick(mark: str) -> None:
    with recorded(mark) as chance:
        await asyncio.sleep(chance.uniform(0, 0.3))


@app.task
def plain(mark: str) -> None:
    with recorded(mark) as chance:
        threading.Event().wait(chance.uniform(0.05, 0.5))


@app.task
async def long(mark: str) -> None:
    """Run past the lease, so that it has to be renewed."""
    with recorded(mark) as chance:
        await asyncio.sleep(chance.uniform(1, 4))


@app.task
def long_plain(mark: str) -> None:
    with recorded(mark) as chance:
        threading.Event().wait(chance.uniform(1, 3))


@app.task(queue="apart", executor="process")
def apart(mark: str) -> None:
    with recorded(mark) as chance:
        threading.Event().wait(chance.uniform(0.05, 0.5))


@app.task(max_attempts=4)
async def chancy(mark: str) -> None:
    with recorded(mark) as chance:
        await asyncio.sleep(chance.uniform(0, 0.2))
        luck = chance.random()
        if luck < 0.2:
            raise Unlucky
        if luck < 0.4:
            raise Retry(delay=0.3)


@app.task(max_attempts=1)
async def at_most_once(mark: str) -> None:
    with recorded(mark) as chance:
        await asyncio.sleep(chance.uniform(0, 1))


@app.task
async def snoozed(mark: str) -> None:
    with recorded(mark):
        if current_attempt().number == 1:
            raise Snooze(0.5)


@app.task
async def parent(mark: str) -> None:
    """Spawn a child, which is there if and only if this succeeded."""
    with recorded(mark) as chance:
        await asyncio.sleep(chance.uniform(0, 0.3))
        current_attempt().spawn(child.job(mark=f"{mark}.child"))


@app.task
async def child(mark: str) -> None:
    with recorded(mark):
        await asyncio.sleep(0)


@app.task
def paid(mark: str) -> None:
    """Have an effect in the jobs' own database, once if this succeeds, or never."""
    with recorded(mark) as chance:
        threading.Event().wait(chance.uniform(0, 0.5))
        pay(page, mark, chance)


@app.task
async def paid_awaited(mark: str) -> None:
    with recorded(mark) as chance:
        await asyncio.sleep(chance.uniform(0, 0.5))
        await pay_awaited(page, mark, chance)


@app.task
def paid_long(mark: str) -> None:
    """Have it after more than a lease, at the end of which the claim may be lost."""
    with recorded(mark) as chance:
        threading.Event().wait(chance.uniform(1, 3))
        pay(page, mark, chance)


@app.task
async def paid_parent(mark: str) -> None:
    """Spawn a child in the transaction of the effect."""
    with recorded(mark) as chance:
        current_attempt().spawn(child.job(mark=f"{mark}.child"))
        await pay_awaited(page, mark, chance)


def _hear(event: Event) -> None:
    if event.name in HEARD:
        page.record(event.name, **asdict(event), parent=os.getppid())


if FOLDER in os.environ:
    store = app._store
    if os.environ.get(FAULT) == "fence":
        store = cast("Store", Unfenced(store))
    app._access.store = cast("Store", RecordedStore(store, cast("Journal", page)))
    app.listen(_hear)
    skew.mend_sleep()
