"""
Rowlock: a job queue for Python that lives in the database you already have.

Everything public is named here, and nothing else is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock._answers import (
    Answer,
    Answers,
    DeadGroup,
    Finding,
    Page,
    Pause,
    Preview,
    PreviewGroup,
    QueueStats,
    Retention,
    Stats,
    TaskInfo,
    TaskStats,
    Why,
    WorkerInfo,
)
from rowlock._app import App
from rowlock._attempt import Attempt, current_attempt
from rowlock._cancelled import Cancelled
from rowlock._choice import Where
from rowlock._errors import (
    ClaimLost,
    ConfigError,
    DuplicateTask,
    InvalidTask,
    JobNotFound,
    JobUnfinished,
    KeyConflict,
    OutcomeUnknown,
    PayloadError,
    RowlockError,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
    TaskNotFound,
    UsageError,
    WrongConnection,
)
from rowlock._filter import Between, BetweenLike, Filter
from rowlock._job import Job, NewJob, OnConflict, Status, StatusLike
from rowlock._retry import Backoff, BackoffLike
from rowlock._signals import Retry, Signal, Snooze, Unrecoverable
from rowlock._task import KeyedTask, Task

if TYPE_CHECKING:
    from rowlock._worker.health import Health
    from rowlock._worker.worker import Worker

__all__ = [
    "Answer",
    "Answers",
    "App",
    "Attempt",
    "Backoff",
    "BackoffLike",
    "Between",
    "BetweenLike",
    "Cancelled",
    "ClaimLost",
    "ConfigError",
    "DeadGroup",
    "DuplicateTask",
    "Filter",
    "Finding",
    "Health",
    "InvalidTask",
    "Job",
    "JobNotFound",
    "JobUnfinished",
    "KeyConflict",
    "KeyedTask",
    "NewJob",
    "OnConflict",
    "OutcomeUnknown",
    "Page",
    "Pause",
    "PayloadError",
    "Preview",
    "PreviewGroup",
    "QueueStats",
    "Retention",
    "Retry",
    "RowlockError",
    "SchemaMismatch",
    "Signal",
    "Snooze",
    "Stats",
    "Status",
    "StatusLike",
    "StoreError",
    "StoreUnavailable",
    "Task",
    "TaskInfo",
    "TaskNotFound",
    "TaskStats",
    "Unrecoverable",
    "UsageError",
    "Where",
    "Why",
    "Worker",
    "WorkerInfo",
    "WrongConnection",
    "current_attempt",
]

__version__ = "0.1.0"

# A traceback names what users import, not the module that happens to hold it. Errors
# only: type hints of a dataclass are resolved in the module it says it is of.
for _public in tuple(globals().values()):
    if isinstance(_public, type) and issubclass(_public, Exception):
        _public.__module__ = __name__
del _public


if not TYPE_CHECKING:  # or each name would be one, to type checkers
    # Whoever names the class in an annotation has a worker in their program; the others
    # would pay half an import for a name that they never write.
    def __getattr__(name: str) -> object:
        if name == "Worker":
            from rowlock._worker.worker import Worker  # noqa: PLC0415 - see above

            return Worker
        if name == "Health":
            from rowlock._worker.health import Health  # noqa: PLC0415 - see above

            return Health
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
