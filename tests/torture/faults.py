"""Stores with a fault that is planted, for the verdict to find."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rowlock._job import Outcome
    from rowlock._store import Lent, Settled, Store

CLAIMS_ON_POSTGRES = "SELECT claims FROM rowlock.jobs WHERE id = {}"
CLAIMS_ON_SQLITE = "SELECT claims FROM rowlock_jobs WHERE id = {}"


class Unfenced:
    """A store whose outcomes count whoever holds the claim by now."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.lent = UnfencedLent(
            store.lent, is_server=not store.url.startswith("sqlite")
        )

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def finish(self, outcomes: Sequence[Outcome]) -> Sequence[Settled]:
        """Write each outcome as if it were its job's last claim's."""
        jobs = await self._store.get([outcome.key.job_id for outcome in outcomes])
        claims = {job.id: job.claims for job in jobs}
        settled = await self._store.finish(
            [
                outcome
                if outcome.leased_until is not None
                else _of(claims[outcome.key.job_id], outcome)
                for outcome in outcomes
            ]
        )
        return [
            answer._replace(key=outcome.key)
            for outcome, answer in zip(outcomes, settled, strict=True)
        ]


class UnfencedLent:
    """The same of what is recorded in a handler's transaction."""

    def __init__(self, lent: Lent, *, is_server: bool) -> None:
        self._lent = lent
        self._claims = CLAIMS_ON_POSTGRES if is_server else CLAIMS_ON_SQLITE

    def __getattr__(self, name: str) -> object:
        return getattr(self._lent, name)

    async def complete(self, outcome: Outcome, connection: Any, **of: Any) -> object:  # noqa: ANN401 - of either database
        """Record it as the success of the job's last claim."""
        found = await connection.execute(self._claims.format(outcome.key.job_id))
        (claims,) = await found.fetchone()
        return await self._lent.complete(_of(claims, outcome), connection, **of)

    def complete_sync(self, outcome: Outcome, connection: Any, **of: Any) -> object:  # noqa: ANN401 - as above
        """Do the same on a synchronous connection."""
        found = connection.execute(self._claims.format(outcome.key.job_id))
        (claims,) = found.fetchone()
        return self._lent.complete_sync(_of(claims, outcome), connection, **of)


def _of(claims: int, outcome: Outcome) -> Outcome:
    return outcome._replace(key=outcome.key._replace(claim=claims))
