"""Where a child process finds a task: it can't be sent one."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from rowlock._errors import ConfigError

if TYPE_CHECKING:
    from rowlock._task import Task


class Place(NamedTuple):
    """A task by the module and the name that its function stands at."""

    task: str
    module: str
    qualname: str


def check(tasks: Iterable[Task[..., Any]]) -> None:
    """
    Refuse tasks that no child process could run.

    Raises:
        ConfigError: one isn't found where a child looks for it, or asks for what this
            system doesn't have.
    """
    for task in tasks:
        _check_platform(task)
        place = place_of(task)
        with contextlib.suppress(AttributeError, ImportError):
            if find(place) is task:
                continue
        msg = (
            f"The task {task.name!r} runs in a child process, which looks for it at"
            f" {place.module}.{place.qualname}, and it isn't there: decorate the"
            " function where it stands, with @app.task outermost."
        )
        raise ConfigError(msg)


def _check_platform(task: Task[..., Any]) -> None:
    if sys.platform == "win32":
        msg = (
            f"The task {task.name!r} has executor='process', which needs Linux or"
            " macOS: here a plain function runs in a thread."
        )
        raise ConfigError(msg)
    if task.defaults.max_memory_mb is not None and sys.platform != "linux":
        msg = (
            f"The task {task.name!r} has max_memory_mb, which needs Linux: memory is"
            " read from /proc."
        )
        raise ConfigError(msg)


def place_of(task: Task[..., Any]) -> Place:
    """Tell where a child finds a task."""
    function = task.function
    return Place(task.name, function.__module__, function.__qualname__)


def find(place: Place) -> object:
    """
    Find what stands at a place.

    Raises:
        AttributeError: nothing does.
        ImportError: its module can't be had.
    """
    found: object = sys.modules.get(place.module)
    if found is None:
        found = importlib.import_module(place.module)
    for name in place.qualname.split("."):
        found = getattr(found, name)
    return found
