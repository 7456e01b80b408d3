"""
Why a job ran twice, ran beside itself, or lost its worker: what the history shows.

Without a cause each of them is a fault of the queue's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

from .claims import Claim, Handed, Run, Span
from .history import History

# A worker renews every 0.3 of a lease, so that less than 0.7 of it may be left when
# something begins; some of that for a machine on which threads wait for their turn.
SHARE = 0.6
# Between the record of a kill and the kill, in which others go on.
SLACK_S = 0.5


@dataclass(frozen=True, slots=True)
class Broken:
    """A law that was broken: of which job, how, and when if that is known."""

    law: str
    job_id: int
    how: str
    at: float = math.inf

    def __str__(self) -> str:
        of = f" (job {self.job_id})" if self.job_id else ""
        return f"{self.law}{of}: {self.how}"


@dataclass(slots=True)
class Found:
    """What was broken, and how often what may happen did, by cause."""

    broken: list[Broken] = field(default_factory=list)
    duplicates: Counter[str] = field(default_factory=Counter)
    losses: Counter[str] = field(default_factory=Counter)

    def add(self, law: str, job_id: int, how: str, at: float = math.inf) -> None:
        self.broken.append(Broken(law, job_id, how, at))


class Causes:
    """Looks for causes in one history."""

    def __init__(self, history: History, lease: float, *, has_one_writer: bool) -> None:
        self._history = history
        self._lease = lease
        self._has_one_writer = has_one_writer

    def judge(self) -> Found:
        found = Found()
        for job_id in self._history.claims:
            claims = self._history.of_job(job_id)
            for claim in claims:
                self._judge_loss(found, job_id, claim)
            runs = [(claim, run) for claim in claims for run in claim.runs]
            for (claim, run), (later, again) in combinations(runs, 2):
                self._judge_overlap(found, job_id, claim, run, again)
                if run.is_done and again.is_done:
                    self._judge_duplicate(found, job_id, claim, run, later)
        return found

    def _judge_duplicate(
        self, found: Found, job_id: int, claim: Claim, run: Run, later: Claim
    ) -> None:
        cause = self._why(job_id, claim, Span(run.at, later.began_at))
        if claim is later or cause is None:
            how = f"claims {claim.number} and {later.number} both ended well"
            found.add("no duplicate without a cause", job_id, how, later.began_at)
        else:
            found.duplicates[cause] += 1

    def _judge_overlap(
        self, found: Found, job_id: int, claim: Claim, run: Run, again: Run
    ) -> None:
        # One without an end died with its process, and can't have had effects since.
        if not again.at < run.ended_at < math.inf:
            return
        if not self._out_of_reach(claim, Span(claim.began_at, again.at)):
            how = (
                f"it started in {again.process} while it ran in {run.process}"
                f" (claim {claim.number})"
            )
            found.add("no job runs beside itself", job_id, how, run.ended_at)

    def _judge_loss(self, found: Found, job_id: int, claim: Claim) -> None:
        for handed in claim.accepted:
            if not handed.lost:
                continue
            # A worker that was stopped as it claimed hears of its claim after its loss.
            begin = min(claim.began_at, handed.at - self._lease)
            cause = self._why(job_id, claim, Span(begin, handed.at))
            if cause is None:
                how = f"claim {claim.number} was recovered by {handed.process}"
                found.add("no loss without a cause", job_id, how, handed.at)
            else:
                found.losses[cause] += 1

    def _why(self, job_id: int, claim: Claim, span: Span) -> str | None:
        """Tell what kept a claim from ending as it should have, within a time."""
        holder = self._history.holder_of.get((job_id, claim.number), "")
        pids = self._lineage(claim, holder)
        since = span.begin - SLACK_S
        if any(since <= at <= span.end for pid in pids for at in self._kills(pid)):
            return "killed"
        if cause := self._out_of_reach(claim, span):
            return cause
        if any(self._history.draining.get(pid, span.end) < span.end for pid in pids):
            return "told to stop"
        if claim.at is None and not claim.runs:
            return "its claim's answer was lost"
        return None

    def _out_of_reach(self, claim: Claim, span: Span) -> str | None:
        least = SHARE * self._lease
        # Its worker renews a claim, not its supervisor, nor its handler's child.
        workers = claim.processes if claim.process is None else {claim.process}
        for pid in workers:
            if sum(span.overlap(stop) for stop in self._history.stops[pid]) >= least:
                return "stopped past its lease"
        before = Span(span.begin - self._lease, span.end)
        for pid in workers:
            away = [each for each in self._history.away[pid] if each.overlap(before)]
            lasted = sum(each.overlap(before) for each in away)
            if lasted >= least and any(map(self._is_disturbed, away)):
                return "out of the database's reach"
        if self._has_one_writer and self._is_kept_out(before):
            return "out of the database's reach"
        return None

    def _is_kept_out(self, span: Span) -> bool:
        """
        Tell whether one that was stopped in a write has kept all others out.

        SQLite waits for it inside of a call, up to ten seconds, before anybody is told.
        """
        return any(
            span.overlap(stop) >= SHARE * self._lease
            and not any(
                stop.begin + SLACK_S < at < stop.end for at in self._history.answered
            )
            for stops in self._history.stops.values()
            for stop in stops
        )

    def _is_disturbed(self, span: Span) -> bool:
        """Tell whether something was done that may have cut workers off."""
        # On SQLite one that is stopped in a write keeps all others out.
        history = self._history
        wide = Span(span.begin - self._lease, span.end)
        stops = [stop for stops in history.stops.values() for stop in stops]
        return any(wide.overlap(each) for each in [*history.outages, *stops]) or any(
            wide.begin <= at <= wide.end for at in history.terminations
        )

    def _lineage(self, claim: Claim, holder: str = "") -> set[int]:
        """Give the processes with whose death a claim is lost."""
        pids = claim.processes | {
            pid for pid in [self._history.pids.get(holder)] if pid is not None
        }
        parents = self._history.parents
        return pids | {parents[pid] for pid in pids if pid in parents}

    def _kills(self, pid: int) -> list[float]:
        return self._history.kills.get(pid, [])


def refusals(history: History) -> Iterator[Handed]:
    """Give the outcomes that were refused, as they came too late."""
    for claims in history.claims.values():
        for claim in claims.values():
            for handed in claim.handed:
                is_refused = handed.answered_at is not None and not handed.accepted
                if is_refused and not handed.is_effect:
                    yield handed
