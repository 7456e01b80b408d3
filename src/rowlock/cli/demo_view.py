"""What the demo prints while it runs: a line an event, and the counts each second."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime

import click

from rowlock import App, Stats, Status
from rowlock._events import (
    AttemptFailed,
    AttemptReleased,
    AttemptSnoozed,
    AttemptStarted,
    AttemptSucceeded,
    Event,
    JobDeadLettered,
    JobEvent,
)
from rowlock.cli import colour
from rowlock.cli.demo_app import LONG_TASK
from rowlock.cli.instants import span
from rowlock.cli.table import cut, printable

WIDTH = 80
COUNT_S = 1.0


class View:
    """A listener that prints, and remembers what it has heard."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._heard: Counter[str] = Counter()
        self._succeeded: set[int] = set()
        self._dead: list[int] = []
        self._news = asyncio.Event()

    def hear(self, event: Event) -> None:
        """Print an event, if it is one to see."""
        self._heard[event.name] += 1
        if isinstance(event, AttemptSucceeded):
            self._succeeded.add(event.job_id)
        elif isinstance(event, JobDeadLettered):
            self._dead.append(event.job_id)
        self._news.set()
        if isinstance(event, JobEvent) and (said := _say(event)) is not None:
            self._print(event, *said)

    async def dead_letter(self) -> int:
        """Wait until a job has died; tell which."""
        await self._wait(lambda: bool(self._dead))
        return self._dead[0]

    async def success_of(self, job_id: int) -> None:
        """Wait until a job has succeeded."""
        await self._wait(lambda: job_id in self._succeeded)

    async def count(self, app: App) -> None:
        """Print the counts each second, until cancelled."""
        while True:
            await asyncio.sleep(COUNT_S)
            counts = _counts(await app.stats())
            click.echo(f"{self._at()}  -- {counts}")

    def summary(self, stats: Stats) -> list[str]:
        """Say in a few lines what it came to."""
        heard = self._heard
        return [
            f"{heard['job.enqueued']} jobs enqueued; now {_counts(stats)}",
            (
                f"{heard['attempt.succeeded']} attempts succeeded,"
                f" {heard['attempt.failed']} failed and"
                f" {heard['attempt.snoozed']} snoozed"
            ),
            f"{heard['job.dead_lettered']} dead letter, replayed after it was mended",
        ]

    async def _wait(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._news.clear()
            await self._news.wait()

    def _at(self) -> str:
        return colour.dim(f"{time.monotonic() - self._began:5.1f} s")

    def _print(self, event: JobEvent, words: str, status: Status | None) -> None:
        head = f"  {event.task:<8} {f'#{event.job_id}':<5} "
        told = cut(printable(words), WIDTH - len("  0.0 s") - len(head))
        painted = told if status is None else colour.of_status(status, told)
        click.echo(f"{self._at()}{head}{painted}")


def _say(event: JobEvent) -> tuple[str, Status | None] | None:
    """Put an event into words, with the status whose colour they have."""
    said: tuple[str, Status | None] | None = None
    match event:
        case AttemptStarted(task=task) if task == LONG_TASK:
            said = "started", Status.RUNNING
        case AttemptSucceeded(attempt=1, ran_s=ran_s):
            said = f"succeeded in {span(ran_s)}", None
        case AttemptSucceeded(attempt=number, ran_s=ran_s):
            said = f"attempt {number} succeeded in {span(ran_s)}", Status.SUCCEEDED
        # A dead letter's last failure is told by the event after it.
        case AttemptFailed(failures=number, error=error, retry_at=datetime() as at):
            said = f"failure {number}, again {_in(at)}: {error}", Status.PENDING
        case AttemptSnoozed(run_at=datetime() as at):
            said = f"snoozed, again {_in(at)}", Status.RUNNING
        case AttemptReleased():
            said = "given back, since the worker stops", Status.PENDING
        case JobDeadLettered(failures=failures, error=error):
            said = f"dead letter, after {failures} failures: {error}", Status.FAILED
    return said


def _in(at: datetime) -> str:
    return f"in {max((at - datetime.now(UTC)).total_seconds(), 0):.1f} s"


def _counts(stats: Stats) -> str:
    sums = {
        status: sum(queue.counts[status] for queue in stats.queues) for status in Status
    }
    return ", ".join(
        colour.of_status(status, f"{count} {status}") if count else f"0 {status}"
        for status, count in sums.items()
        if count or status is not Status.CANCELLED
    )
