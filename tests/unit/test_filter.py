"""What a filter takes, and what it refuses at the door."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import cast

import pytest

from rowlock import Filter, Status, UsageError
from rowlock._filter import Between


def made(**fields: object) -> Filter:
    """Make a filter as untyped code would."""
    return cast("Callable[..., Filter]", Filter)(**fields)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (3, (3, 3)),
        (-100, (-100, -100)),
        (0, (0, 0)),
        ("3", (3, 3)),
        ("-3", (-3, -3)),
        ("3..", (3, None)),
        ("..5", (None, 5)),
        ("3..5", (3, 5)),
        ("-5..-3", (-5, -3)),
        ("5..5", (5, 5)),
        ((3, None), (3, None)),
        ((None, 5), (None, 5)),
        (Between(1, 2), (1, 2)),
    ],
)
def test_a_range_is_a_number_or_two_ends(given: object, read: Between) -> None:
    assert made(priority=given).priority == read
    assert made(attempts=given).attempts == read


@pytest.mark.parametrize(
    "given",
    [
        "",
        "..",
        "x",
        "3...5",
        "5..3",
        "1.5",
        "3-5",
        " 3",
        "٣",
        "99999999999",
        "3000000000",
        (5, 3),
        (None, None),
        (1, 2, 3),
        (True, 2),
        (0, False),
        1.5,
        True,
        2**31,
        b"3",
    ],
)
def test_what_is_no_range_is_refused_with_what_is(given: object) -> None:
    with pytest.raises(UsageError, match=r"Filter\(priority=\) takes a whole number"):
        made(priority=given)


@pytest.mark.parametrize(
    "name", ["task", "queue", "idempotency_key", "error", "error_type", "worker"]
)
@pytest.mark.parametrize("value", ["", "a\0b", "\ud800", 5, b"mail"])
def test_what_is_no_text_that_a_store_has_is_refused(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=rf"Filter\({name}=\)"):
        made(**{name: value})


@pytest.mark.parametrize(
    "name",
    ["older_than", "younger_than", "finished_older_than", "finished_younger_than"],
)
def test_an_age_is_in_seconds_or_a_timedelta(name: str) -> None:
    assert getattr(made(**{name: 90}), name) == timedelta(seconds=90)
    assert getattr(made(**{name: timedelta(1)}), name) == timedelta(1)
    with pytest.raises(UsageError, match=rf"Filter\({name}=\) can't be negative"):
        made(**{name: -1})


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ({}, "takes fields with their values"),
        ([1], "takes fields with their values"),
        ({"a": {}}, "takes fields with their values"),
        ({"a": [1]}, "a is given [1]"),
        ({"a": {"b": object}}, "a.b is given <class 'object'>"),
        ({"a": float("nan")}, "a is given nan"),
        ({"a": float("inf")}, "a is given inf"),
        ({5: 1}, "5 isn't one"),
        ({"a\0": 1}, "without NUL"),
        ({"a": {"\ud800": 1}}, "without NUL"),
        ({"a": "\0"}, "a is given"),
        ({"a": "\ud800"}, "a is given"),
        ({"a": 10**5000}, "a is given"),
    ],
)
def test_what_cant_be_compared_in_a_payload_is_refused(
    payload: object, said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        made(payload=payload)

    assert said in str(refused.value)


def test_every_job_is_said_alone() -> None:
    assert not Filter(all=True).is_empty
    assert Filter().is_empty
    assert not Filter(ids=()).is_empty
    with pytest.raises(UsageError, match="goes with nothing else"):
        Filter(all=True, status=Status.FAILED)


@pytest.mark.parametrize("given", ["yes", 1, None])
def test_every_job_is_not_said_by_chance(given: object) -> None:
    with pytest.raises(UsageError, match=r"Filter\(all=\) takes True or False"):
        made(all=given)


@pytest.mark.parametrize("given", ["17", b"17", 1.5, [None]])
def test_ids_are_no_texts(given: object) -> None:
    with pytest.raises(UsageError, match="id"):
        made(ids=given)
    assert made(ids=17).ids == (17,)


def test_filters_are_compared_by_what_they_say() -> None:
    assert Filter(priority="3", older_than=60) == Filter(
        priority=3, older_than=timedelta(minutes=1)
    )
    assert hash(Filter(task="a", payload={"n": 1})) == hash(Filter(task="a"))
