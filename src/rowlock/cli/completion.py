"""
What the shell completes beyond commands and options: names of tasks and queues.

They come from the database, and from the app's code where an app is named. Whatever
goes wrong there completes nothing: a shell at its prompt is no place for an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rowlock._app import App

    Completion = Callable[[click.Context, click.Parameter, str], list[str]]


def tasks(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a task."""
    return _complete(ctx, incomplete, task_names)


def queues(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a queue."""
    return _complete(ctx, incomplete, queue_names)


def task_names(app: App) -> set[str]:
    """Name the tasks of an app, those told of, and those of workers and due jobs."""
    stats = app.stats_sync()
    told = {info.name for info in stats.registered}
    of_workers = {task for worker in stats.workers for task in worker.tasks}
    paused = {pause.task for pause in stats.pauses if pause.task is not None}
    due = {each.task for each in stats.tasks}
    return {*app.tasks, *told, *of_workers, *due, *paused}


def queue_names(app: App) -> set[str]:
    """Name the queues of known tasks, of jobs, and of live workers."""
    stats = app.stats_sync()
    of_workers = {queue for worker in stats.workers for queue in worker.queues or ()}
    paused = {pause.queue for pause in stats.pauses if pause.queue is not None}
    of_tasks = {task.defaults.queue for task in app.tasks.values()}
    of_tasks |= {info.queue for info in stats.registered}
    return {*of_tasks, *of_workers, *(each.queue for each in stats.queues), *paused}


def _complete(
    ctx: click.Context, incomplete: str, names: Callable[[App], Iterable[str]]
) -> list[str]:
    from rowlock.cli.database import opened
    from rowlock.cli.parameters import Place

    place = Place(ctx.params.get("database"), ctx.params.get("named_app"))
    try:
        with opened(place) as app:
            return sorted(name for name in names(app) if name.startswith(incomplete))
    except Exception:  # noqa: BLE001 - see above
        return []
