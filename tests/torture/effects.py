"""Whether what handlers wrote in their own transactions is there exactly once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .causes import Found
from .claims import Effect, Row, Transaction
from .history import History

# The tasks whose success is an effect, and the other way round.
PAID = ("paid", "paid_awaited", "paid_long", "paid_parent")
ONCE = "one effect where a job succeeded, and else none"
HOLDER = "an effect is of the claim that succeeded"
COMMITTED = "what is committed is there"
NOWHERE = "no effect comes from nowhere"
ROLLED_BACK = "what rolls back has no effect"


class Payment(NamedTuple):
    """A transaction, and whose it was."""

    job_id: int
    claim: int
    transaction: Transaction


def check_effects(rows: Iterable[Row], effects: Iterable[Effect]) -> Found:
    """Check the effects against the jobs as they ended."""
    found = Found()
    of_job: dict[int, list[Effect]] = defaultdict(list)
    for effect in effects:
        of_job[effect.job_id].append(effect)
    for row in rows:
        there = of_job.pop(row.id, [])
        if len(there) != int(row.status == "succeeded" and row.task in PAID):
            claims = [effect.claim for effect in there]
            found.add(ONCE, row.id, f"{row.status}, and effects of claims {claims}")
        for effect in there:
            if effect.mark != row.mark:
                found.add(NOWHERE, row.id, effect.mark)
            if effect.claim != row.claims:
                how = f"claim {effect.claim} of {row.claims} had one"
                found.add(HOLDER, row.id, how)
    for job_id, orphans in of_job.items():
        found.add(NOWHERE, job_id, orphans[0].mark)
    return found


def check_transactions(history: History, effects: Iterable[Effect]) -> Found:
    """Check the effects against what their handlers know."""
    found = Found()
    there = {(effect.job_id, effect.claim) for effect in effects}
    for job_id, claim, transaction in payments(history):
        is_there, fate = (job_id, claim) in there, transaction.fate
        if fate == "committed" and not is_there:
            found.add(COMMITTED, job_id, f"claim {claim} had one", transaction.ended_at)
        if not transaction.may_be_there and is_there:
            how = f"claim {claim} has one, and was {fate}"
            found.add(ROLLED_BACK, job_id, how, transaction.ended_at)
    return found


def payments(history: History) -> Iterator[Payment]:
    """Give the transactions of all handlers."""
    for job_id in history.claims:
        for claim in history.of_job(job_id):
            for run in claim.runs:
                if run.transaction is not None:
                    yield Payment(job_id, claim.number, run.transaction)


def lines(history: History, effects: Sequence[Effect]) -> Iterator[str]:
    """Tell the figures."""
    there = {(effect.job_id, effect.claim) for effect in effects}
    fates: Counter[str] = Counter()
    refusals: Counter[str] = Counter()
    for job_id, claim, transaction in payments(history):
        fate = transaction.fate
        if fate == "in doubt":
            fate += ", committed" if (job_id, claim) in there else ", not committed"
        fates[fate] += 1
        if fate == "refused":
            refusals[transaction.error] += 1
    yield f"effects {len(effects)}; handlers' transactions {told(fates)}"
    yield f"completions refused {told(refusals)}"


def told(counts: Counter[str]) -> str:
    """Say a sum and its parts."""
    parts = ", ".join(f"{name} {count}" for name, count in counts.most_common())
    return f"{counts.total()}: {parts}" if parts else "0"
