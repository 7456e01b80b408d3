"""What producers and operators were promised: keys, cancels, spawned jobs, delays."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import NamedTuple

from .causes import Found
from .claims import Asked, Row, Span
from .history import History

# Between the moment at which a producer asks and that at which the store reads it.
EARLY_S = 0.1
PARENTS = ("parent", "paid_parent")
FINAL = ("succeeded", "failed", "cancelled")


class Holder(NamedTuple):
    """A job that had a key: surely in `surely`, and at no time outside of `perhaps`."""

    job_id: int
    surely: Span
    perhaps: Span


def check_commits(history: History, rows: Mapping[str, list[Row]]) -> Found:
    """Check that what was committed is there once, and what wasn't never was."""
    found = Found()
    for asked in history.asked.values():
        there = rows.get(asked.mark, [])
        if asked.fate == "committed" and [row.id for row in there] != [asked.job_id]:
            how = f"committed as {asked.job_id}, found as {[row.id for row in there]}"
            found.add("no job is lost", asked.job_id or 0, how)
        if asked.fate in ("never", "duplicate"):
            if there:
                how = f"{asked.mark} was never committed ({asked.fate})"
                found.add("what rolls back never existed", there[0].id, how)
            elif history.runs_of.get(asked.mark):
                how = f"{asked.mark} was never committed, and ran"
                found.add("what rolls back never existed", 0, how)
        if asked.fate == "unknown" and len(there) > 1:
            found.add("no job is there twice", there[0].id, asked.mark)
    for mark, there in rows.items():
        if mark not in history.asked and not mark.endswith(".child"):
            found.add("no job comes from nowhere", there[0].id, mark)
    return found


def check_spawned(rows: Mapping[str, list[Row]]) -> Found:
    """Check that there is one child of each parent that succeeded, and no other."""
    found = Found()
    for mark, there in rows.items():
        for row in there:
            children = len(rows.get(f"{mark}.child", []))
            expected = int(row.status == "succeeded")
            if row.task in PARENTS and children != expected:
                how = f"{row.status}, with {children} spawned"
                found.add("an outcome and what it spawns are one", row.id, how)
        parent = mark.removesuffix(".child")
        if parent != mark and parent not in rows:
            found.add("no job comes from nowhere", there[0].id, mark)
    return found


def check_cancels(history: History, rows: Iterable[Row]) -> Found:
    """Check that what was asked to be cancelled succeeded or was cancelled."""
    found = Found()
    status_of = {row.id: row.status for row in rows}
    for job_id, records in history.cancels.items():
        for record in records:
            if not record.of.get("done"):
                continue
            status, answered = status_of.get(job_id), record.of["status"]
            allowed = {"cancelled"} | (
                {"succeeded"} if answered == "running" else set()
            )
            if status not in allowed:
                how = f"{status}, after a cancel that found it {answered}"
                found.add("what is cancelled ends so, or well", job_id, how)
    return found


def check_delays(history: History, rows: Iterable[Row]) -> Found:
    """Check that nothing started before it was due, where the clock is right."""
    found = Found()
    for row in rows:
        asked = history.asked.get(row.mark)
        runs = history.runs_of.get(row.mark)
        if asked is None or not runs:
            continue
        early = asked.at + asked.delay - EARLY_S - min(run.at for run in runs)
        if early > 0:
            found.add("nothing starts before it is due", row.id, f"by {early:.2f} s")
    return found


def check_keys(history: History, rows: Mapping[str, list[Row]]) -> Found:
    """Check that a key has one unfinished job at most, and is free when it is over."""
    found = Found()
    keyed: dict[str, list[Asked]] = defaultdict(list)
    for asked in history.asked.values():
        if asked.key is not None:
            keyed[asked.key].append(asked)
    for key, all_asked in keyed.items():
        holders = [
            _holder(history, asked, row)
            for asked in all_asked
            for row in rows.get(asked.mark, [])
        ]
        for one, other in combinations(holders, 2):
            if one.surely.overlap(other.surely):
                how = f"{key} was held by {other.job_id} too"
                found.add("a key has one unfinished job", one.job_id, how)
        for asked in all_asked:
            if asked.fate != "duplicate":
                continue
            meanwhile = Span(asked.at, asked.answered_at)
            if not any(each.perhaps.overlap(meanwhile) for each in holders):
                how = f"{asked.mark} was a duplicate, and nobody held {key}"
                found.add("a key is free when its job is over", 0, how)
    return found


def _holder(history: History, asked: Asked, row: Row) -> Holder:
    claims = history.of_job(row.id)
    last = [end for end in (claims[-1].ends if claims else []) if end.status in FINAL]
    cancels = history.cancels.get(row.id, [])
    ends = [end.at for end in last] + [record.at for record in cancels]
    # A cancel that was asked may have turned any end into the last one.
    if cancels:
        ends += [handed.at for handed in claims[-1].handed] if claims else []
    over = [end.answered_at for end in last if end.accepted]
    by = over[0] if len(over) == 1 and over[0] is not None else math.inf
    return Holder(
        row.id,
        Span(asked.answered_at, min(ends, default=math.inf)),
        Span(asked.at, by),
    )
