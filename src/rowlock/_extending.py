"""What an app is extended by: the three ways in, as its user calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rowlock._extensions import Around, Extensions, Follower, Listener


class Extending:
    """The extensions of an app."""

    _extensions: Extensions

    def listen(self, listener: Listener) -> Callable[[], None]:
        """
        Tell `listener` of every event of `rowlock.events`; returns what ends that.

        It is called in the thread in which the event happens: a worker's are told on
        its event loop (where a handler blocks that, in the thread that watches it), an
        enqueue's by whoever enqueues, and those of a `_sync` call in a thread of
        Rowlock's own. So it must not block, and is safe in any thread. What
        it raises is logged, and harms nothing. The first added is told first.

            >>> from rowlock import App
            >>> app = App("sqlite://")
            >>> seen = []
            >>> stop = app.listen(lambda event: seen.append(event.name))
            >>> app.pause_sync(queue="mail")
            >>> stop()
            >>> seen
            ['pause.began']
        """
        return self._extensions.listen(listener)

    def around(self, around: Around) -> Callable[[], None]:
        """
        Surround every attempt with an async context manager; returns what ends that.

        `around` is called with the attempt, and what it gives is entered before the
        handler starts and left when it has ended, the first added outermost, on the
        worker's loop, also for a plain function, or in the handler's child process;
        context variables that it sets are seen by the handler. What it raises fails the
        attempt as if the handler had, and the handler's own exceptions pass through it,
        so it may replace one, or swallow one: then the attempt has succeeded, with no
        result.

            >>> import asyncio, contextlib
            >>> from rowlock import App
            >>> app = App("sqlite://")
            >>> @contextlib.asynccontextmanager
            ... async def named(attempt):
            ...     print("begin", attempt.task)
            ...     yield
            ...     print("end", attempt.task)
            >>> stop = app.around(named)
            >>> @app.task
            ... def greet() -> None:
            ...     print("Hello")
            >>> async def main() -> None:
            ...     async with app, app.worker():
            ...         job = await app.wait(await greet.enqueue(), 10)
            >>> asyncio.run(main())
            begin greet
            Hello
            end greet
        """
        return self._extensions.around(around)

    def follow(self, follower: Follower) -> Callable[[], None]:
        """
        Have jobs follow attempts; returns what ends that.

        `follower` is given the `rowlock.events.Ending` of each attempt, also of one
        whose worker was lost, and returns jobs, which are inserted in the transaction
        that records that ending, or not at all where the claim is lost. An operator's
        cancel or delete of a job that doesn't run is no ending. It is called on the
        worker's loop, so it must not block (where a handler blocks that past a timeout,
        in another thread; by `attempt.complete_sync`, in the handler's). It may be
        asked more than once: of one loss by several workers, of whom one writes it, and
        of a completion that is rolled back, then of the failure. Where it raises, that
        is logged and nothing follows.
        Jobs that follow are followed too: look at `ending.task`.

            >>> import asyncio
            >>> from rowlock import App
            >>> app = App("sqlite://")
            >>> @app.task
            ... def greet(name: str) -> None: ...
            >>> @app.task
            ... def audit(job_id: int) -> None: ...
            >>> def audited(ending):
            ...     return [audit.job(ending.job_id)] if ending.task == "greet" else []
            >>> stop = app.follow(audited)
            >>> async def main() -> None:
            ...     async with app, app.worker():
            ...         await app.wait(await greet.enqueue("Ada"), 10)
            ...         print([job.task for job in (await app.list()).jobs])
            >>> asyncio.run(main())
            ['audit', 'greet']
        """
        return self._extensions.follow(follower)
