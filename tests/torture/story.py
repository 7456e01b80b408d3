"""Histories that are made up, for tests of the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from tests.journal import Record

from .claims import Effect, Row
from .history import History
from .verdict import Verdict, judge

LEASE = 2.0


class Story:
    """A history that is written by hand, a tenth of a second a line."""

    def __init__(self) -> None:
        self._ticks = count(1)
        self._wait = 0.0
        self.records: list[Record] = []

    def wait(self, seconds: float) -> Story:
        self._wait += seconds
        return self

    def add(self, process: str, what: str, **of: object) -> Story:
        at = next(self._ticks) / 10 + self._wait
        self.records.append(Record(at, process, what, of))
        return self

    def enqueued(self, mark: str = "a", job_id: int = 1, **of: object) -> Story:
        self.add("producer-9", "asked", mark=mark, task="quick", **of)
        return self.add("producer-9", "committed", mark=mark, job_id=job_id)

    def claimed(self, claim: int = 1, pid: int = 5, job_id: int = 1) -> Story:
        return self.add(f"app-{pid}", "claimed", job_id=job_id, claim=claim)

    def started(
        self, claim: int = 1, pid: int = 5, job_id: int = 1, **of: object
    ) -> Story:
        told = {"mark": "a", "number": claim, **of, "job_id": job_id, "claim": claim}
        return self.add(f"app-{pid}", "started", **told)

    def ended(self, claim: int = 1, pid: int = 5, job_id: int = 1) -> Story:
        return self.add(f"app-{pid}", "ended", job_id=job_id, claim=claim)

    def handed(
        self,
        status: str = "succeeded",
        claim: int = 1,
        pid: int = 5,
        job_id: int = 1,
        **of: object,
    ) -> Story:
        told = {"failed": False, "lost": False, "unstarted": False, **of}
        of = {"job_id": job_id, "claim": claim, "status": status, **told}
        return self.add(f"app-{pid}", "handed", **of)

    def settled(
        self,
        status: str = "succeeded",
        claim: int = 1,
        pid: int = 5,
        job_id: int = 1,
        *,
        accepted: bool = True,
        **of: object,
    ) -> Story:
        self.handed(status, claim, pid, job_id, **of)
        told = {"accepted": accepted, "found_status": status, "status": status}
        key = {"job_id": job_id, "claim": claim}
        return self.add(f"app-{pid}", "settled", **key, **told)

    def ran(self, claim: int = 1, pid: int = 5) -> Story:
        return self.claimed(claim, pid).started(claim, pid).ended(claim, pid)

    def pays(self, *steps: str, claim: int = 1, pid: int = 5, job_id: int = 1) -> Story:
        """Have a handler write down these of its transaction, after its beginning."""
        for step in ("begins", *steps):
            error = {"error": "ClaimLost"} if step == "refused" else {}
            told = {"job_id": job_id, "claim": claim, **error}
            self.add(f"app-{pid}", f"effect {step}", **told)
        return self

    def lost(self, claim: int = 1, pid: int = 6) -> Story:
        return self.settled("pending", claim, pid, lost=True)


def row(
    job_id: int = 1,
    mark: str = "a",
    status: str = "succeeded",
    *,
    claims: int = 1,
    **of: Any,  # noqa: ANN401 - a row's other columns
) -> Row:
    told: dict[str, Any] = {"task": "quick", "attempts": claims, "max_attempts": 6}
    told |= {"failures": 0, "losses": 0, **of}
    return Row(id=job_id, mark=mark, status=status, claims=claims, **told)


def judged(
    story: Story,
    *rows: Row,
    effects: Sequence[Effect] = (),
    is_server: bool = True,
) -> Verdict:
    return judge(
        History(story.records), rows, effects, lease=LEASE, is_server=is_server
    )


def laws(verdict: Verdict) -> set[str]:
    return {broken.law for broken in verdict.broken}
