"""
One worker process of a test: an app with the program's tasks, run until SIGTERM.

A program is a module with `register(app, journal)`, started with `python -m` by
`tests/workers.py`. Beside what its handlers write, the journal gets every claim, every
outcome handed to the store with the store's answer, and every event.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from rowlock import App
from rowlock._served import Queues

from .journal import Journal
from .off_clock import OffClock

if TYPE_CHECKING:
    from rowlock._job import Outcome
    from rowlock._store import Claimed, Settled, Store

Register: TypeAlias = Callable[[App, Journal], object]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a worker process is told on its command line."""

    url: str
    folder: str
    label: str
    concurrency: int
    queues: Queues | None
    lease: float
    shutdown_timeout: float
    safety_interval: float
    clock_off: float


class RecordedStore:
    """A store whose claims and outcomes are written to a journal, and that's all."""

    def __init__(self, store: Store, journal: Journal) -> None:
        self._store = store
        self._journal = journal

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def claim(self, *args: Any, **options: Any) -> Claimed:  # noqa: ANN401 - as they come
        """Claim, then write down what was claimed."""
        claimed = await self._store.claim(*args, **options)
        for claim in claimed.claims:
            self._journal.record("claimed", **claim.key._asdict(), worker=claim.worker)
        return claimed

    async def finish(self, outcomes: Sequence[Outcome]) -> Sequence[Settled]:
        """Write down what is handed over, then what became of it."""
        # First: a process may die between the store's commit and its answer.
        for outcome in outcomes:
            self._journal.record("handed", **_told(outcome))
        settled = await self._store.finish(outcomes)
        for outcome, answer in zip(outcomes, settled, strict=True):
            self._journal.record(
                "settled",
                **_told(outcome),
                accepted=answer.accepted,
                found_status=answer.status,
                found_claims=answer.claims,
            )
        return settled


def _told(outcome: Outcome) -> dict[str, object]:
    return {
        **outcome.key._asdict(),
        "status": outcome.status,
        "failed": outcome.failed,
        "lost": outcome.lost,
        "unstarted": outcome.unstarted,
    }


def serve(register: Register) -> None:
    """Run a worker with these tasks, as the command line says."""
    settings = Settings(**json.loads(sys.argv[1]))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    threading.Thread(target=_die_with_parent, daemon=True).start()
    sys.exit(asyncio.run(_serve(register, settings)))


async def _serve(register: Register, settings: Settings) -> int:
    journal = Journal(Path(settings.folder), settings.label)
    app = App(
        settings.url,
        lease=settings.lease,
        safety_interval=settings.safety_interval,
        clock=OffClock(timedelta(seconds=settings.clock_off)),
    )
    app._access.store = cast("Store", RecordedStore(app._store, journal))
    app.listen(lambda event: journal.record(event.name, **asdict(event)))
    register(app, journal)
    worker = app.worker(
        concurrency=settings.concurrency,
        queues=settings.queues,
        shutdown_timeout=settings.shutdown_timeout,
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    abandoned = await worker.run()
    await app.close()
    return min(abandoned, 1)


def _die_with_parent() -> None:
    """Wait for the end of standard input: the test's process is gone."""
    os.read(0, 1)
    os._exit(1)
