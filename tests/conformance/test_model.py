"""Random verbs on the store and on the model: whatever can be seen has to agree."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rowlock import _outcome
from rowlock._errors import StoreError
from rowlock._job import Claim, Job, NewJob, Status
from rowlock._store import Answer, Claimed, Demand, Filter, Pause, Pruned, Retention
from rowlock.stores import connect
from rowlock.testing import FakeClock

from .given import ENDS, LEASE, new_job
from .model import Model, Row
from .stores import StoreCase

T = TypeVar("T")

WORKERS = st.sampled_from(["w1", "w2", "w3"])
JOBS = st.fixed_dictionaries(
    {
        "task": st.sampled_from(["a", "b", "poison"]),
        "queue": st.sampled_from(["x", "y"]),
        "priority": st.integers(-1, 1),
        "delay": st.sampled_from([0, 0, 0, 5, 3600]),
        "expires_in": st.sampled_from([None, None, None, 7.5, 100.5]),
        "idempotency_key": st.sampled_from([None, None, "k1", "k2"]),
    }
)
DEMANDS = st.builds(
    Demand,
    total=st.integers(0, 4),
    tasks=st.sampled_from(["ab", "ab", "a", ""]).map(
        lambda names: frozenset([*names, *(["poison"] if names == "ab" else [])])
    ),
    queues=st.sampled_from([None, None, {"x": 1, "y": 2}, {"y": 3}, {"x": 0}]),
)


class Life(RuleBasedStateMachine):
    """Anything may happen to jobs, at any time and in any order."""

    jobs = Bundle("jobs")
    claims = Bundle("claims")

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
        self.store = connect(self.url, clock=self.clock)
        self.run(self.store.open())
        self.wakeups = self.store.wakeups()

    def run(self, operation: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(operation)

    def teardown(self) -> None:
        self.wakeups.close()
        self.run(self.store.close())
        self.given.close()
        shutil.rmtree(self.folder)

    @invariant()
    def what_stands_is_what_the_laws_say(self) -> None:
        page = self.run(self.store.list(Filter(), limit=1000))
        assert {job.id for job in page.jobs} == set(self.model.rows)
        for job in page.jobs:
            show(self.model.rows[job.id], job)

    @rule(target=jobs, fields=st.lists(JOBS, min_size=1, max_size=4))
    def enqueue(self, fields: list[dict[str, Any]]) -> Any:  # noqa: ANN401 - hypothesis' own
        new = [self.new(each) for each in fields]
        ids = self.run(self.store.enqueue(new))
        self.model.enqueue(new, ids)
        return multiple(*(job_id for job_id in ids if job_id is not None))

    @rule(target=claims, demand=DEMANDS, worker=WORKERS, alone=st.booleans())
    def claim(self, demand: Demand, worker: str, *, alone: bool) -> Any:  # noqa: ANN401 - hypothesis' own
        claimed = self.run(
            self.store.claim(demand, worker=worker, lease=LEASE, alone=alone)
        )
        return self.claimed(demand, claimed, alone=alone)

    @rule(target=claims, demand=DEMANDS, worker=WORKERS)
    def the_answer_of_a_claim_is_lost(self, demand: Demand, worker: str) -> Any:  # noqa: ANN401 - hypothesis' own
        lost = self.run(self.store.claim(demand, worker=worker, lease=LEASE))
        found = self.run(self.store.lost(1000, worker=worker))
        unknown = [held for held in found if self.model.held(held.key) is None]
        unknown.sort(key=lambda held: (-held.priority, held.run_at, held.job_id))
        claimed = Claimed(claims=tuple(unknown), now=lost.now, next_due=lost.next_due)
        return self.claimed(demand, claimed, alone=False)

    @precondition(lambda self: self.case.poison)
    @rule(target=claims, demand=DEMANDS, worker=WORKERS)
    def a_claim_rolls_back(self, demand: Demand, worker: str) -> Any:  # noqa: ANN401 - hypothesis' own
        assert self.case.poison
        with self.case.poison(self.url):
            try:
                claimed = self.run(self.store.claim(demand, worker=worker, lease=LEASE))
            except StoreError:
                # A job of the task `poison` was among those chosen, and so none is
                # taken: the invariant looks.
                fitting = self.model.fitting(demand)
                assert "poison" in {row.task for row in fitting}
                return multiple()
        return self.claimed(demand, claimed, alone=False)

    @rule(keys=st.lists(claims, max_size=4), worker=WORKERS, abandoned=st.booleans())
    def renew(self, keys: list[Claim], worker: str, *, abandoned: bool) -> None:
        held = {each.key for each in keys}
        told = self.run(
            self.store.renew(held, worker=worker, lease=LEASE, abandoned=abandoned)
        )
        for row in self.model.renew(held, told):
            row.leased_until = self.clock.now() + LEASE
            row.abandoned |= abandoned

    @rule(ends=st.lists(st.tuples(claims, st.sampled_from(sorted(ENDS))), max_size=4))
    def finish(self, ends: list[tuple[Claim, str]]) -> None:
        outcomes = [ENDS[end](held.key) for held, end in ends]
        self.model.finish(outcomes, self.run(self.store.finish(outcomes)))

    @rule(target=jobs, held=claims, fields=st.lists(JOBS, max_size=2))
    def succeed_and_spawn(self, held: Claim, fields: list[dict[str, Any]]) -> Any:  # noqa: ANN401 - hypothesis' own
        spawned = tuple(self.new(each) for each in fields)
        outcomes = [_outcome.succeeded(held.key, spawned=spawned)]
        settled = self.run(self.store.finish(outcomes))
        self.model.finish(outcomes, settled)
        return multiple(*(each for each in settled[0].spawned if each is not None))

    @rule(held=claims, state=st.integers(0, 9))
    def save(self, held: Claim, state: int) -> None:
        is_kept = self.run(self.store.save(held.key, state=str(state)))
        row = self.model.held(held.key)
        assert is_kept == (row is not None)
        if row is not None:
            row.state = state

    @rule(limit=st.integers(1, 3), worker=st.none() | WORKERS)
    def recover(self, limit: int, worker: str | None) -> None:
        if worker is None:
            self.stay_connected(1.25 * LEASE)
        while lost := self.run(self.store.lost(limit, worker=worker)):
            self.model.lost(lost, limit, worker)
            for held in lost:
                show(self.model.rows[held.job_id], held)
            outcomes = [_outcome.lost(held) for held in lost]
            self.model.finish(outcomes, self.run(self.store.finish(outcomes)))
        self.model.lost([], limit, worker)

    @rule(seconds=st.sampled_from([-7200, -90, 90, 7200, 3_000_000]))
    def the_clock_jumps(self, seconds: int) -> None:
        self.clock.jump(seconds)
        assert not self.run(self.store.lost(9))

    @rule(gap=st.sampled_from([LEASE, timedelta(hours=1), timedelta(days=4)]))
    def nobody_writes_for_longer_than_a_lease(self, gap: timedelta) -> None:
        self.clock.advance(gap)
        assert not self.run(self.store.lost(9))

    @rule(seconds=st.sampled_from([1, 7, 15]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule()
    def all_wakeups_are_lost(self) -> None:
        # What is due is claimed all the same: no claim hangs on having been told.
        self.wakeups.close()
        self.wakeups = self.store.wakeups()

    @rule(verb=st.sampled_from(["cancel", "replay", "delete"]), data=st.data())
    def operate(self, verb: str, data: st.DataObject) -> None:
        ids = self.draw_ids(data)
        answers: Sequence[Answer] = self.run(
            {
                "cancel": lambda: self.store.cancel(ids, by="ada"),
                "replay": lambda: self.store.replay(ids, by="ada"),
                "delete": lambda: self.store.delete(ids),
            }[verb]()
        )
        assert [answer.job_id for answer in answers] == ids
        self.model.operate(verb, answers, "ada")

    @rule(
        queue=st.none() | st.just("y"), priority=st.none() | st.just(1), data=st.data()
    )
    def move(
        self, queue: str | None, priority: int | None, data: st.DataObject
    ) -> None:
        ids = self.draw_ids(data)
        answers = self.run(
            self.store.move(ids, by="bob", queue=queue, priority=priority)
        )
        self.model.operate("move", answers, "bob")
        for row in (self.model.rows[each.job_id] for each in answers if each.done):
            row.queue = queue or row.queue
            row.priority = row.priority if priority is None else priority

    @rule(
        pause=st.sampled_from([Pause(queue="x"), Pause(queue="y"), Pause(task="a")]),
        for_=st.sampled_from([None, timedelta(seconds=20.5)]),
    )
    def pause(self, pause: Pause, for_: timedelta | None) -> None:
        self.run(self.store.pause(pause, for_=for_))
        until = None if for_ is None else self.clock.now() + for_
        self.model.pauses[pause.queue, pause.task] = until

    @rule(pause=st.sampled_from([Pause(queue="x"), Pause(queue="y"), Pause(task="a")]))
    def resume(self, pause: Pause) -> None:
        name = pause.queue, pause.task
        was_paused = self.run(self.store.pause(pause, resume=True))
        until = self.model.pauses.pop(name, self.clock.now())
        assert was_paused or (until is not None and until <= self.clock.now())

    @rule(limit=st.integers(1, 3), days=st.sampled_from([0, 1]))
    def prune(self, limit: int, days: int) -> None:
        each = timedelta(days=days)
        retention = Retention(succeeded=each, cancelled=each, failed=2 * each)
        while (pruned := self.run(self.store.prune(retention, limit=limit))) != Pruned(
            expired=0, deleted=0
        ):
            assert max(pruned.expired, pruned.deleted) <= limit
        page = self.run(self.store.list(Filter(), limit=1000))
        self.model.prune(retention, {job.id for job in page.jobs})

    @rule()
    def count(self) -> None:
        stats = self.run(self.store.stats())
        counted = Counter(
            {(q.queue, s): n for q in stats.queues for s, n in q.counts.items() if n}
        )
        rows = self.model.rows.values()
        assert counted == Counter((row.queue, row.status) for row in rows)

    def new(self, fields: dict[str, Any]) -> NewJob:
        expires_in = fields["expires_in"]
        return new_job(
            **{
                name: fields[name]
                for name in fields
                if name not in ("delay", "expires_in")
            },
            delay=timedelta(seconds=fields["delay"]),
            expires_at=expires_in and self.clock.now() + timedelta(seconds=expires_in),
        )

    def claimed(self, demand: Demand, claimed: Claimed, *, alone: bool) -> Any:  # noqa: ANN401 - hypothesis' own
        self.model.claim(demand, claimed, alone=alone)
        for held in claimed.claims:
            show(self.model.rows[held.job_id], held)
            assert held.leased_until == self.clock.now() + LEASE
        return multiple(*claimed.claims)

    def draw_ids(self, data: st.DataObject) -> list[int]:
        # By place and not from the bundle: what is deleted stays in it for ever.
        known = sorted(self.model.rows)[-12:] or [1]
        return data.draw(st.lists(st.sampled_from(known), max_size=3, unique=True))

    def stay_connected(self, time: timedelta) -> None:
        self.run(self.store.renew((), worker="observer", lease=LEASE))
        for _ in range(int(time / (LEASE / 4))):
            self.clock.advance(LEASE / 4)
            self.run(self.store.renew((), worker="observer", lease=LEASE))


def show(row: Row, shown: Job | Claim) -> None:
    """See that a job or a claim shows what the row says."""
    for name in (each.name for each in fields(row)):
        if name == "id" or not hasattr(shown, name):
            continue
        found = getattr(shown, name)
        if name == "errors":
            found = [each.get("message") or each.get("by") for each in found]
        # Of a claim that is over no law says who had it, or since when.
        if row.status is Status.RUNNING or name not in ("worker", "started_at"):
            assert found == getattr(row, name), (name, found, row)


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
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
