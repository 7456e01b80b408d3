"""Whatever is enqueued comes back as it was, or is refused with its path."""

from __future__ import annotations

import json
import math
from datetime import time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowlock._codec import encode_json
from rowlock._errors import PayloadError
from rowlock._payload import MAX_PAYLOAD, storable
from tests.unit.codec_values import (
    Channel,
    Colour,
    Line,
    Order,
    Point,
    Tree,
    exactly,
    taking,
    there_and_back,
)

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | text


def nested(
    leaves: st.SearchStrategy[Any], keys: st.SearchStrategy[Any]
) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner) | st.dictionaries(keys, inner),
        max_leaves=20,
    )


json_values = nested(scalars, text)
anything = nested(
    scalars
    | st.floats()
    | st.text()
    | st.just("a\0")
    | st.just("\ud800")
    | st.tuples(st.integers())
    | st.sets(st.integers())
    | st.binary()
    | st.decimals()
    | st.datetimes()
    | st.uuids()
    | st.sampled_from([Colour.RED, Channel.MAIL, Point(1, 2.0)]),
    st.text() | st.integers() | st.floats() | st.booleans(),
)
zones = st.integers(-1439, 1439).map(lambda n: timezone(timedelta(minutes=n)))
decimals = st.decimals(allow_nan=False, allow_infinity=False)
lines = st.builds(Line, sku=text, price=decimals, tags=st.sets(text))
orders = st.builds(
    Order,
    id=st.uuids(),
    at=st.datetimes(timezones=zones),
    lines=st.lists(lines, max_size=3),
    colour=st.sampled_from(Colour),
)
trees = st.recursive(
    st.builds(Tree, st.integers()),
    lambda inner: st.builds(Tree, st.integers(), st.lists(inner, max_size=3)),
    max_leaves=10,
)

floats = st.floats(allow_nan=False, allow_infinity=False)
points = st.builds(Point, st.integers(), floats)

TYPED: list[tuple[object, st.SearchStrategy[Any]]] = [
    (dict[str, Order | None], st.dictionaries(text, orders | st.none(), max_size=3)),
    (Tree, trees),
    (timedelta, st.timedeltas()),
    (Decimal, decimals),
    (time, st.times()),
    (frozenset[tuple[int, str]], st.frozensets(st.tuples(st.integers(), text))),
    (list[bytes], st.lists(st.binary())),
    (int | list[float] | str | None, st.none() | st.integers() | text),
    (dict[Channel, Point], st.dictionaries(st.sampled_from(Channel), points)),
]


@given(value=json_values)
def test_any_json_comes_back_as_it_was(value: object) -> None:
    stored = encode_json(value, limit=MAX_PAYLOAD)

    assert exactly(json.loads(stored)) == exactly(value)
    assert exactly(there_and_back(taking(Any), value)) == exactly(value)


@pytest.mark.parametrize(("annotation", "values"), TYPED)
@given(data=st.data())
def test_what_is_annotated_comes_back_as_it_was(
    annotation: object, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    value = data.draw(values)

    assert exactly(there_and_back(taking(annotation), value)) == exactly(value)


@given(value=anything)
def test_anything_comes_back_as_it_was_or_is_refused(value: object) -> None:
    try:
        back = there_and_back(taking(Any), value)
    except PayloadError as error:
        refused = error
    else:
        assert exactly(back) == exactly(value)
        return
    assert refused.path.startswith("$.value")
    assert encode_json(str(refused), limit=MAX_PAYLOAD)


@given(
    culprit=st.sampled_from([math.nan, "\0", "\ud800", (1,), Colour.RED, object()]),
    steps=st.lists(st.integers(0, 3) | st.from_regex(r"[a-z]+", fullmatch=True)),
    beside=json_values,
)
def test_the_path_leads_to_the_culprit(
    culprit: object, steps: list[int | str], beside: object
) -> None:
    value = culprit
    path = ""
    for step in steps:
        if isinstance(step, int):
            value, path = [*[beside] * step, value, beside], f"[{step}]{path}"
        else:
            value, path = {"A": beside, step: value, "Z": beside}, f".{step}{path}"

    with pytest.raises(PayloadError) as refused:
        encode_json(value, limit=MAX_PAYLOAD)

    assert refused.value.path == f"${path}"


@given(st.text() | st.just("a\0\ud800"))
def test_what_x(value: str) -> None:
    assert encode_json(storable(value), limit=MAX_PAYLOAD)
    if "\0" not in value and value.isprintable():
        assert storable(value) == value
