"""Random verbs on the store and on the model: whatever can be seen has to agree."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rowlock import _outcome
from rowlock._errors import KeyConflict, StoreError
from rowlock._filter import Filter
from rowlock._job import Claim, ClaimKey, NewJob, Outcome, Status
from rowlock._store import Answer, Claimed, Demand, Pause, Retention
from rowlock.stores import connect
from rowlock.testing import FakeClock

from .drawn import DEMANDS, JOBS, NOTHING, PAUSES, WORKERS, seconds
from .given import ENDS, LEASE, new_job
from .model import ENDED, MAY, Model, Row
from .shown import charge, show
from .stores import StoreCase

T = TypeVar("T")


class Life(RuleBasedStateMachine):
    """Anything may happen to jobs, at any time and in any order."""

    def __init__(self, case: StoreCase, folder: Path) -> None:
        super().__init__()
        self.case = case
        self.folder = folder
        folder.mkdir()
        self.given = ExitStack()
        self.runner = self.given.enter_context(asyncio.Runner())
        self.url = self.given.enter_context(case.database(folder))
        self.clock = FakeClock()
        self.model = Model(self.clock)
        self.claims: list[Claim] = []
        self.store = connect(self.url, clock=self.clock)
        self.run(self.store.open())
        self.wakeups = self.store.wakeups()

    def run(self, operation: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(operation)

    def teardown(self) -> None:
        self.count()
        self.wakeups.close()
        self.run(self.store.close())
        self.given.close()
        shutil.rmtree(self.folder)

    @invariant()
    def what_stands_is_what_the_laws_say(self) -> None:
        page = self.run(self.store.list(Filter(), limit=1000))
        assert [job.id for job in page.jobs] == sorted(self.model.rows, reverse=True)
        for job in page.jobs:
            show(self.model.rows[job.id], job)

    @initialize(some=st.lists(JOBS, min_size=3, max_size=6))
    def begin(self, some: list[dict[str, Any]]) -> None:
        self.enqueue(some)

    @rule(some=st.lists(JOBS, min_size=1, max_size=3))
    def enqueue(self, some: list[dict[str, Any]]) -> None:
        new = [self.new(**each) for each in some]
        self.model.enqueue(new, self.run(self.store.enqueue(new)))

    @rule(one=JOBS, key=st.sampled_from(["k1", "k2"]))
    def enqueue_or_raise(self, one: dict[str, Any], key: str) -> None:
        raising = {"idempotency_key": key, "on_conflict": "raise"}
        new = self.new(**{**one, "key": raising})
        before = deepcopy(self.model.rows)
        holder = self.model.rows.get(self.model.holder(new) or 0)
        is_held = holder is not None and not self.model.has_expired(holder)
        if holder and is_held and holder.payload != new.payload:
            with pytest.raises(KeyConflict) as caught:
                self.run(self.store.enqueue([new]))
            assert caught.value.job_id == holder.id
            self.model.rows = before
        else:
            self.model.enqueue([new], self.run(self.store.enqueue([new])))

    @rule(demand=DEMANDS, worker=WORKERS)
    def claim(self, demand: Demand, worker: str, *, alone: bool = False) -> None:
        claiming = self.store.claim(demand, worker=worker, lease=LEASE, alone=alone)
        self.claimed(demand, self.run(claiming), alone=alone)

    @rule(demand=DEMANDS, worker=WORKERS, suspects=st.booleans())
    def claim_alone(self, demand: Demand, worker: str, *, suspects: bool) -> None:
        self.claim(replace(demand, suspects=suspects), worker, alone=True)

    @rule(demand=DEMANDS, worker=WORKERS)
    def the_answer_of_a_claim_is_lost(self, demand: Demand, worker: str) -> None:
        lost = self.run(self.store.claim(demand, worker=worker, lease=LEASE))
        found = self.run(self.store.lost(1000, worker=worker))
        unknown = [held for held in found if self.model.held(held.key) is None]
        unknown.sort(key=lambda held: (-held.priority, held.run_at, held.job_id))
        claimed = replace(lost, claims=tuple(unknown))
        self.claimed(demand, claimed, alone=False)

    @precondition(lambda self: self.case.poison)
    @rule(demand=DEMANDS, worker=WORKERS)
    def a_claim_rolls_back(self, demand: Demand, worker: str) -> None:
        assert self.case.poison
        with self.case.poison(self.url):
            claiming = self.store.claim(demand, worker=worker, lease=LEASE)
            try:
                claimed = self.run(claiming)
            except StoreError:
                # One of the task `poison` was chosen, and so none is taken: the
                # invariant looks.
                fitting = self.model.fitting(demand)
                assert "poison" in {row.task for row in fitting if not row.suspect}
                return
        self.claimed(demand, claimed, alone=False)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), worker=WORKERS, abandoned=st.booleans())
    def renew(self, data: st.DataObject, worker: str, *, abandoned: bool) -> None:
        held = data.draw(st.lists(self.any_claim(), max_size=4))
        self.renewed({each.key for each in held}, worker, abandoned=abandoned)

    @precondition(lambda self: self.claims)
    @rule(
        ends=st.lists(st.sampled_from(sorted(ENDS)), min_size=1, max_size=4),
        data=st.data(),
    )
    def finish(self, ends: list[str], data: st.DataObject) -> None:
        held = [data.draw(self.any_claim()) for _ in ends]
        self.finished(
            [ENDS[end](each.key) for end, each in zip(ends, held, strict=True)]
        )

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), some=st.lists(JOBS, max_size=2))
    def succeed_and_spawn(
        self, data: st.DataObject, some: list[dict[str, Any]]
    ) -> None:
        held = data.draw(self.any_claim())
        spawned = tuple(self.new(**each) for each in some)
        self.finished([_outcome.succeeded(held.key, spawned=spawned)])

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), state=st.integers(0, 9))
    def save(self, data: st.DataObject, state: int) -> None:
        held = data.draw(self.any_claim())
        is_kept = self.run(self.store.save(held.key, state=str(state)))
        row = self.model.held(held.key)
        assert is_kept == (row is not None)
        if row is not None:
            row.state = state

    @precondition(
        lambda self: any(row.leased_until for row in self.model.rows.values())
    )
    @rule(limit=st.integers(1, 3), worker=st.none() | WORKERS, data=st.data())
    def recover(self, limit: int, worker: str | None, data: st.DataObject) -> None:
        if worker is None:
            # Connected for longer than a lease, in which some claims are renewed.
            kept = {
                each.key for each in data.draw(st.lists(self.any_claim(), max_size=2))
            }
            for quarter in range(6):
                self.renewed(kept if quarter == 4 else set(), "observer")
                self.clock.advance(LEASE / 4)
            self.renewed(set(), "observer")
        while lost := self.run(self.store.lost(limit, worker=worker)):
            self.model.lost(lost, limit, worker)
            for held in lost:
                show(self.model.rows[held.job_id], held)
            if worker is None and data.draw(st.booleans()):
                # Its worker was only late: what it renews by now isn't lost any more.
                self.renewed({lost[0].key}, lost[0].worker)
            outcomes = [_outcome.lost(held) for held in lost]
            for held, outcome in zip(lost, outcomes, strict=True):
                charged = outcome.status, outcome.failed, outcome.lost, outcome.delay
                assert charged == charge(held)
            self.finished(outcomes)
        self.model.lost([], limit, worker)

    @rule(
        how=st.sampled_from(["passes", "passes unseen", "jumps", "all wake-ups lost"]),
        data=st.data(),
    )
    def time(self, how: str, data: st.DataObject) -> None:
        if how == "passes":
            self.clock.advance(data.draw(st.sampled_from([7, 1, 15])))
            return
        if how == "all wake-ups lost":
            # What is due is claimed all the same: no claim hangs on having been told.
            self.wakeups.close()
            self.wakeups = self.store.wakeups()
            return
        if how == "jumps":
            # A pause that is over may be forgotten, and doesn't begin again.
            for name in tuple(self.model.pauses):
                self.resume(name)
            # Odd microseconds: no instant falls on another, where laws don't decide.
            jumps = [-7200.000011, -90.000013, 90.000017, 7200.000019, 3e6]
            self.clock.jump(data.draw(st.sampled_from(jumps)))
        else:
            gaps = [LEASE, timedelta(hours=1), timedelta(days=4)]
            self.clock.advance(data.draw(st.sampled_from(gaps)))
        assert not self.run(self.store.lost(9))  # law 17

    @precondition(lambda self: self.model.rows)
    @rule(
        verb=st.sampled_from(["cancel", "move", "delete"]),
        priority=st.none() | st.integers(0, 1),
        data=st.data(),
    )
    def operate(self, verb: str, priority: int | None, data: st.DataObject) -> None:
        ids = data.draw(self.some_ids(verb))
        verbs: dict[str, Callable[[], Coroutine[Any, Any, Sequence[Answer]]]] = {
            "cancel": lambda: self.store.cancel(ids, by="ada"),
            "move": lambda: self.store.move(
                ids, by="ada", queue="y", priority=priority
            ),
            "delete": lambda: self.store.delete(ids),
        }
        answers = self.run(verbs[verb]())
        assert [answer.job_id for answer in answers] == ids
        self.model.operate(verb, answers, "ada")
        for answer in answers if verb == "move" else ():
            if answer.done:
                row = self.model.rows[answer.job_id]
                row.queue = "y"
                row.priority = row.priority if priority is None else priority

    @precondition(lambda self: any(map(self.is_dead, self.model.rows.values())))
    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        ids = data.draw(self.some_ids("replay"))
        answers = self.run(self.store.replay(ids, by="ada"))
        assert [answer.job_id for answer in answers] == ids
        self.model.operate("replay", answers, "ada")

    @rule(pause=PAUSES, for_=st.sampled_from([timedelta(seconds=20.5), None]))
    def pause_or_resume(self, pause: Pause, for_: timedelta | None) -> None:
        name = pause.queue, pause.task
        if name in self.model.pauses:
            self.resume(name)
            return
        assert self.run(self.store.pause(pause, for_=for_))
        until = None if for_ is None else self.clock.now() + for_
        self.model.pauses[name] = until

    def resume(self, name: tuple[str | None, str | None]) -> None:
        until = self.model.pauses.pop(name)
        pause = Pause(queue=name[0], task=name[1])
        was_paused = self.run(self.store.pause(pause, resume=True))
        assert was_paused or (until is not None and until <= self.clock.now())

    @precondition(lambda self: any(map(self.may_go, self.model.rows.values())))
    @rule(limit=st.integers(1, 3), days=st.sampled_from([0, 1]))
    def prune(self, limit: int, days: int) -> None:
        each = timedelta(days=days)
        retention = Retention(succeeded=each, cancelled=each, failed=2 * each)
        while True:
            pruned = self.run(self.store.prune(retention, limit=limit))
            assert max(pruned.expired, pruned.deleted, pruned.freed) <= limit
            if pruned == NOTHING:
                break
        page = self.run(self.store.list(Filter(), limit=1000))
        self.model.prune(retention, {job.id for job in page.jobs})
        self.count()

    def count(self) -> None:
        stats = self.run(self.store.stats())
        counted = Counter(
            {(q.queue, s): n for q in stats.queues for s, n in q.counts.items() if n}
        )
        rows = self.model.rows.values()
        assert counted == Counter((row.queue, row.status) for row in rows)

    def is_dead(self, row: Row) -> bool:
        return row.status in MAY["replay"]

    def may_go(self, row: Row) -> bool:
        return row.finished_at is not None or self.model.has_expired(row)

    def new(
        self,
        *,
        expires_in: float | None,
        key: dict[str, Any],
        **fields: Any,  # noqa: ANN401 - any field of a job
    ) -> NewJob:
        expires_at = expires_in and self.clock.now() + seconds(expires_in)
        return new_job(expires_at=expires_at, **key, **fields)

    def claimed(self, demand: Demand, claimed: Claimed, *, alone: bool) -> None:
        self.model.claim(demand, claimed, alone=alone)
        for held in claimed.claims:
            show(self.model.rows[held.job_id], held)
            assert held.leased_until == self.clock.now() + LEASE
        self.claims += claimed.claims

    def finished(self, outcomes: list[Outcome]) -> None:
        self.model.finish(outcomes, self.run(self.store.finish(outcomes)))

    def renewed(
        self, keys: set[ClaimKey], worker: str, *, abandoned: bool = False
    ) -> None:
        renewing = self.store.renew(
            keys, worker=worker, lease=LEASE, abandoned=abandoned
        )
        for row in self.model.renew(keys, self.run(renewing)):
            row.leased_until = self.clock.now() + LEASE
            row.abandoned |= abandoned

    def any_claim(self) -> st.SearchStrategy[Claim]:
        """Choose a claim, as often as not one that holds."""
        held = [each for each in self.claims if self.model.held(each.key)]
        return st.sampled_from(held or self.claims) | st.sampled_from(self.claims)

    def some_ids(self, verb: str) -> st.SearchStrategy[list[int]]:
        """Choose jobs, as often as not such that the verb may change."""
        known = list(self.model.rows)
        # Most of what can be cancelled isn't running, and then nothing is asked.
        may = {Status.RUNNING} if verb == "cancel" else MAY.get(verb, ENDED)
        fit = [row.id for row in self.model.rows.values() if row.status in may]
        job = st.sampled_from(fit or known) | st.sampled_from(known)
        return st.lists(job, min_size=1, max_size=3, unique=True)


# A timeout is a failure to hypothesis, which takes minutes to make it small.
@pytest.mark.timeout(600)
def test_laws_1_to_21_hold_whatever_happens(
    store_case: StoreCase, tmp_path: Path, scale: int
) -> None:
    folders = (tmp_path / str(number) for number in range(10**9))

    def life() -> Life:
        return Life(store_case, next(folders))

    run_state_machine_as_test(
        life,  # type: ignore[arg-type]  # a factory will do, says its documentation
        settings=settings(
            max_examples=100 * scale,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
