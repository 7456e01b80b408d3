"""
Two at once for one key: of those that keep it, replace what has it, or refuse it.

What is asked is never who wins, but that both tell the same story.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest

from rowlock import _outcome
from rowlock._errors import KeyConflict
from rowlock._filter import Filter
from rowlock._job import Job, NewJob, Status
from rowlock._store import Retention, Store
from rowlock.testing import FakeClock

from .given import LEASE, ClaimSome, OpenAnother, demand, new_job
from .race import Patient, race

HOUR = timedelta(hours=1)
ROUNDS = 60


@pytest.fixture
def store(store: Store) -> Store:
    """Races are for locks, and on a busy machine one may be lost for a second."""
    return cast("Store", Patient(store))


@pytest.fixture
def open_another(open_another: OpenAnother) -> OpenAnother:
    """The same for each store that joins the race."""

    async def patient() -> Store:
        return cast("Store", Patient(await open_another()))

    return patient


async def having(store: Store, key: str) -> list[Job]:
    return list((await store.list(Filter(idempotency_key=key))).jobs)


async def said(store: Store, job: NewJob) -> Any:  # noqa: ANN401 - an id, None, an error
    """Enqueue a job; what was answered."""
    try:
        (job_id,) = await store.enqueue([job])
    except KeyConflict as error:
        return error
    return job_id


async def test_law_10_no_key_is_free_between_a_job_and_the_end_of_its_keeping(
    store: Store, claim: ClaimSome, open_another: OpenAnother, scale: int
) -> None:
    rounds = ROUNDS * scale
    keys = [f"k{number}" for number in range(rounds)]
    kept = [new_job(idempotency_key=key, idempotency_for=HOUR) for key in keys]
    await store.enqueue(kept)
    held = (await claim(rounds)).claims
    another = await open_another()

    await race(
        rounds,
        lambda n: store.finish([_outcome.succeeded(held[n].key)]),
        lambda n: another.enqueue([new_job(idempotency_key=keys[n])]),
        lambda n: another.enqueue([kept[n]]),
    )

    jobs = (await store.list(Filter(), limit=9999)).jobs
    assert [job.status for job in jobs] == [Status.SUCCEEDED] * rounds


async def test_law_10_a_key_that_was_kept_for_long_enough_is_taken_by_one(
    store: Store,
    claim: ClaimSome,
    open_another: OpenAnother,
    clock: FakeClock,
    scale: int,
) -> None:
    rounds = ROUNDS * scale
    kept = [
        new_job(idempotency_key=f"k{number}", idempotency_for=HOUR)
        for number in range(rounds)
    ]
    await store.enqueue(kept)
    outcomes = [_outcome.succeeded(held.key) for held in (await claim(rounds)).claims]
    await store.finish(outcomes)
    clock.advance(HOUR)
    another = await open_another()

    answers = await race(
        rounds,
        lambda n: said(store, kept[n]),
        lambda n: said(another, kept[n]),
        lambda _: another.prune(Retention(), limit=2),
    )

    assert all((one is None) != (other is None) for one, other, _ in answers)


async def test_b29_with_raise_one_is_made_and_the_other_told_of_it(
    store: Store, open_another: OpenAnother, scale: int
) -> None:
    another = await open_another()

    def meaning(n: int, who: int) -> NewJob:
        # Each third time both mean the same.
        payload = f'{{"n":{who if n % 3 else 7}}}'
        key = f"k{n}"
        return new_job(payload=payload, idempotency_key=key, on_conflict="raise")

    answers = await race(
        ROUNDS * scale,
        lambda n: said(store, meaning(n, 1)),
        lambda n: said(another, meaning(n, 2)),
    )

    for n, both in enumerate(answers):
        (made,) = [each for each in both if isinstance(each, int)]
        (other,) = [each for each in both if each != made]
        assert (await having(store, f"k{n}"))[0].id == made
        if n % 3:
            assert isinstance(other, KeyConflict)
            assert other.job_id == made
        else:
            assert other is None


async def test_b29_with_replace_there_is_one_job_which_has_the_last_payload(
    store: Store, open_another: OpenAnother, scale: int
) -> None:
    another = await open_another()

    def meaning(n: int, who: str) -> NewJob:
        fields = {"payload": f'{{"by":"{who}"}}', "idempotency_key": f"k{n}"}
        return new_job(on_conflict="replace", **fields)

    answers = await race(
        ROUNDS * scale,
        lambda n: said(store, meaning(n, "a")),
        lambda n: said(another, meaning(n, "b")),
    )

    for n, (by_a, by_b) in enumerate(answers):
        (job,) = await having(store, f"k{n}")
        assert {by_a, by_b} == {job.id, None}
        # Who was told of a duplicate came second, and what it brought is there.
        assert job.payload == {"by": "a" if by_a is None else "b"}


async def test_replace_against_a_claim_leaves_what_the_handler_was_given(
    store: Store, open_another: OpenAnother, scale: int
) -> None:
    rounds = ROUNDS * scale
    another = await open_another()

    def bringing(n: int, payload: str) -> NewJob:
        return new_job(
            task=f"t{n}", payload=payload, idempotency_key="k", on_conflict="replace"
        )

    await store.enqueue([bringing(n, '{"n":1}') for n in range(rounds)])

    answers = await race(
        rounds,
        lambda n: store.claim(demand(1, f"t{n}"), worker="w", lease=LEASE),
        lambda n: said(another, bringing(n, '{"n":2}')),
    )

    for n, (claimed, made) in enumerate(answers):
        assert made is None
        (job,) = (await store.list(Filter(task=f"t{n}"))).jobs
        # A claim passes by what another has locked.
        given = claimed.claims[0].payload if claimed.claims else '{"n":2}'
        assert given == f'{{"n":{job.payload["n"]}}}'


async def test_two_batches_with_the_same_keys_in_another_order_dont_block_each_other(
    store: Store, open_another: OpenAnother
) -> None:
    another = await open_another()

    def batch(n: int, *, is_reversed: bool) -> list[NewJob]:
        keys = [f"{n}-{number}" for number in range(20)]
        ordered = keys[::-1] if is_reversed else keys
        return [new_job(idempotency_key=k, on_conflict="replace") for k in ordered]

    answers = await race(
        20,
        lambda n: store.enqueue(batch(n, is_reversed=False)),
        lambda n: another.enqueue(batch(n, is_reversed=True)),
    )

    for one, other in answers:
        assert [a is None for a in one] == [b is not None for b in reversed(other)]
