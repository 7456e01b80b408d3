"""Replaying dead letters from Python: at a pace, by filter, stopped and again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from rowlock import App, Filter, Status, Task
from rowlock.events import Event, JobsReplayed
from rowlock.testing import FakeClock, drain
from tests.endings import known


@pytest.fixture
async def app(database_url: str, clock: FakeClock) -> AsyncIterator[App]:
    """An app with one task, at a time that stands still."""
    app = App(database_url, clock=clock)

    @app.task(max_attempts=1)
    def note(number: int = 0) -> int:
        if number < 0:
            raise ValueError(number)
        return number

    async with app:
        yield app


@pytest.fixture
def note(app: App) -> Task[..., Any]:
    """The app's task."""
    return app.tasks["note"]


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


async def test_the_newest_of_one_key_is_replayed_though_an_older_is_due_before(
    app: App, note: Task[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowlock._operations.STEP", 1)
    ids = []
    for _ in range(3):
        keyed = note.options(idempotency_key="k")
        ids.append(known(await keyed.enqueue(number=-1)))
        await drain(app, raises=False)

    answers = await app.replay(Filter(task="note"), rate=1)

    old, middle, new = ids
    assert {answer.job_id: str(answer) for answer in answers} == {
        new: "done",
        middle: f"blocked by {new}",
        old: f"blocked by {new}",
    }


async def test_a_verb_says_that_it_looked_at_some_payloads_only(
    app: App,
    dead: list[int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for store in ("sqlite", "postgres"):
        monkeypatch.setattr(f"rowlock.stores.{store}.read.PAYLOADS_LOOKED_AT", 4)

    answers = await app.replay(Filter(payload={"number": -12}))
    assert [answer.job_id for answer in answers] == [dead[-1]]
    assert "narrow the filter" in caplog.text

    caplog.clear()
    await app.replay(Filter(ids=tuple(dead[:4]), payload={"number": -1}))
    assert "narrow the filter" not in caplog.text


async def test_all_is_every_job_that_a_verb_takes(
    app: App, dead: list[int], note: Task[..., Any]
) -> None:
    await note.enqueue()

    answers = await app.replay(Filter(all=True))

    assert sum(answer.done for answer in answers) == len(dead)
    assert len(answers) == len(dead) + 1
