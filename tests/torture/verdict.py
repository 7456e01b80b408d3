"""
Whether a run kept the laws: its history against the rows that it left.

What a process didn't live to write down is in doubt, and anything is allowed that may
have been; what is known has to fit.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from . import effects, promises
from .causes import Broken, Causes, Found, refusals
from .claims import Claim, Effect, Row, Run
from .effects import told
from .history import History

FINAL = promises.FINAL
LATE = "no late outcome is accepted"
LOST = ("no job is lost", "every job ends")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found, and the figures of the run."""

    history: History
    rows: Sequence[Row]
    effects: Sequence[Effect]
    broken: Sequence[Broken]
    duplicates: Counter[str]
    losses: Counter[str]

    def lines(self) -> Iterator[str]:
        """Tell the figures, then what was broken, and of one job its history."""
        fates = Counter(asked.fate for asked in self.history.asked.values())
        ends = Counter(row.status for row in self.rows)
        yield (
            f"jobs {len(self.rows)} ({told(ends)}); asked for and not enqueued:"
            f" {fates['never']} rolled back or refused, {fates['duplicate']}"
            f" duplicates, {fates['unknown']} in doubt"
        )
        starts = sum(len(runs) for runs in self.history.runs_of.values())
        yield f"handlers started {starts}; claims lost {told(self.losses)}"
        yield f"jobs that ended well twice {told(self.duplicates)}"
        late = sum(broken.law == LATE for broken in self.broken)
        lost = sum(broken.law in LOST for broken in self.broken)
        refused = sum(1 for _ in refusals(self.history))
        yield f"jobs lost {lost}; late outcomes accepted {late}, refused {refused}"
        yield from effects.lines(self.history, self.effects)
        if not self.broken:
            yield "every law holds"
            return
        yield f"{len(self.broken)} broken:"
        for broken in self.broken[:10]:
            yield f"  {broken}"
        first = next((each for each in self.broken if each.job_id), self.broken[0])
        yield f"the history of job {first.job_id}:"
        yield from self.history.about(first.job_id, first.at)


def judge(
    history: History,
    rows: Sequence[Row],
    written: Sequence[Effect],
    *,
    lease: float,
    is_server: bool,
) -> Verdict:
    """
    Judge a run that has drained; `is_server` says that the store is one.

    It has a clock of its own then, and one who writes keeps nobody else out.
    """
    causes = Causes(history, lease, has_one_writer=not is_server).judge()
    by_mark: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_mark[row.mark].append(row)
    parts = [
        check_rows(history, rows),
        causes,
        promises.check_commits(history, by_mark),
        promises.check_spawned(by_mark),
        promises.check_cancels(history, rows),
        promises.check_keys(history, by_mark),
        effects.check_effects(rows, written),
        effects.check_transactions(history, written),
    ]
    if is_server:
        parts.append(promises.check_delays(history, rows))
    broken = list(chain.from_iterable(part.broken for part in parts))
    return Verdict(history, rows, written, broken, causes.duplicates, causes.losses)


def check_rows(history: History, rows: Iterable[Row]) -> Found:
    """Check each row against its claims."""
    found = Found()
    for row in rows:
        claims = history.claims.get(row.id, {})
        of_job = [claims.get(n, Claim(n)) for n in range(1, row.claims + 1)]
        if row.status not in FINAL:
            found.add("every job ends", row.id, f"it is {row.status}")
            continue
        if max(claims, default=0) > row.claims:
            how = f"{row.claims} claims in the row, and {max(claims)} were given"
            found.add("claims only grow", row.id, how)
        for claim in of_job:
            _check_claim(found, row, claim, is_last=claim.number == row.claims)
        _check_order(found, row, of_job)
        _check_sums(found, row, of_job)
        _check_starts(found, row, of_job)
    return found


def _check_starts(found: Found, row: Row, claims: Sequence[Claim]) -> None:
    numbers = [run.number for claim in claims for run in claim.runs]
    if row.max_attempts == 1 and len(numbers) > 1:
        how = f"its handler started {len(numbers)} times"
        found.add("at most once", row.id, how)
    # A start that nobody lived to write down has a number, too.
    if numbers != sorted(set(numbers)) or max(numbers, default=0) > row.attempts:
        how = f"{row.attempts} in the row, its handlers were {numbers}"
        found.add("attempts are numbered 1, 2, 3", row.id, how)


def _check_claim(found: Found, row: Row, claim: Claim, *, is_last: bool) -> None:
    if len(claim.runs) > 1 or any(run.ends > 1 for run in claim.runs):
        how = f"claim {claim.number} started or ended more than once"
        found.add("a claim runs once", row.id, how)
    if not claim.ends:
        how = f"nobody handed in an end of claim {claim.number}"
        found.add("every claim has an end", row.id, how)
    if len(claim.accepted) > 1:
        how = f"{len(claim.accepted)} outcomes of claim {claim.number} were accepted"
        found.add("a claim ends once", row.id, how)
    for end in claim.accepted:
        # One that waited again was cancelled before anybody claimed it.
        is_right = (
            end.found == "pending"
            if not is_last
            else end.found == row.status
            or (end.found == "pending" and row.status == "cancelled")
        )
        if not is_right:
            how = (
                f"claim {claim.number} of {row.claims} ended {end.found}, the row says"
                f" {row.status}"
            )
            found.add("the last claim ends a job", row.id, how)
    _check_handler(found, row, claim)


def _check_handler(found: Found, row: Row, claim: Claim) -> None:
    """Check that an end that its own worker wrote is what the handler did."""
    for end in claim.accepted:
        for run in claim.runs:
            # A child process may be killed between its last line and its last word.
            if end.lost or run.process != claim.process or end.process != run.process:
                continue
            if end.is_effect:
                # Whatever the handler does after its commit.
                continue
            is_right = {
                "ended": end.status in _after_return(run),
                "raised": end.status != "succeeded",
                "gave up": end.status != "succeeded",
                "": False,
            }[run.how]
            if end.unstarted or not is_right:
                how = f"claim {claim.number} was written as {end.status}"
                how += f", and its handler {run.how or 'ran on'}"
                found.add("an outcome is what the handler did", row.id, how)


def _after_return(run: Run) -> Sequence[str]:
    """Tell what its worker may write of a run that has returned."""
    if run.transaction is None:
        return "succeeded", "cancelled"
    # It would have recorded its own success, which was rolled back or came to nothing.
    return "pending", "failed", "cancelled"


def _check_order(found: Found, row: Row, claims: Sequence[Claim]) -> None:
    """Check that nothing counts that was handed in when others had the job."""
    later = math.inf
    for claim in reversed(claims):
        for end in claim.accepted:
            if end.at > later:
                how = (
                    f"an outcome of claim {claim.number} was handed in"
                    f" {end.at - later:.3f} s after the next claim, and accepted"
                )
                found.add(LATE, row.id, how, end.at)
        later = min(later, claim.began_at)


def _check_sums(found: Found, row: Row, claims: Sequence[Claim]) -> None:
    for name, told_in_row in (
        ("failed", row.failures),
        ("lost", row.losses),
        ("unstarted", row.claims - row.attempts),
    ):
        ways = [{bool(getattr(end, name)) for end in claim.ends} for claim in claims]
        least = sum(way == {True} for way in ways)
        most = sum(True in way for way in ways)
        if not least <= told_in_row <= most:
            how = f"{told_in_row} {name} in the row, {least} to {most} in the history"
            found.add("starts and failures add up", row.id, how)
