"""The registry of an app: its tasks by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from rowlock._errors import TaskNotFound, UsageError
from rowlock._options import (
    Executor,
    OnShutdown,
    TaskOptions,
    check_count,
    check_errors,
    check_executor,
    check_name,
    check_on_shutdown,
    check_priority,
    check_probe,
    check_rate,
    check_timeout,
    check_turn,
)
from rowlock._retry import BackoffLike, BackoffRule, to_backoff
from rowlock._task import Door, Task, check_findable, check_task, duplicate, name_of

if TYPE_CHECKING:
    from rowlock._dead_letters import ReplayRule
    from rowlock._extensions import Around, Extensions

P = ParamSpec("P")
R = TypeVar("R")


class Registry:
    """The tasks of an app, and the defaults that they share."""

    max_attempts: int
    backoff: BackoffRule
    timeout: float
    tasks: dict[str, Task[..., Any]]
    _replay_rules: dict[str, ReplayRule]
    _door: Door
    _extensions: Extensions

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int = 0,
        max_attempts: int | None = None,
        timeout: float | timedelta | None = None,
        backoff: BackoffLike | Callable[[int], float | timedelta] | None = None,
        dead_on: Iterable[type[Exception]] = (),
        on_shutdown: OnShutdown = "release",
        executor: Executor | None = None,
        max_jobs_per_child: int | None = None,
        max_memory_mb: int | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(
        self,
        function: Callable[P, R] | None = None,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int = 0,
        max_attempts: int | None = None,
        timeout: float | timedelta | None = None,
        backoff: BackoffLike | Callable[[int], float | timedelta] | None = None,
        dead_on: Iterable[type[Exception]] = (),
        on_shutdown: OnShutdown = "release",
        executor: Executor | None = None,
        max_jobs_per_child: int | None = None,
        max_memory_mb: int | None = None,
    ) -> Task[P, R] | Callable[[Callable[P, R]], Task[P, R]]:
        """
        Register a function, plain or async, as a task.

        Its name is the function's own unless `name` says another, so that moving code
        orphans no jobs. `dead_on` names the exceptions that no retry can help:
        a dead letter at once. A handler that outlasts the wait of a shutdown is told to
        stop, and its job given back; `on_shutdown="keep"` leaves it alone until the
        process ends. What is None is the app's own.

        With `executor="process"` it runs in a child process, one job at a time, that
        is killed where it doesn't stop. A child is replaced after `max_jobs_per_child`
        jobs, and above half of `max_memory_mb`; a job that passes all of that is
        killed, and has failed.

        Raises:
            DuplicateTask: another function has that name already.
            InvalidTask: the function can't be a task; the message says why.

            >>> from rowlock import App
            >>> app = App("sqlite://")
            >>> @app.task(queue="mail", max_attempts=5)
            ... async def send_receipt(order_id: int) -> None: ...
            >>> app.tasks["send_receipt"].defaults.queue
            'mail'
        """
        options = TaskOptions(
            queue=check_name(queue, "queue="),
            priority=check_priority(priority, "priority="),
            max_attempts=self.max_attempts
            if max_attempts is None
            else check_count(max_attempts, "max_attempts="),
            timeout=self.timeout
            if timeout is None
            else check_timeout(timeout, "timeout="),
            backoff=self.backoff if backoff is None else _rule(backoff),
            dead_on=check_errors(dead_on, "dead_on="),
            on_shutdown=check_on_shutdown(on_shutdown, "on_shutdown="),
            **check_executor(executor, max_jobs_per_child, max_memory_mb),
        )

        def register(function: Callable[P, R]) -> Task[P, R]:
            task_name = name_of(function) if name is None else name
            task = Task(function, self._door, task_name, options)
            self._add(task)
            return task

        return register if function is None else register(function)

    def _add(self, task: Task[..., Any]) -> None:
        check_findable(task)
        if task.name in self.tasks:
            raise duplicate(task, self.tasks[task.name])
        self.tasks[task.name] = task

    def replay_when(
        self,
        task: str | Task[..., Any],
        probe: Callable[[], object],
        *,
        every: float | timedelta = 300,
        limit: int = 100,
        rate: float = 10,
    ) -> None:
        """
        Replay a task's dead letters by themselves while a probe passes.

        `probe`, plain or async, is called without arguments by one worker at a time,
        once in each `every`. Where it returns something true, up to `limit` dead
        letters are replayed, due `rate` a second; where it raises, or takes longer
        than 30 s, it doesn't pass. A job is replayed so twice at most, and not at all
        where it was given up for good, by `Unrecoverable` or `dead_on`. Which rule
        holds and what its probe said is shown by `rowlock tasks list`.

        Raises:
            TaskNotFound: the app has no such task (yet).
            UsageError: what is given is none, or the task has a rule already.

            >>> from rowlock import App
            >>> app = App("sqlite://")
            >>> @app.task
            ... def send_receipt(order_id: int) -> None: ...
            >>> def mail_works() -> bool:
            ...     return True
            >>> app.replay_when("send_receipt", mail_works, every=60)
        """
        from rowlock._dead_letters import ReplayRule

        rule = ReplayRule(
            task=self.find_task(check_task(task)).name,
            probe=check_probe(probe),
            every=check_turn(every, "every="),
            limit=check_count(limit, "limit="),
            rate=check_rate(rate, "rate="),
        )
        if rule.task in self._replay_rules:
            msg = f"The task {rule.task!r} is replayed by another probe already."
            raise UsageError(msg)
        self._replay_rules[rule.task] = rule

    def _arounds(self) -> Sequence[Around]:
        # A test exchanges the extensions.
        return self._extensions.arounds

    def find_task(self, name: str) -> Task[..., Any]:
        """
        Find a registered task by name.

        Raises:
            TaskNotFound: the message names the nearest one.

            >>> from rowlock import App
            >>> App("sqlite://").find_task("x")
            Traceback (most recent call last):
            ...
            rowlock.TaskNotFound: This app has no task 'x'; it has none at all.
        """
        if name in self.tasks:
            return self.tasks[name]
        from difflib import get_close_matches

        near = get_close_matches(name, self.tasks, n=1)
        known = (
            f"did you mean {near[0]!r}?"
            if near
            else f"it has {', '.join(sorted(self.tasks))}."
            if self.tasks
            else "it has none at all."
        )
        msg = f"This app has no task {name!r}; {known}"
        raise TaskNotFound(name, msg)


def _rule(backoff: BackoffLike | Callable[[int], float | timedelta]) -> BackoffRule:
    return backoff if callable(backoff) else to_backoff(backoff, "backoff=")
