"""
What the demo prints while it runs: a line an event, and how it all stands.

On a terminal that is a panel which is drawn anew, elsewhere a line each second.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from rowlock import App, Job, Stats, Status
from rowlock._instants import span
from rowlock.cli import colour
from rowlock.cli.demo_app import LONG_TASK
from rowlock.cli.demo_screen import Screen, bar, fit
from rowlock.cli.table import cut, printable
from rowlock.events import (
    AttemptFailed,
    AttemptReleased,
    AttemptSnoozed,
    AttemptStarted,
    AttemptSucceeded,
    ClaimRecovered,
    Event,
    JobDeadLettered,
    JobEvent,
)

WIDTH = 80
COUNT_S, DRAW_S = 1.0, 0.25
# Of how many attempts the latency is told, over how long the rate, how many failures.
LATENCIES, RATE_S, FAILURES = 200, 3.0, 3


class View:
    """A listener that prints, and remembers what it has heard."""

    def __init__(self, began: float, screen: Screen) -> None:
        self.screen = screen
        self._began = began
        self._heard: Counter[str] = Counter()
        self._succeeded: set[int] = set()
        self._dead: list[int] = []
        self._news = asyncio.Event()
        self._ended_at: deque[float] = deque()
        self._waited: deque[float] = deque(maxlen=LATENCIES)
        self._failures: deque[str] = deque(maxlen=FAILURES)
        self._export: str | None = None
        self._fifth = 0

    def hear(self, event: Event) -> None:
        """Print an event, if it is one to see."""
        self._heard[event.name] += 1
        if isinstance(event, AttemptStarted):
            self._waited.append(event.waited_s)
        elif isinstance(event, AttemptSucceeded):
            self._succeeded.add(event.job_id)
            self._ended_at.append(time.monotonic())
        elif isinstance(event, AttemptFailed):
            self._failures.append(f"{event.task} #{event.job_id}  {event.error}")
        elif isinstance(event, JobDeadLettered):
            self._dead.append(event.job_id)
        self._news.set()
        if isinstance(event, JobEvent) and (said := _say(event)) is not None:
            self.tell(event.task, event.job_id, *said)

    def tell(
        self, task: str, job_id: int, words: str, status: Status | None = None
    ) -> None:
        """Print a line about a job, with the status whose colour it has."""
        head = f"  {task:<8} {f'#{job_id}':<5} "
        told = cut(printable(words), WIDTH - len("  0.0 s") - len(head))
        painted = told if status is None else colour.of_status(status, told)
        self.screen.say(f"{self._at()}{head}{painted}")

    def killed(self, job_id: int, pid: int, lease: float) -> None:
        """Say that a process was killed, and what comes of it."""
        said = f"process {pid} killed; the lease ends within {lease:g} s"
        self.tell("export", job_id, said, Status.FAILED)

    def show_export(self, job: Job, share: float) -> None:
        """Take in how far the export is; where lines stay, each fifth is one."""
        fifth = int(share * 5)
        if not self.screen.is_live and fifth > self._fifth:
            self.tell("export", job.id, bar(share))
        self._fifth = fifth
        self._export = (
            f"export #{job.id}  {bar(share)}  attempt {job.attempts}, {job.status}"
        )

    def exported(self, job: Job) -> None:
        """Say what the export came to."""
        result = job.result if isinstance(job.result, dict) else {}
        rows, after = result.get("rows"), result.get("resumed_after")
        said = f"attempt {job.attempts} succeeded: {rows} rows, resumed after {after}"
        self.tell("export", job.id, said, job.status)

    async def dead_letter(self) -> int:
        """Wait until a job has died; tell which."""
        await self._wait(lambda: bool(self._dead))
        return self._dead[0]

    async def success_of(self, job_id: int) -> None:
        """Wait until a job has succeeded."""
        await self._wait(lambda: job_id in self._succeeded)

    async def count(self, app: App) -> None:
        """Show how it all stands, until cancelled."""
        while True:
            await asyncio.sleep(DRAW_S if self.screen.is_live else COUNT_S)
            counts = _counts(await app.stats())
            if self.screen.is_live:
                self.screen.show(list(self._panel(counts)))
            else:
                line = f"{self._at()}  -- {counts}; {self._pace()}"
                self.screen.say(fit(line, WIDTH))

    def _panel(self, counts: str) -> Iterator[str]:
        yield colour.dim("-" * (WIDTH - 1))
        yield f"{self._at()}  {counts}"
        yield f"         {self._pace()}"
        if self._export is not None:
            yield f"         {self._export}"
        for failure in self._failures:
            yield f"         {colour.of_status(Status.FAILED, printable(failure))}"

    def _pace(self) -> str:
        """Say how many jobs a second succeed, and how long a due one waits."""
        now = time.monotonic()
        while self._ended_at and self._ended_at[0] < now - RATE_S:
            self._ended_at.popleft()
        rate = len(self._ended_at) / min(RATE_S, max(now - self._began, 0.1))
        waited = sorted(self._waited)
        median = span(waited[len(waited) // 2]) if waited else "-"
        return f"{rate:.0f}/s, waited {median}"

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
            f"{heard['claim.recovered']} job recovered from a killed process",
        ]

    async def _wait(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._news.clear()
            await self._news.wait()

    def _at(self) -> str:
        return colour.dim(f"{time.monotonic() - self._began:5.1f} s")


def _say(event: JobEvent) -> tuple[str, Status | None] | None:
    """Put an event into words, with the status whose colour they have."""
    said: tuple[str, Status | None] | None = None
    match event:
        case ClaimRecovered(lost_worker=worker):
            said = f"recovered: {worker} is lost, its lease is over", Status.PENDING
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
