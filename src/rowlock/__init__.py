"""
Rowlock: a job queue for Python that lives in the database you already have.

Everything public is named here, and nothing else is.
"""

from __future__ import annotations

from rowlock._answers import (
    Answer,
    Answers,
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
from rowlock._dead_letters import DeadGroup
from rowlock._doctor import Finding
from rowlock._errors import (
    ClaimLost,
    ConfigError,
    DuplicateTask,
    InvalidTask,
    JobNotFound,
    JobUnfinished,
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
from rowlock._filter import Between, Filter
from rowlock._job import Job, NewJob, Status
from rowlock._retry import Backoff
from rowlock._signals import Retry, Signal, Snooze, Unrecoverable
from rowlock._task import KeyedTask, Task

__all__ = [
    "Answer",
    "Answers",
    "App",
    "Attempt",
    "Backoff",
    "Between",
    "Cancelled",
    "ClaimLost",
    "ConfigError",
    "DeadGroup",
    "DuplicateTask",
    "Filter",
    "Finding",
    "InvalidTask",
    "Job",
    "JobNotFound",
    "JobUnfinished",
    "KeyedTask",
    "NewJob",
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
    "StoreError",
    "StoreUnavailable",
    "Task",
    "TaskInfo",
    "TaskNotFound",
    "TaskStats",
    "Unrecoverable",
    "UsageError",
    "Why",
    "WorkerInfo",
    "WrongConnection",
    "current_attempt",
]

__version__ = "0.1.0"

# A traceback names what users import, not the module that happens to hold it. Errors
# only: type hints of a dataclass are resolved in the module it says it is of.
for _public in [globals()[name] for name in __all__]:
    if isinstance(_public, type) and issubclass(_public, Exception):
        _public.__module__ = __name__
del _public
