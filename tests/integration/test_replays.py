"""Replaying dead letters from Python: at a pace, by filter, stopped and again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rowlock import App, Filter, PreviewGroup, Status, Task, UsageError
from rowlock._job import VerbName
from rowlock.events import Event, JobsReplayed
from rowlock.testing import FakeClock, drain
from tests.endings import known


@pytest.fixture
def app(noting_app: App) -> App:
    """An app with one task, at a time that stands still."""
    return noting_app


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let handing over take no time, as the store's clock stands still, too."""
    for name in ("HANDING_OVER", "UNSURE"):
        monkeypatch.setattr(f"rowlock._pace.{name}", timedelta(0))


@pytest.fixture
async def dead(app: App, note: Task[..., Any]) -> list[int]:
    """Twelve dead letters, the oldest first."""
    ids = [known(await note.enqueue(number=-n)) for n in range(1, 13)]
    await drain(app, raises=False)
    return ids


async def due_in(app: App, ids: list[int], clock: FakeClock) -> list[float]:
    jobs = [await app.get(job_id) for job_id in ids]
    return [(job.run_at - clock.now()).total_seconds() for job in jobs]


@pytest.mark.parametrize("step", [1000, 5, 1])
@pytest.mark.parametrize("by_filter", [True, False])
async def test_a_paced_replay_is_due_oldest_first_a_step_apart(
    app: App,
    dead: list[int],
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    *,
    step: int,
    by_filter: bool,
) -> None:
    monkeypatch.setattr("rowlock._operations.STEP", step)
    monkeypatch.setattr("rowlock._pace.time.monotonic", lambda: 0.0)
    where = Filter(status=Status.FAILED) if by_filter else dead

    answers = await app.replay(where, rate=0.5, delay=60)

    assert [answer.done for answer in answers] == [True] * 12
    assert await due_in(app, dead, clock) == [60 + 2 * n for n in range(12)]


async def test_a_spread_divides_the_time_among_the_jobs(
    app: App,
    dead: list[int],
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rowlock._pace.time.monotonic", lambda: 0.0)

    await app.replay(Filter(task="note"), spread=timedelta(hours=1), queue="calm")

    assert await due_in(app, dead, clock) == [300 * n for n in range(12)]
    assert {(await app.get(job_id)).queue for job_id in dead} == {"calm"}


async def test_a_paced_replay_answers_in_the_order_that_was_given(
    app: App, dead: list[int], note: Task[..., Any]
) -> None:
    pending = known(await note.enqueue())
    asked = [dead[3], pending, dead[0], 999_999, dead[3]]

    answers = await app.replay(iter(asked), rate=10)

    assert [answer.job_id for answer in answers] == asked
    assert [str(answer) for answer in answers] == [
        "done",
        "already pending",
        "done",
        "not found",
        "done",
    ]


async def test_what_a_paced_replay_leaves_is_due_before_what_it_did(
    app: App,
    dead: list[int],
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rowlock._operations.STEP", 5)
    monkeypatch.setattr("rowlock._pace.time.monotonic", lambda: 0.0)

    def stop(event: Event) -> None:
        if isinstance(event, JobsReplayed):
            raise KeyboardInterrupt

    end = app.listen(stop)
    with pytest.raises(KeyboardInterrupt):
        await app.replay(Filter(status=Status.FAILED), rate=1)
    end()
    assert len((await app.list(Filter(status=Status.FAILED))).jobs) == 7

    await app.replay(Filter(status=Status.FAILED), rate=1)

    assert await due_in(app, dead, clock) == list(range(12))


@pytest.mark.parametrize("rate", [None, 1])
@pytest.mark.parametrize("by_filter", [True, False])
@pytest.mark.parametrize("step", [1, 1000])
async def test_the_newest_of_one_key_is_replayed_whatever_the_order_and_status(
    app: App,
    note: Task[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    *,
    step: int,
    by_filter: bool,
    rate: float | None,
) -> None:
    monkeypatch.setattr("rowlock._operations.STEP", step)
    keyed = note.options(idempotency_key="k")
    old = known(await keyed.enqueue(number=-1))
    await drain(app, raises=False)
    middle = known(await keyed.enqueue())
    await app.cancel(middle)
    new = known(await keyed.enqueue())
    await app.cancel(new)
    where = Filter(task="note") if by_filter else [old, middle, new]

    answers = await app.replay(where, rate=rate)

    assert {answer.job_id: str(answer) for answer in answers} == {
        new: "done",
        middle: f"blocked by {new}",
        old: f"blocked by {new}",
    }
    order = [new, middle, old] if by_filter else [old, middle, new]
    assert [answer.job_id for answer in answers] == order
    assert (answers.done, answers.counts) == (1, {f"blocked by {new}": 2, "done": 1})


async def test_a_pace_is_of_those_that_can_be_replayed(
    app: App, dead: list[int], note: Task[..., Any], clock: FakeClock
) -> None:
    await app.enqueue_many(note.job(number=n) for n in range(100))
    await drain(app)

    answers = await app.replay(Filter(task="note"), spread=120)

    assert len(answers) == len(dead)
    assert await due_in(app, dead, clock) == pytest.approx([10 * n for n in range(12)])


@pytest.fixture
def four_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let payloads be looked at in the newest four only."""
    for store in ("sqlite", "postgres"):
        monkeypatch.setattr(f"rowlock.stores.{store}.read.PAYLOADS_LOOKED_AT", 4)


@pytest.mark.parametrize("verb", ["replay", "delete"])
@pytest.mark.usefixtures("four_looked_at")
async def test_a_verb_does_no_more_than_its_preview_says(
    app: App, dead: list[int], note: Task[..., Any], verb: VerbName
) -> None:
    many = [known(await note.enqueue(number=-99)) for _ in range(9)]
    await drain(app, raises=False)
    where = Filter(status="failed", payload={"number": -99})

    preview = await app.preview(verb, where)
    answers = await getattr(app, verb)(where)

    assert (preview.count, preview.is_cut) == (4, True)
    assert [answer.job_id for answer in answers] == many[:4:-1]
    assert (answers.done, answers.is_cut) == (4, True)
    assert len((await app.list(Filter(status="failed"))).jobs) == len(dead) + 5


@pytest.mark.usefixtures("four_looked_at")
async def test_it_is_said_that_more_may_fit_though_none_was_found(
    app: App, dead: list[int]
) -> None:
    answers = await app.replay(Filter(payload={"number": -1}))
    assert (list(answers), answers.is_cut) == ([], True)

    whole = await app.replay(Filter(ids=tuple(dead[:4]), payload={"number": -1}))
    assert (whole.done, whole.is_cut) == (1, False)


async def test_all_is_every_job_that_a_verb_takes(
    app: App, dead: list[int], note: Task[..., Any]
) -> None:
    await note.enqueue()

    answers = await app.replay(Filter(all=True))

    assert answers.done == len(answers) == len(dead)


async def test_a_preview_tells_what_a_verb_would_take(
    app: App, dead: list[int], note: Task[..., Any]
) -> None:
    pending = known(await note.enqueue(number=1))

    everything = await app.preview("replay", Filter(all=True))
    by_id = await app.preview("replay", [pending, dead[0], 999_999])
    to_cancel = await app.preview("cancel", Filter(task="note"))

    assert (everything.verb, everything.count, everything.sampled) == ("replay", 12, 12)
    assert {group.last_error for group in everything.groups} == {
        f"ValueError: -{n}" for n in range(1, 13)
    }
    assert (by_id.count, by_id.groups[0].jobs) == (1, 1)
    assert to_cancel.groups == (
        PreviewGroup(jobs=1, status=Status.PENDING, task="note", last_error=None),
    )
    assert (await app.get(dead[0])).status is Status.FAILED


async def test_a_filter_for_what_a_verb_never_takes_is_refused(app: App) -> None:
    for call in (
        app.replay(Filter(status="succeeded")),
        app.preview("replay", Filter(status="succeeded")),
    ):
        with pytest.raises(UsageError, match="replay takes failed and cancelled jobs"):
            await call
