"""Pausing queues and tasks, and resuming them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rowlock._answers import Pause
from rowlock._durations import to_delay
from rowlock._errors import UsageError
from rowlock._extensions import Extensions
from rowlock._operator import who
from rowlock._options import check_name
from rowlock._task import KeyedTask, check_task

if TYPE_CHECKING:
    from rowlock._store import Store
    from rowlock._sync import Portal


class Pauses:
    """The pauses of an app's queues and tasks."""

    _store: Store
    _portal: Portal
    _extensions: Extensions

    async def pause(
        self,
        *,
        queue: str | None = None,
        task: str | KeyedTask[..., Any] | None = None,
        for_: float | timedelta | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> None:
        """
        Claim no more jobs of a queue, or of a task: give one of the two.

        What runs goes on. It ends with `resume`, or after `for_`, in seconds or a
        `timedelta` from the store's now. A second pause replaces the first.

        Raises:
            UsageError: neither or both are given.

            >>> from rowlock import App
            >>> app = App("sqlite://")
            >>> app.pause_sync(queue="mail", for_=3600, reason="the provider is down")
            >>> [pause.reason for pause in app.stats_sync().pauses]
            ['the provider is down']
        """
        from rowlock._events.operators import PauseBegan

        operator, span = who(by), None if for_ is None else to_delay(for_, "for_=")
        if span == timedelta(0):
            msg = "for_= takes a time above 0 s: a pause of none would be none."
            raise UsageError(msg)
        paused = _pause(queue, task, reason=reason, by=operator)
        await self._store.open()
        await self._store.pause(paused, for_=span)
        self._extensions.emit(
            PauseBegan(
                by=operator,
                queue=paused.queue,
                task=paused.task,
                for_s=None if span is None else span.total_seconds(),
                reason=paused.reason,
            )
        )

    def pause_sync(
        self,
        *,
        queue: str | None = None,
        task: str | KeyedTask[..., Any] | None = None,
        for_: float | timedelta | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> None:
        """
        Do what `pause` does, from synchronous code.

            >>> from rowlock import App
            >>> App("sqlite://").pause_sync(task="send_receipt")
        """
        call = self.pause(queue=queue, task=task, for_=for_, reason=reason, by=by)
        self._portal.run(call, "app.pause")

    async def resume(
        self,
        *,
        queue: str | None = None,
        task: str | KeyedTask[..., Any] | None = None,
        by: str | None = None,
    ) -> bool:
        """
        Claim jobs of a queue, or of a task, again; False: it wasn't paused.

            >>> from rowlock import App
            >>> app = App("sqlite://")
            >>> app.pause_sync(queue="mail")
            >>> app.resume_sync(queue="mail"), app.resume_sync(queue="mail")
            (True, False)
        """
        from rowlock._events.operators import PauseEnded

        operator = who(by)
        paused = _pause(queue, task, reason=None, by=operator)
        await self._store.open()
        was_paused = await self._store.pause(paused, resume=True)
        if was_paused:
            self._extensions.emit(
                PauseEnded(by=operator, queue=paused.queue, task=paused.task)
            )
        return was_paused

    def resume_sync(
        self,
        *,
        queue: str | None = None,
        task: str | KeyedTask[..., Any] | None = None,
        by: str | None = None,
    ) -> bool:
        """
        Do what `resume` does, from synchronous code.

            >>> from rowlock import App
            >>> App("sqlite://").resume_sync(queue="mail")
            False
        """
        call = self.resume(queue=queue, task=task, by=by)
        return self._portal.run(call, "app.resume")


def _pause(
    queue: str | None,
    task: str | KeyedTask[..., Any] | None,
    *,
    reason: str | None,
    by: str,
) -> Pause:
    if (queue is None) == (task is None):
        msg = (
            "A pause is of a queue or of a task: give exactly one of queue= and task=."
        )
        raise UsageError(msg)
    return Pause(
        queue=None if queue is None else check_name(queue, "queue="),
        task=None if task is None else check_task(task),
        reason=None if reason is None else check_name(reason, "reason="),
        by=by,
    )
