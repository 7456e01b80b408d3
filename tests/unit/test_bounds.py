"""Where a claim on Postgres begins to look: never past a job that may be there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from rowlock.stores.postgres.bounds import (
    BEGINNING,
    MOST_VIEWS,
    SAFETY_INTERVAL,
    Arrival,
    Bounds,
    Line,
    Place,
    Plan,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
TASKS = frozenset({"task"})
MAIL, BILL = Line("mail", 0), Line("bill", 5)
LONG_AGO = Place(NOW - 100 * SECOND, 7)
YOUNGEST = Place(NOW - SECOND, 0)


def full_look(
    bounds: Bounds,
    *lines: Line,
    queues: Collection[str] | None = None,
    tasks: frozenset[str] = TASKS,
) -> Plan:
    return bounds.plan_full(tasks, queues, lines, bounds.moment(tasks))


def look(
    bounds: Bounds,
    plan: Plan,
    *,
    now: datetime = NOW,
    paused: object = (),
    found: Mapping[Line, Place] | None = None,
    exhausted: Collection[Line] = (),
) -> bool:
    return bounds.looked(
        TASKS, plan, now=now, paused=paused, found=found or {}, exhausted=exhausted
    )


def planned(bounds: Bounds, queues: Collection[str] | None = None) -> Plan:
    plan = bounds.plan(TASKS, queues, 0.0)
    assert plan is not None
    return plan


@pytest.fixture
def bounds() -> Bounds:
    """Bounds after a full look, which read both lines to their end."""
    bounds = Bounds()
    plan = full_look(bounds, MAIL, BILL)
    assert look(bounds, plan, exhausted=[MAIL, BILL])
    return bounds


def test_before_anything_is_known_only_a_full_look_will_do() -> None:
    assert Bounds().plan(TASKS, None, 0.0) is None
    assert Bounds().plan(TASKS, ["mail"], 0.0) is None


def test_a_full_look_begins_every_line_at_its_beginning(bounds: Bounds) -> None:
    plan = full_look(bounds, MAIL, BILL)

    assert dict(plan.lines) == {MAIL: BEGINNING, BILL: BEGINNING}


def test_lines_come_by_queue_the_best_priority_first() -> None:
    lines = [Line("b", -1), Line("a", 3), Line("b", 100), Line("a", 7)]

    plan = full_look(Bounds(), *lines)

    assert list(plan.lines) == [
        Line("a", 7),
        Line("a", 3),
        Line("b", 100),
        Line("b", -1),
    ]


def test_where_nothing_was_left_the_next_look_begins_a_second_before_now(
    bounds: Bounds,
) -> None:
    assert dict(planned(bounds).lines) == {MAIL: YOUNGEST, BILL: YOUNGEST}


def test_where_there_was_more_the_next_look_begins_after_the_last_one_found(
    bounds: Bounds,
) -> None:
    plan = full_look(bounds, MAIL, BILL)
    look(bounds, plan, found={MAIL: LONG_AGO})

    assert planned(bounds).lines[MAIL] == LONG_AGO
    assert planned(bounds).lines[BILL] == BEGINNING


def test_a_bound_is_never_younger_than_a_second_before_now() -> None:
    bounds = Bounds()
    plan = full_look(bounds, MAIL)
    look(bounds, plan, found={MAIL: Place(NOW - SECOND / 2, 9)})

    assert planned(bounds).lines[MAIL] == YOUNGEST


def test_a_bound_never_moves_back_by_a_look(bounds: Bounds) -> None:
    look(bounds, planned(bounds), now=NOW, found={MAIL: LONG_AGO})

    assert planned(bounds).lines[MAIL] == YOUNGEST


def test_an_older_job_moves_the_bound_below_it(bounds: Bounds) -> None:
    bounds.heard([Arrival(MAIL, LONG_AGO.at, None)])

    assert planned(bounds).lines == {MAIL: Place(LONG_AGO.at, 0), BILL: YOUNGEST}


def test_a_younger_job_leaves_the_bound(bounds: Bounds) -> None:
    bounds.heard([Arrival(MAIL, NOW + SECOND, None)])

    assert planned(bounds).lines[MAIL] == YOUNGEST


def test_news_that_come_during_a_look_outlive_it(bounds: Bounds) -> None:
    plan = planned(bounds)
    # Its snapshot may be older than the job.
    bounds.heard([Arrival(MAIL, LONG_AGO.at, None)])

    look(bounds, plan, now=NOW + SECOND, exhausted=[MAIL, BILL])

    assert planned(bounds).lines[MAIL] == Place(LONG_AGO.at, 0)
    assert planned(bounds).lines[BILL] == Place(NOW, 0)


def test_news_of_an_unknown_line_make_it_known(bounds: Bounds) -> None:
    fresh = Line("mail", 100)

    bounds.heard([Arrival(fresh, NOW, None)])

    assert fresh in planned(bounds).lines
    assert list(planned(bounds, ["mail"]).lines) == [fresh, MAIL]


def test_a_line_heard_of_while_a_full_look_reads_them_is_kept(bounds: Bounds) -> None:
    moment = bounds.moment(TASKS)
    fresh = Line("fresh", 0)
    bounds.heard([Arrival(fresh, NOW, None)])

    plan = bounds.plan_full(TASKS, None, [MAIL], moment)

    assert set(plan.lines) == {MAIL, fresh}


@pytest.mark.parametrize("queues", [None, ["mail"]])
def test_a_line_heard_of_while_the_first_full_look_reads_them_is_kept(
    queues: Collection[str] | None,
) -> None:
    bounds = Bounds()
    moment = bounds.moment(TASKS)
    bounds.heard([Arrival(MAIL, NOW, None), Arrival(BILL, NOW, None)])

    plan = bounds.plan_full(TASKS, queues, [], moment)

    assert set(plan.lines) == ({MAIL, BILL} if queues is None else {MAIL})
    # Nobody has asked when the next job of such a line is due.
    assert bounds.next_due(TASKS, plan, NOW) == (False, None)
    # What it was not to look at, it has not covered.
    assert (bounds.plan(TASKS, ["bill"], 0.0) is None) == (queues is not None)


def test_news_of_queues_that_are_not_covered_are_forgotten_after_the_look() -> None:
    bounds = Bounds()
    full_look(bounds, MAIL, queues=["mail"])
    bounds.heard([Arrival(BILL, NOW, None)])

    assert set(planned(bounds, ["mail"]).lines) == {MAIL}
    assert not full_look(bounds, queues=["bill"]).lines


def test_a_full_look_that_was_forgotten_while_it_read_covers_nothing() -> None:
    bounds = Bounds()
    moment = bounds.moment(TASKS)
    bounds.doubt()
    bounds.heard([Arrival(MAIL, NOW, None)])

    bounds.plan_full(TASKS, None, [], moment)

    assert bounds.plan(TASKS, None, 0.0) is None


def test_a_full_look_forgets_lines_that_are_no_more(bounds: Bounds) -> None:
    full_look(bounds, MAIL)

    assert set(planned(bounds).lines) == {MAIL}


def test_a_full_look_at_some_queues_leaves_the_others(bounds: Bounds) -> None:
    plan = full_look(bounds, MAIL, queues=["mail"])

    assert set(plan.lines) == {MAIL}
    assert planned(bounds).lines[BILL] == YOUNGEST


def test_queues_that_no_full_look_has_covered_need_one() -> None:
    bounds = Bounds()
    full_look(bounds, MAIL, queues=["mail"])

    assert bounds.plan(TASKS, ["mail"], 0.0) is not None
    assert bounds.plan(TASKS, ["mail", "bill"], 0.0) is None
    assert bounds.plan(TASKS, None, 0.0) is None


def test_what_one_set_of_tasks_passed_by_another_may_want(bounds: Bounds) -> None:
    assert bounds.plan(frozenset({"other"}), None, 0.0) is None
    assert bounds.plan(TASKS | {"other"}, None, 0.0) is None


def test_views_of_task_sets_are_bounded(bounds: Bounds) -> None:
    for n in range(MOST_VIEWS):
        full_look(bounds, MAIL, tasks=frozenset({f"task {n}"}))

    assert bounds.plan(TASKS, None, 0.0) is None
    assert bounds.plan(frozenset({"task 0"}), None, 0.0) is not None


@pytest.mark.parametrize(
    "change", [{"now": NOW - SECOND}, {"paused": ("mail",)}], ids=["clock", "pause"]
)
def test_a_clock_set_back_and_a_pause_forget_everything(
    bounds: Bounds, change: dict[str, object]
) -> None:
    plan = planned(bounds)

    assert not look(bounds, plan, **change)  # type: ignore[arg-type]  # one of two

    assert bounds.plan(TASKS, None, 0.0) is None


def test_a_pause_that_goes_on_is_no_doubt(bounds: Bounds) -> None:
    look(bounds, planned(bounds), paused=("mail",))
    plan = full_look(bounds, MAIL)

    assert look(bounds, plan, paused=("mail",))
    assert look(bounds, planned(bounds), paused=("mail",))
    assert not look(bounds, planned(bounds), paused=())


def test_a_doubt_during_a_look_outlives_it(bounds: Bounds) -> None:
    plan = planned(bounds)
    bounds.doubt()

    look(bounds, plan, exhausted=[MAIL, BILL])

    assert bounds.plan(TASKS, None, 0.0) is None


def test_a_doubt_during_a_full_look_leaves_it_without_effect(bounds: Bounds) -> None:
    plan = full_look(bounds, MAIL)
    bounds.doubt()
    fresh = full_look(bounds, MAIL)

    look(bounds, plan, exhausted=[MAIL])

    assert planned(bounds).lines == fresh.lines == {MAIL: BEGINNING}


@pytest.mark.parametrize(
    ("cost", "gap"), [(0.0, 1.0), (0.01, 1.0), (0.2, 4.0), (60.0, SAFETY_INTERVAL)]
)
def test_a_full_look_is_allowed_after_twenty_times_its_cost(
    bounds: Bounds, cost: float, gap: float
) -> None:
    assert bounds.gap_left(TASKS, None, 1000.0) == 0

    bounds.looked_fully(TASKS, None, monotonic=1000.0, cost=cost)

    assert bounds.gap_left(TASKS, None, 1000.0) == pytest.approx(gap)
    assert bounds.gap_left(TASKS, None, 1000.0 + gap / 2) == pytest.approx(gap / 2)
    assert bounds.gap_left(TASKS, None, 1000.0 + gap) == 0


def test_where_every_look_finds_enough_a_full_one_follows_all_the_same(
    bounds: Bounds,
) -> None:
    bounds.looked_fully(TASKS, None, monotonic=1000.0, cost=0.01)

    assert bounds.plan(TASKS, None, 1000.0 + SAFETY_INTERVAL / 2) is not None
    assert bounds.plan(TASKS, None, 1000.0 + SAFETY_INTERVAL) is None


def test_a_queue_without_jobs_is_not_busy_until_it_is_heard_of(bounds: Bounds) -> None:
    assert full_look(Bounds(), MAIL, BILL).busy == {"mail", "bill"}
    assert planned(bounds).busy == set()

    bounds.heard([Arrival(MAIL, NOW, None)])
    assert planned(bounds).busy == {"mail"}

    look(bounds, planned(bounds), found={MAIL: LONG_AGO}, exhausted=[BILL])
    assert planned(bounds).busy == {"mail"}


def test_when_the_next_job_is_due_is_unknown_until_it_is_asked(bounds: Bounds) -> None:
    plan = planned(bounds)

    assert bounds.next_due(TASKS, plan, NOW) == (False, None)
    bounds.planned(TASKS, plan, {})
    assert bounds.next_due(TASKS, plan, NOW) == (True, None)
    bounds.planned(TASKS, plan, {MAIL: NOW + 9 * SECOND, BILL: NOW + 5 * SECOND})
    assert bounds.next_due(TASKS, plan, NOW) == (True, NOW + 5 * SECOND)


def test_of_a_line_that_was_not_asked_about_nothing_is_known(bounds: Bounds) -> None:
    plan = planned(bounds)

    bounds.planned(TASKS, plan.within({"mail": 0, "bill": 1}), {BILL: NOW + SECOND})

    assert bounds.next_due(TASKS, plan, NOW) == (False, None)


def test_a_queue_without_room_is_left_out_and_stays_as_it_was(bounds: Bounds) -> None:
    limits = {"mail": 0, "bill": 1}
    plan = full_look(bounds, MAIL, BILL, queues=["mail", "bill"])
    assert plan.within({"mail": 1, "bill": 1}) is plan.within(None) is plan

    assert look(bounds, plan.within(limits), exhausted=[BILL])

    again = planned(bounds)
    assert dict(again.lines) == {MAIL: BEGINNING, BILL: YOUNGEST}
    assert again.busy == {"mail"}
    assert again.within(limits).lines.keys() == {BILL}
    assert not again.within(limits).busy


def test_when_the_time_has_come_it_is_asked_again(bounds: Bounds) -> None:
    plan = planned(bounds)
    bounds.planned(TASKS, plan, {MAIL: NOW + 5 * SECOND})

    assert bounds.next_due(TASKS, plan, NOW + 4 * SECOND) == (True, NOW + 5 * SECOND)
    assert bounds.next_due(TASKS, plan, NOW + 5 * SECOND) == (False, None)


def test_news_of_a_deferred_job_move_the_alarm(bounds: Bounds) -> None:
    plan = planned(bounds)
    bounds.planned(TASKS, plan, {MAIL: NOW + 50 * SECOND})

    bounds.heard([Arrival(MAIL, NOW, NOW + 7 * SECOND)])
    bounds.heard([Arrival(MAIL, NOW, NOW + 8 * SECOND)])

    assert bounds.next_due(TASKS, plan, NOW) == (True, NOW + 7 * SECOND)


def test_news_of_a_job_that_is_due_leave_the_alarm(bounds: Bounds) -> None:
    plan = planned(bounds)
    bounds.planned(TASKS, plan, {MAIL: NOW + 50 * SECOND})

    bounds.heard([Arrival(MAIL, NOW, None), Arrival(Line("new", 0), NOW, None)])

    assert bounds.next_due(TASKS, planned(bounds), NOW) == (True, NOW + 50 * SECOND)


def test_a_deferred_job_heard_of_while_it_was_asked_is_not_lost(bounds: Bounds) -> None:
    plan = planned(bounds)
    bounds.heard([Arrival(MAIL, NOW + 7 * SECOND, NOW + 7 * SECOND)])

    bounds.planned(TASKS, plan, {MAIL: NOW + 50 * SECOND})

    assert bounds.next_due(TASKS, plan, NOW) == (True, NOW + 7 * SECOND)


def test_a_full_look_at_some_queues_puts_off_none_at_others(bounds: Bounds) -> None:
    """Two workers of one process have the same tasks, and each its own queues."""
    full_look(bounds, MAIL, queues=["mail"])
    full_look(bounds, BILL, queues=["bill"])
    bounds.looked_fully(TASKS, ["mail"], monotonic=1000.0, cost=0.01)
    bounds.looked_fully(TASKS, ["bill"], monotonic=1000.0, cost=0.01)
    for now in (1020.0, 1040.0):
        bounds.looked_fully(TASKS, ["bill"], monotonic=now, cost=0.01)

    assert bounds.plan(TASKS, ["bill"], 1041.0) is not None
    assert bounds.plan(TASKS, ["mail"], 1041.0) is None
    assert bounds.gap_left(TASKS, ["mail"], 1041.0) == 0
