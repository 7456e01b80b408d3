"""What commands show of workers, pauses and tasks, without counting all jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from rowlock._answers import Overview, TaskStats
from rowlock._app import App
from rowlock._figures import Figures

R = TypeVar("R")


def overview(app: App) -> Overview:
    """Tell who is at work and what is paused."""
    return _asked(app, lambda figures: figures.overview())


def due_tasks(app: App) -> Sequence[TaskStats]:
    """Count the jobs that are due, by queue and task."""
    return _asked(app, lambda figures: figures.due())


def _asked(app: App, question: Callable[[Figures], Awaitable[R]]) -> R:
    async def ask() -> R:
        await app.open()
        return await question(app._store.figures)

    return app._portal.run(ask(), "the question")
