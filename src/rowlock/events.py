"""
What happens, one frozen dataclass an event: what `App.listen` tells, and logs show.

    def count(event: Event) -> None:
        if isinstance(event, AttemptFailed):
            failures.labels(task=event.task).inc()

    app.listen(count)

`Ending` is what `App.follow` is given, and `AttemptFilter` names the attempt in the
records that a handler logs. `Listener`, `Around` and `Follower` are what `listen`,
`around` and `follow` take, for the annotations of whoever makes one.
"""

from __future__ import annotations

from rowlock._events import Event, JobDuplicate, JobEnqueued, JobEvent
from rowlock._events.attempts import (
    AttemptAbandoned,
    AttemptEvent,
    AttemptFailed,
    AttemptRaisedLate,
    AttemptReleased,
    AttemptSnoozed,
    AttemptStarted,
    AttemptStuck,
    AttemptSucceeded,
    AttemptUncommitted,
    ResultDropped,
    SignalSwallowed,
)
from rowlock._events.operators import (
    JobsCancelled,
    JobsDeleted,
    JobsMoved,
    JobsReplayed,
    OperatorEvent,
    PauseBegan,
    PauseEnded,
)
from rowlock._events.worker import (
    ClaimLapsed,
    ClaimRecovered,
    ClaimRefused,
    JobCancelled,
    JobDeadLettered,
    LoopBlocked,
    LoopFreed,
    OutcomeDropped,
    ReplayProbed,
    StoreAway,
    StoreBack,
    TasksUnserved,
    UpkeepDone,
    WorkerCancelling,
    WorkerDraining,
    WorkerEvent,
    WorkerGivesWay,
    WorkerOverrun,
    WorkerStarted,
    WorkerStopped,
)
from rowlock._extensions import Around, Follower, Listener
from rowlock._job import Ending
from rowlock._log import AttemptFilter

__all__ = [
    "Around",
    "AttemptAbandoned",
    "AttemptEvent",
    "AttemptFailed",
    "AttemptFilter",
    "AttemptRaisedLate",
    "AttemptReleased",
    "AttemptSnoozed",
    "AttemptStarted",
    "AttemptStuck",
    "AttemptSucceeded",
    "AttemptUncommitted",
    "ClaimLapsed",
    "ClaimRecovered",
    "ClaimRefused",
    "Ending",
    "Event",
    "Follower",
    "JobCancelled",
    "JobDeadLettered",
    "JobDuplicate",
    "JobEnqueued",
    "JobEvent",
    "JobsCancelled",
    "JobsDeleted",
    "JobsMoved",
    "JobsReplayed",
    "Listener",
    "LoopBlocked",
    "LoopFreed",
    "OperatorEvent",
    "OutcomeDropped",
    "PauseBegan",
    "PauseEnded",
    "ReplayProbed",
    "ResultDropped",
    "SignalSwallowed",
    "StoreAway",
    "StoreBack",
    "TasksUnserved",
    "UpkeepDone",
    "WorkerCancelling",
    "WorkerDraining",
    "WorkerEvent",
    "WorkerGivesWay",
    "WorkerOverrun",
    "WorkerStarted",
    "WorkerStopped",
]
