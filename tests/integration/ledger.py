"""
What a journal says of each claim: who had it, how its handler went, how it ended.

A process that is killed between a commit and its record leaves the outcome in doubt:
handed over, without an answer. A claim has exactly one end, so such a one is the end
where nobody recorded another. Of several the last is: whoever hands over a loss has
read, after the worker's death, that its outcome had not been written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from rowlock import Job, Status
from rowlock._job import ClaimKey
from tests.journal import Record


@dataclass(slots=True)
class Account:
    """All records of one claim; those in `handed` got no answer."""

    claimed_at: float | None = None
    process: str | None = None
    handlers: list[str] = field(default_factory=list)
    accepted: list[Record] = field(default_factory=list)
    refused: list[Record] = field(default_factory=list)
    handed: list[Record] = field(default_factory=list)

    @property
    def ends(self) -> Sequence[Record]:
        """What ended it: exactly one record, or something is wrong."""
        return self.accepted or self.handed[-1:]


def accounts_of(records: Iterable[Record]) -> Mapping[ClaimKey, Account]:
    """Sort records by claim; they come in the order in which they were written."""
    accounts: dict[ClaimKey, Account] = defaultdict(Account)
    holding: dict[tuple[str, int], ClaimKey] = {}
    for record in records:
        if record.what in ("claimed", "handed", "settled"):
            key = ClaimKey(record.of["job_id"], record.of["claim"])
            account = accounts[key]
            if record.what == "claimed":
                account.claimed_at = record.at
                account.process = record.process
                holding[record.process, key.job_id] = key
            elif record.what == "handed":
                account.handed.append(record)
            else:
                _settle(account, record)
        elif record.what in ("started", "raised", "returned"):
            key = holding[record.process, record.of["job_id"]]
            accounts[key].handlers.append(record.what)
    return accounts


def _settle(account: Account, settled: Record) -> None:
    """Put an answer in the place of what was handed over, perhaps more than once."""
    ours = [h for h in account.handed if h.process == settled.process]
    account.handed = [h for h in account.handed if h not in ours]
    (account.accepted if settled.of["accepted"] else account.refused).append(ours[-1])


def uncounted(accounts: Mapping[ClaimKey, Account]) -> Sequence[Record]:
    """Give the ends of attempts after which a job waits again, and has not failed."""
    ends = [end for account in accounts.values() for end in account.ends]
    return [
        end
        for end in ends
        if end.of["status"] == Status.PENDING
        and not (end.of["failed"] or end.of["unstarted"])
    ]


def check(job: Job, accounts: Mapping[ClaimKey, Account]) -> None:
    """Assert that a job that is over is what its claims, one by one, came to."""
    of_job = [accounts[ClaimKey(job.id, n)] for n in range(1, job.claims + 1)]
    for number, account in enumerate(of_job, start=1):
        told = f"claim {number} of {job}: {account}"
        assert len(account.accepted) <= 1, told
        assert len(account.ends) == 1, told
        _check_handler(account, told)
    ends = [account.ends[0] for account in of_job]
    assert job.attempts == job.claims - sum(end.of["unstarted"] for end in ends), job
    assert job.failures == sum(end.of["failed"] for end in ends), job
    assert job.losses == sum(end.of["lost"] for end in ends), job
    assert [Status(end.of["status"]).is_final for end in ends] == [
        *[False] * (len(ends) - 1),
        True,
    ], job
    assert job.status == ends[-1].of["status"], job
    for account, following in pairwise(of_job):
        # Nothing that was handed over after the next claim was given out counts.
        assert following.claimed_at is None or (
            account.ends[0].at < following.claimed_at
        ), job


def _check_handler(account: Account, told: str) -> None:
    """Assert that a handler ran at most once, and to what the accepted end says."""
    end = account.ends[0].of
    if end["lost"]:
        assert account.handlers in ([], *_PARTS), told
    elif end["unstarted"]:
        assert account.handlers == [], told
    elif end["status"] == Status.PENDING and not end["failed"]:
        assert account.handlers in _PARTS, told
    else:
        assert account.process == account.ends[0].process, told
        assert account.handlers == [
            "started",
            "raised" if end["failed"] else "returned",
        ]


_PARTS = (["started"], ["started", "raised"], ["started", "returned"])
