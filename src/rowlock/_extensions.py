"""
The three ways in: listen, around, follow.

`listen` is told of events and changes nothing, `around` surrounds attempts and runs
with the handler, `follow` is given how an attempt ended and returns jobs, which are
written with the outcome. So they can't overlap.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from rowlock._attempt import Attempt
from rowlock._errors import UsageError
from rowlock._job import Claim, Ending, NewJob, Outcome
from rowlock._keys import check_spawned
from rowlock._log import log

if TYPE_CHECKING:
    from rowlock._events import Event

Listener: TypeAlias = "Callable[[Event], None]"
"""What `app.listen` takes."""

Around: TypeAlias = Callable[[Attempt], AbstractAsyncContextManager[object]]
"""What `app.around` takes."""

Follower: TypeAlias = Callable[[Ending], Iterable[NewJob]]
"""What `app.follow` takes."""

T = TypeVar("T")

logger = logging.getLogger("rowlock")


class Extensions:
    """What surrounds, hears and follows the attempts of one app."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = [log]
        self._arounds: list[Around] = []
        self._followers: list[Follower] = []

    @property
    def arounds(self) -> Sequence[Around]:
        """What surrounds an attempt, from the outside in."""
        return tuple(self._arounds)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell `listener` of every event; returns what ends that."""
        _check_plain(listener, "app.listen")
        return _add(self._listeners, listener)

    def around(self, around: Around) -> Callable[[], None]:
        """Surround every attempt that starts from now on; returns what ends that."""
        _check_around(around)
        return _add(self._arounds, around)

    def follow(self, follower: Follower) -> Callable[[], None]:
        """Ask `follower` for jobs at each ending; returns what ends that."""
        _check_plain(follower, "app.follow")
        return _add(self._followers, follower)

    def copy(self) -> Extensions:
        """Make another with the same; what is added to one isn't in the other."""
        copied = Extensions()
        copied._listeners = [*self._listeners]
        copied._arounds = [*self._arounds]
        copied._followers = [*self._followers]
        return copied

    def emit(self, event: Event) -> None:
        """Tell everybody, in this thread."""
        # A copy, as one of them may end its listening meanwhile.
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except (Exception, SystemExit):
                logger.exception("The listener %r failed on %s.", listener, event.name)

    def followed(self, claim: Claim, outcome: Outcome) -> Outcome:
        """Add the jobs that follow to an outcome."""
        if not self._followers:
            return outcome
        ending = _ending(claim, outcome)
        jobs = [job for each in tuple(self._followers) for job in _asked(each, ending)]
        if not jobs:
            return outcome
        return outcome._replace(spawned=(*outcome.spawned, *jobs))


def enqueued(jobs: Sequence[NewJob], ids: Sequence[int | None]) -> list[Event]:
    """Say which jobs were enqueued, and which are duplicates."""
    from rowlock._events import JobDuplicate, JobEnqueued

    # Those that an outcome spawned have no ids where the answer to its write was lost.
    return [
        JobDuplicate(
            task=job.task, queue=job.queue, idempotency_key=job.idempotency_key
        )
        if job_id is None
        else JobEnqueued(job_id=job_id, task=job.task, queue=job.queue)
        for job, job_id in zip(jobs, ids, strict=False)
    ]


def _check_around(around: object) -> None:
    # What @contextmanager makes would make a dead letter of every job.
    if not callable(around) or inspect.isgeneratorfunction(inspect.unwrap(around)):
        msg = (
            f"app.around takes an async context manager, not {around!r}: put"
            " @asynccontextmanager over an `async def`."
        )
        raise UsageError(msg)


def _check_plain(function: object, call: str) -> None:
    if not callable(function) or inspect.iscoroutinefunction(function):
        msg = f"{call} takes a plain function, which is called, not {function!r}."
        raise UsageError(msg)


def _add(those: list[T], one: T) -> Callable[[], None]:
    those.append(one)

    def end() -> None:
        # A second time does nothing.
        with suppress(ValueError):
            those.remove(one)

    return end


def _ending(claim: Claim, outcome: Outcome) -> Ending:
    from rowlock._outcome import in_words

    return Ending(
        job_id=claim.job_id,
        task=claim.task,
        queue=claim.queue,
        attempt=claim.attempts,
        status=outcome.status,
        failed=outcome.failed,
        lost=outcome.lost,
        error=None if outcome.error is None else in_words(outcome.error),
        result=None if outcome.result is None else json.loads(outcome.result),
    )


def _asked(follower: Follower, ending: Ending) -> Sequence[NewJob]:
    # An outcome must not be lost because of what would have followed it.
    try:
        return check_spawned(follower(ending), "follow")
    except (Exception, SystemExit):
        logger.exception(
            "Nothing follows job %d: %r has failed.", ending.job_id, follower
        )
        return ()
