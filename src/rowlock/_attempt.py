"""
What a handler may ask about the attempt that it is.

`current_attempt()` finds it through a context variable, so handlers stay plain
functions; it works in async handlers, in threads, and in what they call.
"""

from __future__ import annotations

import json
from contextvars import Context, ContextVar, copy_context
from dataclasses import InitVar, dataclass, field
from datetime import datetime
from typing import Any, Protocol

from rowlock._awaited import awaited
from rowlock._cancelled import Cancelled
from rowlock._errors import ClaimLost, UsageError
from rowlock._job import ClaimKey, NewJob
from rowlock._joining import Completion, Joining, Success
from rowlock._keys import check_spawned
from rowlock._payload import storable
from rowlock._signals import Made, watch

LONGEST_NOTE = 200
# A sum of shares may come to a little more than its whole.
_ROUNDING = 1e-9


class Desk(Success, Protocol):
    """Where an attempt's words go: its worker, asked from any thread and loop."""

    async def checkpoint(self, key: ClaimKey, state: str) -> bool:
        """Write the state of a claim; False: it is lost."""
        ...

    def checkpoint_sync(self, key: ClaimKey, state: str) -> bool:
        """Do the same, and block this thread meanwhile."""
        ...

    def progress(self, key: ClaimKey, progress: str) -> None:
        """Write how far a claim has come, soon."""
        ...


@dataclass(slots=True, kw_only=True, eq=False)
class Attempt(Joining):
    """
    One start of a handler; `current_attempt()` gives it.

    `number` runs 1, 2, 3 with the starts, `failures` counts the failed ones before.
    `is_last` is what to ask before giving up in style: a failure now makes a dead
    letter. `deadline` is when the timeout strikes, on the store's clock, None without
    one; `scheduled_for` is the instant of a schedule that this job was made for, None
    for every other job. `idempotency_key` is stable over attempts and replays: pass it
    to other systems. `cancelled` is the signal to stop.

        >>> import asyncio
        >>> from rowlock import App, current_attempt
        >>> app = App("sqlite://")
        >>> @app.task
        ... def greet(name: str) -> str:
        ...     return f"Hello {name}, attempt {current_attempt().number}"
        >>> async def main() -> None:
        ...     async with app, app.worker():
        ...         job_id = await greet.enqueue("Ada")
        ...         print((await app.wait(job_id, 10)).result)
        >>> asyncio.run(main())
        Hello Ada, attempt 1
    """

    job_id: int
    task: str
    queue: str
    number: int
    failures: int
    is_last: bool
    deadline: datetime | None
    scheduled_for: datetime | None = None
    idempotency_key: str
    cancelled: Cancelled = field(default_factory=Cancelled)
    # What follows is the worker's.
    key: InitVar[ClaimKey]
    saved: InitVar[Any]
    max_payload: InitVar[int]
    desk: InitVar[Desk]
    _key: ClaimKey = field(init=False, repr=False)
    _state: Any = field(init=False, repr=False)
    _max_payload: int = field(init=False, repr=False)
    _desk: Desk = field(init=False, repr=False)
    _spawned: list[NewJob] = field(init=False, repr=False, default_factory=list)
    _completion: Completion = field(init=False, repr=False, default_factory=Completion)

    def __post_init__(
        self, key: ClaimKey, saved: object, max_payload: int, desk: Desk
    ) -> None:
        self._key, self._state = key, saved
        self._max_payload, self._desk = max_payload, desk

    @property
    def state(self) -> Any:  # noqa: ANN401 - its handler knows what it has saved
        """
        What was saved by the last `checkpoint` of this job, in whichever attempt.

        None where there was none. It outlives failures, lost workers and a replay.
        """
        return self._state

    @awaited("attempt")
    async def checkpoint(self, data: object) -> None:
        """
        Save how far the job has come; its next attempt finds it in `.state`.

        It replaces what was saved before, and is written when this returns; an outage
        of the store is waited out for as long as the lease. Nothing of it is atomic
        with what the handler did elsewhere, so save after the step, and let a step be
        repeatable.

        Raises:
            PayloadError: the data isn't JSON, or is larger than `max_payload`.
            ClaimLost: another worker may have the job: stop.
            StoreUnavailable: the store was away for longer than the lease.

            >>> import asyncio
            >>> from rowlock import App, current_attempt
            >>> app = App("sqlite://")
            >>> @app.task(backoff=0)
            ... async def copy() -> str:
            ...     attempt = current_attempt()
            ...     if attempt.state is None:
            ...         await attempt.checkpoint({"page": 7})
            ...         raise OSError("the network is gone")
            ...     return f"goes on after page {attempt.state['page']}"
            >>> async def main() -> None:
            ...     async with app, app.worker():
            ...         print((await app.wait(await copy.enqueue(), 10)).result)
            >>> asyncio.run(main())
            goes on after page 7
        """
        self._check_incomplete("checkpoint")
        state = self._written(data)
        self._saved(state, held=await self._desk.checkpoint(self._key, state))

    def checkpoint_sync(self, data: object) -> None:
        """
        Do what `checkpoint` does, from a plain handler's thread.

        Raises:
            UsageError: a loop runs in this thread, which waiting would block.

            >>> import asyncio
            >>> from rowlock import App, current_attempt
            >>> app = App("sqlite://")
            >>> @app.task
            ... def copy() -> None:
            ...     current_attempt().checkpoint_sync({"page": 7})
            >>> async def main() -> None:
            ...     async with app, app.worker():
            ...         print((await app.wait(await copy.enqueue(), 10)).state)
            >>> asyncio.run(main())
            {'page': 7}
        """
        from rowlock._sync import refuse_on_a_loop

        refuse_on_a_loop("attempt.checkpoint")
        self._check_incomplete("checkpoint")
        state = self._written(data)
        self._saved(state, held=self._desk.checkpoint_sync(self._key, state))

    def progress(self, fraction: float, note: str | None = None) -> None:
        """
        Say how far the attempt has come, 0 to 1, for people who look.

        It costs next to nothing and never waits: the last word of each second is
        written, and the last of all before the attempt's outcome. It is lost where the
        store is away, or the worker dies.

            >>> import asyncio
            >>> from rowlock import App, current_attempt
            >>> app = App("sqlite://")
            >>> @app.task
            ... def copy() -> None:
            ...     for page in range(1, 101):
            ...         current_attempt().progress(page / 100, f"page {page}")
            >>> async def main() -> None:
            ...     async with app, app.worker():
            ...         print((await app.wait(await copy.enqueue(), 10)).progress)
            >>> asyncio.run(main())
            {'fraction': 1.0, 'note': 'page 100'}
        """
        told = {"fraction": _to_fraction(fraction), "note": _to_note(note)}
        self._desk.progress(self._key, json.dumps(told))

    def spawn(self, job: NewJob, /, *more: NewJob) -> None:
        """
        Enqueue jobs if and only if this attempt succeeds.

        They are inserted in the transaction that records the success, and not at all
        where the attempt fails, is snoozed or cancelled, or has lost its claim. Works
        from any thread that the handler waits for.

        Raises:
            UsageError: it isn't what `task.job(...)` returns, has
                `on_conflict="raise"`, or comes after `complete`.

            >>> import asyncio
            >>> from rowlock import App, current_attempt
            >>> app = App("sqlite://")
            >>> @app.task
            ... def pack(order_id: int) -> None:
            ...     current_attempt().spawn(ship.job(order_id))
            >>> @app.task
            ... def ship(order_id: int) -> None: ...
            >>> async def main() -> None:
            ...     async with app, app.worker(queues=["default"]):
            ...         await app.wait(await pack.enqueue(42), 10)
            ...         print([job.task for job in (await app.list()).jobs])
            >>> asyncio.run(main())
            ['ship', 'pack']
        """
        self._check_incomplete("spawn")
        self._spawned.extend(check_spawned((job, *more), "attempt.spawn"))

    @property
    def _success(self) -> Success:
        return self._desk

    def _written(self, data: object) -> str:
        from rowlock._codec import encode_json

        return encode_json(data, limit=self._max_payload)

    def _saved(self, state: str, *, held: bool) -> None:
        if not held:
            raise ClaimLost(self._key.job_id, self._key.claim)
        # As the next attempt will read it, and no object that the handler goes on
        # changing.
        self._state = json.loads(state)


def _to_fraction(value: object) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not -_ROUNDING <= value <= 1 + _ROUNDING
    ):
        msg = f"progress() takes a fraction from 0 to 1, not {value!r}."
        raise UsageError(msg)
    return min(max(float(value), 0.0), 1.0)


def _to_note(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        msg = f"progress(note=) takes a text, not a {type(value).__name__}."
        raise UsageError(msg)
    return None if value is None else storable(value[:LONGEST_NOTE])


_current: ContextVar[Attempt] = ContextVar("rowlock.attempt")


def current_attempt() -> Attempt:
    """
    Find the attempt that the calling handler is.

    Raises:
        UsageError: there is none here. A handler that is called as a plain function
            (in a unit test, say) has no attempt.

        >>> current_attempt()
        Traceback (most recent call last):
        ...
        rowlock.UsageError: No attempt runs here: current_attempt() works inside a \
handler that a worker started.
    """
    attempt = the_attempt()
    if attempt is None:
        msg = (
            "No attempt runs here: current_attempt() works inside a handler that a"
            " worker started."
        )
        raise UsageError(msg)
    return attempt


def the_attempt() -> Attempt | None:
    """Find the attempt of the calling context, None outside of handlers."""
    return _current.get(None)


def attempt_in(context: Context) -> Attempt | None:
    """Find the attempt of another context, None outside of handlers."""
    return context.get(_current)


def context_of(attempt: Attempt, made: list[Made]) -> Context:
    """Make a copy of the calling context in which this attempt is the current one."""
    import decimal

    context = copy_context()
    context.run(_current.set, attempt)
    context.run(watch, made)
    # A copied context refers to the same objects, and this one is changed in place.
    context.run(decimal.setcontext, decimal.getcontext().copy())
    return context


def spawned(attempt: Attempt) -> tuple[NewJob, ...]:
    """Give the jobs that an attempt has spawned so far, in order."""
    return tuple(attempt._spawned)  # noqa: SLF001 - not for handlers to see


def completion(attempt: Attempt) -> Completion:
    """Tell how far an attempt has come with recording its own success."""
    return attempt._completion  # noqa: SLF001 - not for handlers to see
