"""Filters: each field restricts, alike on every store."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from rowlock import _filter, _outcome
from rowlock._filter import Filter
from rowlock._job import Outcome, Status
from rowlock._store import Store
from rowlock.testing import FakeClock

from .given import ClaimOne, ClaimSome, Enqueue, JobIn, key_of, new_job

MINUTE = timedelta(minutes=1)


def error(kind: str, message: str) -> Mapping[str, Any]:
    return {"type": kind, "message": message, "traceback": None}


@pytest.fixture
async def crowd(store: Store, claim: ClaimSome, clock: FakeClock) -> dict[str, int]:
    """
    Jobs by letter, a minute apart: dead a, b and c, succeeded d, retried e, pending f.

    Their priorities are 0, 1, 2, 3, 4 and 5.
    """
    ids: dict[str, int] = {}
    for priority, letter in enumerate("abcdef"):
        payload = f'{{"letter": "{letter}", "n": {priority}}}'
        (job_id,) = await store.enqueue(
            [new_job(task=letter, payload=payload, priority=priority)]
        )
        assert job_id is not None
        ids[letter] = job_id
        clock.advance(MINUTE)
    ends = {
        "a": (Status.FAILED, error("psycopg.errors.UniqueViolation", "key (id)=(7)")),
        "b": (Status.FAILED, error("ValueError", "no 100%_stock: UniqueViolation")),
        "c": (Status.FAILED, error("shop.ValueError", "no stock")),
        "d": (Status.SUCCEEDED, None),
        "e": (Status.PENDING, error("KeyError", "'No stock'")),
    }
    for letter, (status, told) in ends.items():
        claims = (await claim(tasks=[letter], worker=f"w-{letter}")).claims
        await store.finish(
            [Outcome(key=each.key, status=status, error=told) for each in claims]
        )
        clock.advance(MINUTE)
    return ids


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ({"error": "stock"}, "bce"),
        ({"error": "No stock"}, "e"),
        ({"error": "100%_"}, "b"),
        ({"error": "UniqueViolation"}, "ab"),
        ({"error": "nothing of the kind"}, ""),
        ({"error_type": "ValueError"}, "bc"),
        ({"error_type": "shop.ValueError"}, "c"),
        ({"error_type": "UniqueViolation"}, "a"),
        ({"error_type": "errors.UniqueViolation"}, "a"),
        ({"error_type": "Error"}, ""),
        ({"error_type": "Value_rror"}, ""),
        ({"priority": 3}, "d"),
        ({"priority": "3.."}, "def"),
        ({"priority": "..1"}, "ab"),
        ({"priority": "1..2"}, "bc"),
        ({"attempts": 1}, "abcde"),
        ({"attempts": 0}, "f"),
        ({"attempts": "2.."}, ""),
        ({"worker": "w-b"}, "b"),
        ({"worker": "w"}, ""),
        # a is 11 minutes old, f 6; a ended 5 minutes ago, d 2.
        ({"older_than": 9 * MINUTE}, "abc"),
        ({"younger_than": 9 * MINUTE}, "cdef"),
        ({"older_than": 8 * MINUTE, "younger_than": 9 * MINUTE}, "cd"),
        ({"finished_older_than": 3 * MINUTE}, "abc"),
        ({"finished_younger_than": 3 * MINUTE}, "cd"),
        ({"finished_younger_than": 60 * MINUTE}, "abcd"),
        ({"payload": {"letter": "a"}}, "a"),
        ({"payload": {"n": 2}}, "c"),
        ({"payload": {"n": 2, "letter": "a"}}, ""),
        ({"payload": {"n": "2"}}, ""),
        ({"status": Status.FAILED, "error_type": "ValueError", "priority": "..1"}, "b"),
        ({"all": True}, "abcdef"),
    ],
)
async def test_each_field_of_a_filter_restricts(
    store: Store, crowd: dict[str, int], where: dict[str, Any], found: str
) -> None:
    page = await store.list(Filter(**where))
    matches = await store.search(Filter(**where), limit=100)

    letters = {job_id: letter for letter, job_id in crowd.items()}
    assert "".join(letters[job.id] for job in page.jobs) == found[::-1]
    assert matches.ids == tuple(job.id for job in page.jobs)
    assert not matches.is_cut


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize(
    "where",
    [
        {"error": "stock"},
        {"error_type": "ValueError"},
        {"priority": "7.."},
        {"attempts": "3.."},
        {"worker": "w9"},
        {"older_than": timedelta(days=1)},
        {"younger_than": timedelta(0)},
        {"finished_older_than": timedelta(days=1)},
        {"payload": {"n": 8}},
    ],
)
async def test_a_field_restricts_whatever_the_status(
    store: Store,
    job_in: JobIn,
    clock: FakeClock,
    status: Status,
    where: dict[str, Any],
) -> None:
    await job_in(status)
    clock.advance(1)

    assert (await store.list(Filter(status=status))).jobs
    found = await store.list(Filter(status=status, **where))

    # Dead letters of the suite have such an error.
    has_error = status is Status.FAILED and where.get("error_type") == "ValueError"
    has_text = status is Status.FAILED and where.get("error") == "stock"
    assert bool(found.jobs) == (has_error or has_text)


@pytest.mark.parametrize(
    ("payload", "where", "fits"),
    [
        ('{"a": 1}', {"a": 1}, True),
        ('{"a": 1.0}', {"a": 1}, True),
        ('{"a": 1}', {"a": True}, False),
        ('{"a": true}', {"a": 1}, False),
        ('{"a": true}', {"a": True}, True),
        ('{"a": false}', {"a": None}, False),
        ('{"a": null}', {"a": None}, True),
        ("{}", {"a": None}, False),
        ('{"a": "x"}', {"a": "x"}, True),
        ('{"a": "X"}', {"a": "x"}, False),
        ('{"a": {"b": {"c": "x"}}}', {"a": {"b": {"c": "x"}}}, True),
        ('{"a": {"b": {"c": "x"}}}', {"a": {"b": "x"}}, False),
        ('{"a": {"b": 1, "c": 2}}', {"a": {"b": 1}}, True),
        ('{"a": {"b": 1, "c": 2}}', {"a": {"b": 1, "c": 3}}, False),
        ('{"a": {"b": 1}}', {"a": '{"b":1}'}, False),
        ('{"a": [1]}', {"a": 1}, False),
        ('{"a.b": 1}', {"a.b": 1}, True),
        ('{"a": {"b": 1}}', {"a.b": 1}, False),
        ('{"größe": "ä"}', {"größe": "ä"}, True),
        ('{"a": 9007199254740993}', {"a": 9007199254740993}, True),
        ('{"a": 9007199254740993}', {"a": 9007199254740992}, False),
        ('{"a": 1}', {"b": 1}, False),
        ('{"a": 9223372036854775808}', {"a": 2**63}, True),
        ('{"a": 9223372036854775808}', {"a": 2**63 + 1}, False),
        ('{"a": 18446744073709551615}', {"a": 2**64 - 2}, False),
        ('{"a": 0.1}', {"a": 0.1}, True),
        ('{"a": 1e2}', {"a": 100}, True),
        ('{"a": 1.00000000000000000001}', {"a": 1}, False),
        ('{"a": [7]}', {"a": {"0": 7}}, False),
        ('{"a": [7]}', {"a": {"-1": 7}}, False),
        ('{"a": ["x"]}', {"a": "x"}, False),
        ('{"a\\\\b": 1}', {"a\\b": 1}, True),
        ('{"a\\nb": "\\t"}', {"a\nb": "\t"}, True),
        ('{"a\\"b": 1}', {'a"b': 1}, True),
        ('{"": 1}', {"": 1}, True),
    ],
)
async def test_a_payload_fits_by_its_fields(
    store: Store, enqueue: Enqueue, payload: str, where: dict[str, Any], *, fits: bool
) -> None:
    (job_id,) = await enqueue(payload=payload)

    found = await store.search(Filter(payload=where), limit=10)

    assert found.ids == ((job_id,) if fits else ())


async def test_payloads_are_looked_at_in_the_newest_only_and_that_is_said(
    store: Store, enqueue: Enqueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("sqlite", "postgres"):
        monkeypatch.setattr(f"rowlock.stores.{module}.read.PAYLOADS_LOOKED_AT", 4)
    assert _filter.PAYLOADS_LOOKED_AT == 20_000
    old = await enqueue(2, payload='{"n": 1}')
    await enqueue(2, payload='{"n": 2}')
    (new,) = await enqueue(payload='{"n": 1}')
    await enqueue(3, task="other", payload='{"n": 1}')

    found = await store.search(Filter(task="task", payload={"n": 1}), limit=10)
    assert (found.ids, found.is_cut) == ((new, old[1]), True)

    first = await store.list(Filter(task="task", payload={"n": 1}), limit=1)
    assert ([job.id for job in first.jobs], first.is_cut) == ([new], True)
    second = await store.list(
        Filter(task="task", payload={"n": 1}), after=first.after, limit=1
    )
    assert [job.id for job in second.jobs] == [old[1]]
    assert second.after is None

    whole = await store.search(Filter(task="other", payload={"n": 1}), limit=10)
    assert (len(whole.ids), whole.is_cut) == (3, False)


async def test_a_payload_is_found_in_the_history_too(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne
) -> None:
    (done,) = await enqueue(payload='{"n": 1}')
    held = await claim_one()
    await store.finish([_outcome.succeeded(held.key)])
    (waiting,) = await enqueue(payload='{"n": 1}')
    await enqueue(payload='{"n": 2}')

    assert (await store.search(Filter(payload={"n": 1}), limit=9)).ids == (
        waiting,
        done,
    )
    assert key_of((await store.get([done]))[0]) == held.key
