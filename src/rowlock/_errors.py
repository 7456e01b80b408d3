"""
What can go wrong, as one tree.

RowlockError
├── ConfigError              wrong at start-up: fix the program or its settings
│   ├── TaskNotFound             no task by that name is registered in this app
│   ├── DuplicateTask            a second task of one name
│   └── InvalidTask              this function can't be a task
├── UsageError               this call can't be made like this: fix the call
│   └── WrongConnection          the connection lent to a call can't be used by it
├── PayloadError             arguments or a result can't be stored, or don't fit
├── KeyConflict              another job holds the key, with another payload
├── JobNotFound              no job has that id
├── JobUnfinished            the job didn't end while it was waited for
├── StoreError               the store couldn't do it
│   ├── StoreUnavailable         passing: nothing was written, try again
│   ├── OutcomeUnknown           the connection broke during the commit
│   └── SchemaMismatch           migrate the database, or upgrade this program
└── ClaimLost                the claim is gone: stop, another worker has the job

What a handler raises to steer its job is no error: see `_signals`.
"""

from __future__ import annotations


class RowlockError(Exception):
    """Root of every error that Rowlock raises."""


class ConfigError(RowlockError):
    """
    Something is wrong before the first job: a URL, an app, a setting.

    Fix the program or its settings; trying again doesn't help.
    """


class TaskNotFound(ConfigError):
    """
    No task by that name is registered in this app.

    Import the module that registers it, or correct the name.
    """

    def __init__(self, task: str, message: str) -> None:
        super().__init__(message)
        self.task = task


class DuplicateTask(ConfigError):
    """
    Two functions would be one task.

    Give one of them another name with `name=`.
    """

    def __init__(self, task: str, message: str) -> None:
        super().__init__(message)
        self.task = task


class InvalidTask(ConfigError, TypeError):
    """This function, or these options, can't be a task; the message says why."""


class UsageError(RowlockError, ValueError):
    """
    This call can't be made like this; nothing was written.

    Fix the call: the message names the argument and what would do.
    """


class WrongConnection(UsageError, TypeError):
    """
    The connection lent to this call can't be used by it; nothing was written.

    The message says what to lend or to call in its place.
    """


class PayloadError(RowlockError, ValueError):
    """
    Arguments or a result can't be stored as JSON, or don't fit the handler.

    `path` is where: `$` is the whole, `$.order.lines[2]` a part of it.
    """

    def __init__(self, message: str, *, path: str = "$") -> None:
        super().__init__(message)
        self.path = path


class KeyConflict(RowlockError):
    """
    Another job holds the idempotency key, with another payload; nothing was written.

    `job_id` is that job, None where it would be one of the same call. Use another key
    where another thing is meant.
    """

    def __init__(self, task: str, idempotency_key: str, job_id: int | None) -> None:
        who = "Another job of this call" if job_id is None else f"Job {job_id}"
        super().__init__(
            f"{who} of {task!r} holds the key {idempotency_key!r}, with another"
            " payload: nothing was enqueued. Use another key where another thing is"
            " meant."
        )
        self.task = task
        self.idempotency_key = idempotency_key
        self.job_id = job_id


class JobNotFound(RowlockError, LookupError):
    """No job has that id: it was deleted, pruned, or never existed."""

    def __init__(self, job_id: int) -> None:
        super().__init__(f"There is no job {job_id}.")
        self.job_id = job_id


class JobUnfinished(RowlockError, TimeoutError):
    """
    The job that was waited for hasn't ended in time; it goes on.

    Wait longer, or look at it again.
    """

    def __init__(self, job_id: int, status: str, waited_s: float) -> None:
        super().__init__(
            f"Job {job_id} was still {status} after {waited_s:g} s: wait longer, or"
            f" look at it again with app.get({job_id})."
        )
        self.job_id = job_id
        self.status = status


class StoreError(RowlockError):
    """The store could not do what it was asked."""


class StoreUnavailable(StoreError):
    """
    The store is out of reach, or locked by somebody for too long.

    Nothing was written: try again. The worker does so by itself. On a connection that
    you lent, try all of its transaction again.
    """


class OutcomeUnknown(StoreError):
    """
    The connection broke during the commit: perhaps it was written, perhaps not.

    An enqueue with an idempotency key can be called again (law 15); without one look
    first whether the job is there, or it may run twice. What a worker does it repeats
    by itself.
    """


# What errors of every store say of what passes, and of a commit that broke.
AGAIN = "nothing was written, try again"
PERHAPS = (
    "perhaps it was written, perhaps not. An enqueue with an idempotency key can be"
    " called again; without one look first whether the job is there, or it may run"
    " twice."
)


class SchemaMismatch(StoreError):
    """
    The database's schema is not one that this version of Rowlock can serve.

    The message names the command to run, or says to upgrade.
    """


class ClaimLost(RowlockError):
    """
    The claim is gone: its lease ran out and somebody else may have the job.

    Raised inside a handler. Stop, and let the transaction roll back: on Postgres it
    can't commit any more, on SQLite it is rolled back already.
    """

    def __init__(self, job_id: int, claim: int) -> None:
        super().__init__(
            f"Claim {claim} of job {job_id} is lost: another worker may have the job."
            " Stop here, and roll back."
        )
        self.job_id = job_id
        self.claim = claim
