"""Running what is due until nothing is left, in this process and without a sleep."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from rowlock import _outcome
from rowlock._durations import to_delay
from rowlock._errors import UsageError
from rowlock._job import Status
from rowlock._options import check_count
from rowlock._store import Demand
from rowlock.testing._bench import Bench, Ran, bench, raise_failure
from rowlock.testing._clock import FakeClock
from rowlock.testing._dropped import owed

if TYPE_CHECKING:
    from rowlock._app import App
    from rowlock._job import Claim

# A store that knows less than it might answers "look again" instead of a due time.
_MOST_LOOKS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """
    What a drain has run: its attempts in order, and how many ended how.

    An attempt counts once: `succeeded`, `cancelled`, `failed` (its job is a dead
    letter), `retried` (it failed, and is tried again) or `snoozed`.

        >>> drained = Drained(ran=())
        >>> drained.succeeded, drained.errors
        (0, ())
    """

    ran: tuple[Ran, ...]

    @property
    def succeeded(self) -> int:
        """How many attempts succeeded."""
        return self._count(Status.SUCCEEDED)

    @property
    def failed(self) -> int:
        """How many attempts made a dead letter of their job."""
        return self._count(Status.FAILED)

    @property
    def cancelled(self) -> int:
        """How many attempts ended as cancelled."""
        return self._count(Status.CANCELLED)

    @property
    def retried(self) -> int:
        """How many attempts failed and are tried again."""
        return sum(r.status is Status.PENDING and r.failed for r in self.ran)

    @property
    def snoozed(self) -> int:
        """How many attempts put their job off, with no failure."""
        return sum(r.status is Status.PENDING and not r.failed for r in self.ran)

    @property
    def errors(self) -> tuple[BaseException, ...]:
        """What handlers failed of, in order."""
        return tuple(r.error for r in self.ran if r.failed and r.error is not None)

    def _count(self, status: Status) -> int:
        return sum(r.status is status for r in self.ran)


@owed
async def drain(
    app: App,
    *,
    queues: Iterable[str] | None = None,
    advance: float | timedelta = 0,
    limit: int = 1000,
    raises: bool = True,
) -> Drained:
    """
    Run what is due until nothing is left, one job at a time, as a worker would.

    Jobs that come meanwhile are run too; what is planned for later stays. `advance`
    lets so much time pass, in seconds or as a `timedelta`: the app's `FakeClock` is
    moved from one due job to the next, so that each runs at its time, retries and
    snoozes too. `queues` names those to run, all of them unless said.

    What a handler raises is raised here, after its outcome is written, and the rest
    isn't run; `Snooze`, and `Retry` with a try left, are no errors. With `raises=False`
    all is run, and the errors are in what is returned.

    Raises:
        AssertionError: after `limit` attempts there was still a job due, as where a job
            enqueues itself.
        UsageError: the app's clock can't be moved, for `advance`.

        >>> import asyncio
        >>> from rowlock import App
        >>> app = App("sqlite://", clock=FakeClock())
        >>> @app.task
        ... def greet(name: str) -> None:
        ...     print("Hello", name)
        >>> async def test() -> None:
        ...     await greet.enqueue("Ada")
        ...     await greet.options(delay=60).enqueue("Bo")
        ...     print((await drain(app)).succeeded)
        ...     print((await drain(app, advance=60)).succeeded)
        >>> asyncio.run(test())
        Hello Ada
        1
        Hello Bo
        1
    """
    __tracebackhide__ = True
    time_left = to_delay(advance, "advance=")
    clock = _clock_of(app, time_left)
    check_count(limit, "limit=")
    await app.open()
    ran: list[Ran] = []
    async with bench(app, queues) as made:
        await made.upkeep.recover()
        await made.upkeep.expire()
        until = app._access.clock.now() + time_left
        while (claim := await _next(made, clock, until)) is not None:
            if len(ran) == limit:
                await _give_back(made, claim)
                raise _endless(ran, limit)
            ran.append((await made.run(claim))[0])
            if raises:
                raise_failure(ran[-1])
        if clock is not None and until > clock.now():
            clock.advance(until - clock.now())
        await made.upkeep.expire()
    return Drained(ran=tuple(ran))


def drain_sync(
    app: App,
    *,
    queues: Iterable[str] | None = None,
    advance: float | timedelta = 0,
    limit: int = 1000,
    raises: bool = True,
) -> Drained:
    """
    Do what `drain` does, from synchronous code.

        >>> from rowlock import App
        >>> app = App("sqlite://")
        >>> @app.task(max_attempts=1)
        ... def greet(name: str) -> None:
        ...     raise LookupError(name)
        >>> greet.enqueue_sync("Ada")
        1
        >>> drain_sync(app, raises=False).errors
        (LookupError('Ada'),)
    """
    __tracebackhide__ = True
    call = drain(app, queues=queues, advance=advance, limit=limit, raises=raises)
    return app._portal.run(call, "drain")


def _clock_of(app: App, advance: timedelta) -> FakeClock | None:
    clock = app._access.clock
    if isinstance(clock, FakeClock):
        return clock
    if advance:
        msg = (
            "drain(advance=) moves the app's clock, and this one has the machine's: use"
            " the fixture rowlock_app, or App(clock=FakeClock())."
        )
        raise UsageError(msg)
    return None


async def _next(made: Bench, clock: FakeClock | None, until: datetime) -> Claim | None:
    """Claim a job that is due, or will be by `until`, and then move the clock there."""
    settings = made.settings
    queues = settings.queues
    demand = Demand(
        total=1,
        tasks=frozenset(settings.tasks),
        queues=None if queues is None else dict.fromkeys(queues, 1),
    )
    take = partial(
        settings.store.claim, worker=settings.worker, lease=settings.lease, alone=True
    )
    looks = 0
    while looks < _MOST_LOOKS:
        claimed = await take(demand)
        if not claimed.claims and claimed.suspect_since is not None:
            # Nothing runs beside it here, so a suspect may always run.
            claimed = await take(replace(demand, suspects=True))
        if claimed.claims:
            return claimed.claims[0]
        due = claimed.next_due
        if due is None:
            return None
        if due <= claimed.now:
            looks += 1
        elif clock is not None and due <= until:
            looks = 0
            clock.advance(due - clock.now())
        else:
            return None
    return None


async def _give_back(made: Bench, claim: Claim) -> None:
    with suppress(Exception):  # what is told is the endlessness
        await made.settings.store.finish([_outcome.released(claim.key, unstarted=True)])


def _endless(ran: list[Ran], limit: int) -> AssertionError:
    tasks = ", ".join(sorted({each.task for each in ran[-10:]}))
    return AssertionError(
        f"drain() ran {limit:,} attempts and there was still a job due, as where a job"
        f" enqueues itself; the last were of {tasks}. Say drain(limit=) for more."
    )
