"""The table of design §2: every verb on every status, allowed or refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest

from rowlock import _outcome
from rowlock._job import TRANSITIONS, Job, Outcome, Status
from rowlock._store import Retention, Store
from rowlock.testing import FakeClock

from .given import LEASE, JobIn, Read, dead, demand, key_of

YEARS = timedelta(days=1000)


@dataclass(frozen=True)
class Move:
    """A verb, and where it wants to lead."""

    act: Callable[[Store, Job], Awaitable[object]]
    to: Status | None


def finish(to: Status, outcome: Callable[[Job], Outcome]) -> Move:
    return Move(lambda store, job: store.finish([outcome(job)]), to)


MOVES = {
    "claim": Move(
        lambda store, _job: store.claim(demand(9), worker="w2", lease=LEASE),
        Status.RUNNING,
    ),
    "finish: succeeded": finish(
        Status.SUCCEEDED, lambda job: _outcome.succeeded(key_of(job))
    ),
    "finish: pending": finish(
        Status.PENDING, lambda job: _outcome.released(key_of(job), unstarted=False)
    ),
    "finish: failed": finish(Status.FAILED, lambda job: dead(key_of(job))),
    "finish: cancelled": finish(
        Status.CANCELLED, lambda job: _outcome.cancelled(key_of(job))
    ),
    "cancel": Move(
        lambda store, job: store.cancel([job.id], by="test"), Status.CANCELLED
    ),
    "expire": Move(
        lambda store, _job: store.prune(
            Retention(succeeded=YEARS, cancelled=YEARS, failed=YEARS), limit=9
        ),
        Status.CANCELLED,
    ),
    "replay": Move(
        lambda store, job: store.replay([job.id], by="test"), Status.PENDING
    ),
    "delete": Move(lambda store, job: store.delete([job.id]), None),
    "prune": Move(lambda store, _job: store.prune(Retention(), limit=9), None),
}

# Verbs that lead nowhere, each with the statuses in which it may change the row.
STAYING: dict[str, tuple[Callable[[Store, Job], Awaitable[object]], set[Status]]] = {
    "renew": (
        lambda store, job: store.renew([key_of(job)], worker="w1", lease=9 * LEASE),
        {Status.RUNNING},
    ),
    "save": (
        lambda store, job: store.save(key_of(job), state='"here"'),
        {Status.RUNNING},
    ),
    "move": (
        lambda store, job: store.move([job.id], by="test", priority=7),
        {Status.PENDING},
    ),
    "lost": (lambda store, _job: store.lost(9, worker="w1"), set()),
}


def allowed(start: Status, verb: str, to: Status | None) -> bool:
    if to is None:
        return start.is_final
    return to in TRANSITIONS[start].get(verb.partition(":")[0], frozenset())


@pytest.mark.parametrize("start", Status)
@pytest.mark.parametrize("verb", MOVES)
async def test_every_transition_is_in_the_table_or_refused(
    store: Store, job_in: JobIn, read: Read, clock: FakeClock, verb: str, start: Status
) -> None:
    move = MOVES[verb]
    expires_at = clock.now() + timedelta(days=1) if verb == "expire" else None
    before = await read(await job_in(start, expires_at=expires_at))
    if verb in ("expire", "prune"):
        clock.advance(timedelta(days=300))

    await move.act(store, before)

    after = await store.get([before.id])
    if not allowed(start, verb, move.to):
        if (verb, start) == ("cancel", Status.RUNNING):
            # Asked, and so noted on the row: it is the finish that leads on.
            assert after[0].status is Status.RUNNING
        else:
            assert list(after) == [before]
    elif move.to is None:
        assert list(after) == []
    else:
        assert [job.status for job in after] == [move.to]
        assert after[0].claims == before.claims + (verb == "claim")


@pytest.mark.parametrize("start", Status)
@pytest.mark.parametrize("verb", STAYING)
async def test_other_verbs_change_no_status_and_only_what_they_may(
    store: Store, job_in: JobIn, read: Read, clock: FakeClock, verb: str, start: Status
) -> None:
    act, changing = STAYING[verb]
    before = await read(await job_in(start))
    clock.advance(1)

    await act(store, before)

    after = await read(before.id)
    assert after.status is start
    assert (after != before) is (start in changing)


def test_the_moves_cover_the_table() -> None:
    covered = {(verb.partition(":")[0], move.to) for verb, move in MOVES.items()}

    for verbs in TRANSITIONS.values():
        for verb, ends in verbs.items():
            assert {(verb, to) for to in ends} <= covered
