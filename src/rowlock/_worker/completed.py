"""
What became of an attempt that called `complete`: only the store knows.

Its success stands or falls with its handler's own transaction, which may end after the
handler, or never. It is asked apart from all outcomes, and nobody waits for the answer.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rowlock._events.attempts import AttemptUncommitted
from rowlock._job import Outcome, Status
from rowlock._store import Fate, Settled
from rowlock._worker import execute
from rowlock._worker.report import of_attempt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock._worker.runs import Run
    from rowlock._worker.settings import Settings

_ROLLED_BACK = (
    "the handler returned, and the transaction in which it had called complete() was"
    " rolled back, as one is that isn't committed: commit before the handler returns,"
    " and call complete() outside of savepoints"
)

# After which an open transaction was forgotten rather than is about to be committed.
UNCOMMITTED_AFTER_S = 5.0


class Completed:
    """Asks for the attempts of one worker that have recorded their own success."""

    def __init__(self, settings: Settings) -> None:
        self._store = settings.store
        self._extensions = settings.extensions

    async def ask(self, runs: Sequence[Run]) -> list[Settled | None]:
        """
        Ask what became of attempts; None: nothing is recorded, and it is to be written.

        One whose transaction lives is answered as locked (`Settled.is_locked`).
        """
        fates = await self._store.lent.settled([run.key for run in runs])
        return [_settled(run, fate) for run, fate in zip(runs, fates, strict=True)]

    def tell_open(self, run: Run, since: float, *, was_told: bool) -> bool:
        """
        Tell once that a transaction of its handler's is open, `since` that has ended.

        Says whether it has been told.
        """
        run.is_open = True
        open_s = time.monotonic() - since
        if was_told or open_s < UNCOMMITTED_AFTER_S:
            return was_told
        reason = (
            f"{still_open(run)}, and nobody else can end, cancel or recover the job:"
            " commit before the handler returns; pg_stat_activity shows the session"
        )
        self._extensions.emit(
            AttemptUncommitted(**of_attempt(run.claim), open_s=open_s, reason=reason)
        )
        return True


def still_open(run: Run) -> str:
    """Say that a handler has left its transaction open."""
    call = "complete" if run.is_asked else "hold"
    return (
        f"the handler has ended, and the transaction in which it had called {call}() is"
        " still open"
    )


def unwritten(run: Run) -> str:
    """Say why an outcome couldn't be written until its worker had to end."""
    if run.is_open:
        return still_open(run)
    if run.is_asked:
        return (
            "the store didn't tell in time what became of the transaction in which the"
            " handler had called complete()"
        )
    return "the store didn't take it before the worker had to end"


def _settled(run: Run, fate: Fate) -> Settled | None:
    claim = run.key.claim
    if fate is Fate.OPEN:
        return Settled(key=run.key, accepted=False, status=Status.RUNNING, claims=claim)
    if fate is Fate.SUCCEEDED:
        return Settled(
            key=run.key, accepted=True, status=Status.SUCCEEDED, claims=claim
        )
    # What is lost is refused by the write, which tells how the job stands.
    return None


def rolled_back(run: Run, outcome: Outcome) -> Outcome:
    """Judge an attempt whose transaction was rolled back: a return is a failure."""
    if outcome.status is not Status.SUCCEEDED:
        return outcome
    return execute.ended_by(run, "CompletionRolledBack", _ROLLED_BACK)
