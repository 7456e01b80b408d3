"""What a journal says of a run: each job's claims, and what befell each process."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.journal import Record

from .claims import Asked, Claim, Handed, Run, Span, Transaction

LONGEST = 30
AFTER_S = 3.0
# What is told of a job beside its own records: of all, and of its processes.
OF_ALL = {
    *("server stops", "server is back", "terminate"),
    *("file is locked", "file is free", "sleeps", "wakes", "calm"),
}


FATES = {
    "committed": "committed",
    "duplicate": "duplicate",
    "refused": "never",
    "rolled back": "never",
    "commits": "unknown",
    "unknown": "unknown",
}
# What the transaction of an effect has come to, as its handler was told.
COME_TO = (
    *("effect committed", "effect rolled back"),
    *("effect refused", "effect broke"),
)


class History:
    """All records of a run, sorted by whom they are of."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = list(records)
        self.end = self.records[-1].at if self.records else 0.0
        self.claims: dict[int, dict[int, Claim]] = defaultdict(dict)
        self.asked: dict[str, Asked] = {}
        self.runs_of: dict[str, list[Run]] = defaultdict(list)
        self.cancels: dict[int, list[Record]] = defaultdict(list)
        self.parents: dict[int, int] = {}
        self.pids: dict[str, int] = {}
        self.kills: dict[int, list[float]] = defaultdict(list)
        self.stops: dict[int, list[Span]] = defaultdict(list)
        self.away: dict[int, list[Span]] = defaultdict(list)
        self.outages: list[Span] = []
        self.terminations: list[float] = []
        self.holder_of: dict[tuple[int, int], str] = {}
        self.refused = 0
        self.answered: list[float] = []
        self.draining: dict[int, float] = {}
        for record in self.records:
            self._take(record)

    def _take(self, record: Record) -> None:
        take = TAKERS.get(record.what)
        if take is not None:
            take(self, record, record.of)

    def claim(self, of: Any) -> Claim:  # noqa: ANN401 - a record's fields
        claims = self.claims[of["job_id"]]
        return claims.setdefault(of["claim"], Claim(of["claim"]))

    def of_job(self, job_id: int) -> Sequence[Claim]:
        """Give a job's claims in order."""
        return [claim for _, claim in sorted(self.claims.get(job_id, {}).items())]

    # What producers tell

    def _asked(self, record: Record, of: Any) -> None:  # noqa: ANN401
        self.asked[of["mark"]] = Asked(
            of["mark"],
            record.at,
            of["task"],
            of.get("delay", 0.0),
            of.get("idempotency_key"),
        )

    def _learn(self, record: Record, of: Any) -> None:  # noqa: ANN401
        asked = self.asked[of["mark"]]
        asked.fate, asked.job_id = FATES[record.what], of.get("job_id")
        asked.is_in_commit = record.what == "commits"
        if asked.fate in ("committed", "duplicate"):
            asked.answered_at = record.at

    def _broke(self, _: Record, of: Any) -> None:  # noqa: ANN401
        asked = self.asked[of["mark"]]
        asked.fate = "unknown" if asked.is_in_commit else "never"

    def _cancels(self, record: Record, of: Any) -> None:  # noqa: ANN401
        self.cancels[of["job_id"]].append(record)

    # What workers tell

    def _claimed(self, record: Record, of: Any) -> None:  # noqa: ANN401
        claim = self.claim(of)
        claim.at, claim.process = record.at, pid_of(record)

    def _handed(self, record: Record, of: Any) -> None:  # noqa: ANN401
        names = ("status", "failed", "lost", "unstarted")
        told = [of[name] for name in names]
        self.claim(of).handed.append(Handed(record.at, pid_of(record), *told))

    def _settled(self, record: Record, of: Any) -> None:  # noqa: ANN401
        for handed in reversed(self.claim(of).handed):
            if handed.process == pid_of(record) and handed.status == of["status"]:
                handed.answered_at = record.at
                self.answered.append(record.at)
                handed.accepted = of["accepted"]
                handed.found = of["found_status"]
                return

    def _started(self, record: Record, of: Any) -> None:  # noqa: ANN401
        run = Run(record.at, pid_of(record), of["number"])
        self.claim(of).runs.append(run)
        self.runs_of[of["mark"]].append(run)

    def _ends(self, record: Record, of: Any) -> None:  # noqa: ANN401
        for run in reversed(self.claim(of).runs):
            if run.process == pid_of(record):
                run.ended_at, run.how, run.ends = record.at, record.what, run.ends + 1
                return

    def _begins(self, record: Record, of: Any) -> None:  # noqa: ANN401
        for run in reversed(self.claim(of).runs):
            if run.process == pid_of(record):
                run.transaction = Transaction()
                return

    def _to_commit(self, record: Record, of: Any) -> None:  # noqa: ANN401
        """Take it as the end of its claim, in doubt until more is known."""
        end = Handed(record.at, pid_of(record), "succeeded", *(False,) * 3)
        end.is_effect = True
        self.claim(of).handed.append(end)
        for transaction in self._transaction(record, of):
            transaction.fate, transaction.end = "in doubt", end

    def _come_to(self, record: Record, of: Any) -> None:  # noqa: ANN401
        for transaction in self._transaction(record, of):
            end, fate = transaction.end, record.what.removeprefix("effect ")
            transaction.ended_at = record.at
            transaction.error = of.get("error", "")
            if end is not None and fate == "broke":
                return  # what broke in its commit may be there
            transaction.fate = fate
            if end is not None:
                end.answered_at, end.accepted = record.at, fate == "committed"
                end.found = "succeeded" if end.accepted else None
            if fate == "committed":
                self.answered.append(record.at)

    def _transaction(self, record: Record, of: Any) -> Iterator[Transaction]:  # noqa: ANN401
        for run in reversed(self.claim(of).runs):
            if run.process == pid_of(record) and run.transaction is not None:
                yield run.transaction
                return

    def _worker_started(self, record: Record, of: Any) -> None:  # noqa: ANN401
        self.parents[pid_of(record)] = of["parent"]
        self.pids[of["worker"]] = pid_of(record)

    def _claim_recovered(self, _: Record, of: Any) -> None:  # noqa: ANN401
        self.holder_of[of["job_id"], of["claim"]] = of["lost_worker"]

    def _claim_refused(self, _: Record, __: Any) -> None:  # noqa: ANN401
        self.refused += 1

    def _worker_draining(self, record: Record, _: Any) -> None:  # noqa: ANN401
        self.draining[pid_of(record)] = record.at

    def _store_unavailable(self, record: Record, _: Any) -> None:  # noqa: ANN401
        self.away[pid_of(record)].append(Span(record.at, self.end))

    def _store_recovered(self, record: Record, _: Any) -> None:  # noqa: ANN401
        _close(self.away[pid_of(record)], record.at)

    # What was done to them

    def _kill(self, record: Record, of: Any) -> None:  # noqa: ANN401
        self.kills[of["pid"]].append(record.at)

    def _stop(self, record: Record, of: Any) -> None:  # noqa: ANN401
        self.stops[of["pid"]].append(Span(record.at, self.end))

    def _continue(self, record: Record, of: Any) -> None:  # noqa: ANN401
        _close(self.stops[of["pid"]], record.at)

    def _outage_begins(self, record: Record, _: Any) -> None:  # noqa: ANN401
        self.outages.append(Span(record.at, self.end))

    def _outage_ends(self, record: Record, _: Any) -> None:  # noqa: ANN401
        _close(self.outages, record.at)

    def _terminates(self, record: Record, _: Any) -> None:  # noqa: ANN401
        self.terminations.append(record.at)

    # To be read

    def about(self, job_id: int, at: float = math.inf) -> list[str]:
        """
        Tell of a job, and of what befell those who had it: at most 30 lines.

        They end soon after the instant at which something was wrong.
        """
        told = [r for r in self._concerning(job_id) if r.at <= at + AFTER_S]
        if len(told) > LONGEST:
            # How it began, and the end of it, which is where something is wrong.
            told = [*told[: LONGEST // 3], *told[-(LONGEST - LONGEST // 3) :]]
        begin = told[0].at if told else 0.0
        return [in_words(record, begin) for record in told]

    def _concerning(self, job_id: int) -> Iterator[Record]:
        claims = self.of_job(job_id)
        pids = {pid for claim in claims for pid in claim.processes}
        pids |= {self.parents[pid] for pid in pids if pid in self.parents}
        own = [r for r in self.records if r.of.get("job_id") == job_id]
        marks = {r.of["mark"] for r in own if "mark" in r.of}
        first, last = (own[0].at, own[-1].at) if own else (0.0, 0.0)
        for record in self.records:
            is_own = record.of.get("job_id") == job_id
            is_asked = record.of.get("mark") in marks
            befalls = record.of.get("pid") in pids or record.what in OF_ALL
            is_of_store = record.what.startswith("store.") and pid_of(record) in pids
            is_meanwhile = first <= record.at <= last
            if is_own or is_asked or (is_meanwhile and (befalls or is_of_store)):
                yield record


TAKERS: Mapping[str, Callable[[History, Record, Any], None]] = {
    "asked": History._asked,
    **dict.fromkeys(FATES, History._learn),
    "broke": History._broke,
    "cancel asked": History._cancels,
    "cancel answered": History._cancels,
    "claimed": History._claimed,
    "handed": History._handed,
    "settled": History._settled,
    "started": History._started,
    **dict.fromkeys(("ended", "raised", "gave up"), History._ends),
    "effect begins": History._begins,
    "effect commits": History._to_commit,
    **dict.fromkeys(COME_TO, History._come_to),
    "worker.started": History._worker_started,
    "worker.draining": History._worker_draining,
    "claim.recovered": History._claim_recovered,
    "claim.refused": History._claim_refused,
    "store.unavailable": History._store_unavailable,
    "store.recovered": History._store_recovered,
    "kill": History._kill,
    "stop": History._stop,
    "continue": History._continue,
    **dict.fromkeys(("server stops", "file is locked"), History._outage_begins),
    **dict.fromkeys(("server is back", "file is free"), History._outage_ends),
    "terminate": History._terminates,
}


def _close(spans: list[Span], at: float) -> None:
    if spans:
        spans[-1] = spans[-1]._replace(end=at)


def pid_of(record: Record) -> int:
    """Give the process that wrote a record."""
    return int(record.process.rpartition("-")[2])


def in_words(record: Record, begin: float) -> str:
    """Say a record on one line, at a time since the first."""
    of = " ".join(f"{name}={value}" for name, value in record.of.items())
    return f"{record.at - begin:8.3f}  {record.process:<16} {record.what} {of}"[:200]
