"""What arguments and results become as JSON, and what is refused."""

from __future__ import annotations

import inspect
import json
import math
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import pytest

from rowlock._codec import Codec, encode_json
from rowlock._errors import PayloadError
from rowlock._payload import MAX_PAYLOAD
from tests.unit.codec_values import (
    Address,
    Channel,
    Colour,
    Forgetful,
    Line,
    LookAlike,
    Order,
    Point,
    Renamed,
    Size,
    Tree,
    WithoutEquality,
    exactly,
    taking,
    there_and_back,
)

WEBHOOKS = Path(__file__).parent.parent / "data" / "github-webhooks.jsonl"

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
EAST = datetime(2026, 10, 25, 2, 30, tzinfo=timezone(timedelta(hours=5, minutes=45)))
ORDER = Order(
    UUID(int=7), NOW, [Line("a", Decimal("1.10"), {"x"}), Line("b", Decimal(2))]
)


class Dated(tzinfo):
    """A zone whose offset depends on the date, as most do."""

    def utcoffset(self, instant: datetime | None) -> timedelta | None:
        return None if instant is None else timedelta(hours=1)

    tzname = dst = None  # type: ignore[assignment]  # never asked


@dataclass(frozen=True, eq=False)
class Lonely:
    n: int


# An annotation, and a value that it carries.
CARRIED: list[tuple[object, object]] = [
    (None, None),
    (bool, True),
    (int, -1),
    (int, 2**63),
    (int, 2**200),
    (float, 0.1),
    (float, -0.0),
    (float, 5e-324),
    (float, 1e22),
    (str, "naïve ☃ \U0001f600 \\u0000 \x01 \x7f"),
    (list[int], [1, 2]),
    (list, [1, "a", None]),
    (Sequence[str], ["a"]),
    (dict[str, int], {"a": 1, "": 2, "a b": 3}),
    (Mapping[str, list[int]], {"a": [1]}),
    (dict[Channel, int], {Channel.POST: 1}),
    (dict[Literal["a", "b"], int], {"b": 1}),
    (dict, {"order": 42, "deep": [{"a": 1.0}]}),
    (tuple[int, str], (1, "a")),
    (tuple[int, ...], (1, 2)),
    (tuple, ()),
    (set[int], {1, 2}),
    (frozenset[Colour], frozenset({Colour.RED, Colour.BLUE})),
    (set[tuple[int, str]], {(1, "a"), (2, "b")}),
    (bytes, b"\0\xff"),
    (bytearray, bytearray(b"\0")),
    (datetime, NOW),
    (datetime, EAST),
    (datetime, datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))),
    (date, date(2026, 1, 2)),
    (time, time(1, 2, 3, 4)),
    (time, time(1, 2, tzinfo=UTC)),
    (timedelta, timedelta(days=-3, microseconds=1)),
    (timedelta, timedelta.max),
    (Decimal, Decimal("1.10")),
    (Decimal, Decimal("1E+400")),
    (UUID, UUID(int=3)),
    (Colour, Colour.BLUE),
    (Size, Size.LARGE),
    (Channel, Channel.MAIL),
    (Literal["a", 1] | None, "a"),
    (int | None, None),
    (int | str | list[date] | None, [date(2026, 1, 2)]),
    (int | float, 1),
    (int | float, 1.0),
    (Point, Point(1, 2.0)),
    (Address, {"street": "Main", "number": 1}),
    (Address, {"street": "Main"}),
    (Order, ORDER),
    (dict[str, Order | None], {"a": ORDER, "b": None}),
    (Tree, Tree(1, [Tree(2), Tree(3, [Tree(4)])])),
    (Renamed, Renamed("Ada")),
    (Renamed, Renamed("Ada", "Lovelace")),
    (Annotated[int, msgspec.Meta(ge=0)], 0),
    (dict[Annotated[str, msgspec.Meta(title="key")], int], {"a": 1}),
    (object, {"a": [None]}),
    (list[LookAlike | None], [LookAlike(1), None]),
]

# An annotation, a value that it doesn't carry, where, and what is said of it.
REFUSED: list[tuple[object, object, str, str]] = [
    # What Any would change.
    (Any, (1, 2), "$.value", "`tuple` and would come back as `list`"),
    (Any, {"a": [{1}]}, "$.value.a[0]", "annotate it as `set`"),
    (Any, Colour.RED, "$.value", "annotate it as `tests.unit.codec_values.Colour`"),
    (Any, Size.SMALL, "$.value", "would come back as `int`"),
    (Any, {"a b": Channel.MAIL}, "$.value['a b']", "would come back as `str`"),
    (Any, Decimal(1), "$.value", "annotate it as `decimal.Decimal`"),
    (Any, b"x", "$.value", "would come back as `str`"),
    (Any, NOW, "$.value", "annotate it as `datetime.datetime`"),
    (Any, date(2026, 1, 2), "$.value", "would come back as `str`"),
    (Any, time(1), "$.value", "would come back as `str`"),
    (Any, timedelta(1), "$.value", "would come back as `str`"),
    (Any, UUID(int=1), "$.value", "would come back as `str`"),
    (Any, ORDER, "$.value", "would come back as `dict`"),
    (Any, [Point(1)], "$.value[0]", "would come back as `list`"),
    (Any, LookAlike(1), "$.value", "would come back as `dict`"),
    (Any, OrderedDict(a=1), "$.value", "pass `dict`."),
    (list, [1, (2,)], "$.value[1]", "would come back as `list`"),
    (dict, {"k": {"a": NOW}}, "$.value.k.a", "would come back as `str`"),
    # What an annotation would change.
    (str, Channel.MAIL, "$.value", "would come back as `str`"),
    (dict[str, int], {Channel.MAIL: 1}, "$.value", "its key <Channel.MAIL: 'mail'> is"),
    (dict[Channel, int], {"mail": 1}, "$.value", "its key 'mail' is `str`"),
    (int | datetime, "2026-01-01T00:00:00Z", "$.value", "`str` and would come back as"),
    (datetime, "2026-01-01T00:00:00Z", "$.value", "`str` and would come back as"),
    (Decimal, 5, "$.value", "`int` and would come back as `decimal.Decimal`"),
    (tuple[int, ...], [1], "$.value", "pass `tuple`, or annotate it as `list`"),
    (Sequence[int], (1,), "$.value", "`tuple` and would come back as `list`"),
    (set[int], frozenset({1}), "$.value", "`frozenset` and would come back as `set`"),
    (bytes, bytearray(b"x"), "$.value", "`bytearray` and would come back as `bytes`"),
    (Order, {}, "$.value.id", "it is missing"),
    (Point, (1, 2.0), "$.value", "`tuple` and would come back as"),
    (Address, {"street": "a", "town": "b"}, "$.value.town", "would be dropped"),
    (float, 2**53 + 1, "$.value", "`int` and would come back as `float`"),
    (set[str], {Channel.MAIL}, "$.value[0]", "would come back as `str`"),
    (set[Lonely], {Lonely(1)}, "$.value[0]", "wouldn't come back equal"),
    (Forgetful, Forgetful([1, 2]), "$.value.n", "`list` and wouldn't come back equal"),
    (Forgetful, Forgetful({"a": 1}), "$.value.n", "`dict` and wouldn't come back"),
    (Forgetful, Forgetful(1), "$.value.n", "`int` and wouldn't come back equal"),
    (time, time(1, tzinfo=Dated()), "$.value", "no offset without a date"),
    # What doesn't fit.
    (int, "1", "$.value", "expected `int`, got `str`"),
    (int, 1.0, "$.value", "expected `int`, got `float`"),
    (int, True, "$.value", "expected `int`, got `bool`"),
    (bool, 1, "$.value", "expected `bool`, got `int`"),
    (str, None, "$.value", "expected `str`, got `null`"),
    (Literal["a"], "b", "$.value", "invalid enum value 'b'"),
    (Annotated[int, msgspec.Meta(ge=0)], -1, "$.value", "expected `int` >= 0"),
    (list[Line], [Line("a", "x")], "$.value[0].price", "decimal"),  # type: ignore[arg-type]  # the case
    (dict[str, int], {"a": 1, "b c": "x"}, "$.value['b c']", "expected `int`"),
    (
        dict[str, dict[str, list[int]]],
        {"a": {"x": [1]}, "b": {"y": [], "z": [1, "2"], "w": [3]}, "c": {}},
        "$.value.b.z[1]",
        "expected `int`, got `str`",
    ),
    # What JSON, or a store, doesn't have.
    (datetime, NOW.replace(tzinfo=None), "$.value", "no time zone"),
    (Any, NOW.replace(tzinfo=None), "$.value", "no time zone"),
    (list[datetime], [NOW, NOW.replace(tzinfo=None)], "$.value[1]", "no time zone"),
    (Decimal, Decimal("NaN"), "$.value", "it is NaN"),
    (Decimal, Decimal("sNaN"), "$.value", "it is sNaN"),
    (Decimal, Decimal("-Infinity"), "$.value", "it is -Infinity"),
    (Any, PurePosixPath("x"), "$.value", "it is `pathlib.PurePosixPath`"),
    (object, [PurePosixPath("x")], "$.value[0]", "can't be written as JSON"),
    (Any, {"a": {"b": object()}}, "$.value.a.b", "it is `object`"),
    (Any, 1j, "$.value", "it is `complex`"),
    (Any, range(3), "$.value", "it is `range`"),
    (Any, [10**5000], "$.value[0]", "more than 4300 digits"),
    (Any, {1: 2}, "$.value", "its key 1 is `int`, and JSON's keys are strings"),
    (dict, {"a": {None: 1}}, "$.value.a", "its key None is `None`"),
    (dict, {"a": [{(1, 2): 1}]}, "$.value.a[0]", "its key (1, 2) is `tuple`"),
    (dict, {1: "a", "1": "b"}, "$.value", "its key 1 is `int`"),
    (Any, msgspec.UNSET, "$.value", "can't be written as JSON"),
]


class Text(str):
    """A string that isn't quite one, as template engines have."""

    __slots__ = ()


@pytest.mark.parametrize(("annotation", "value"), CARRIED)
def test_b54_what_is_annotated_comes_back_equal_and_of_its_type(
    annotation: object, value: object
) -> None:
    back = there_and_back(taking(annotation), value)

    assert exactly(back) == exactly(value)


@pytest.mark.parametrize(("annotation", "value", "path", "said"), REFUSED)
def test_b54_what_would_come_back_changed_is_refused_with_its_path(
    annotation: object, value: object, path: str, said: str
) -> None:
    with pytest.raises(PayloadError) as refused:
        taking(annotation).encode({"value": value}, limit=MAX_PAYLOAD)

    assert refused.value.path == path
    assert said in str(refused.value)
    assert str(refused.value).startswith(
        (
            f"`{path}` can't be stored for task 'handler':",
            f"`{path}` doesn't fit the handler of task 'handler':",
        )
    )


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        *((int, "1"), (int, 1.5), (bool, 1), (str, None), (Literal["a"], "b")),
        *((dict[str, list[int]], {"z": [1, "2"]}), (Order, {"number": 1})),
    ],
)
def test_what_no_annotation_reads_is_refused_in_the_same_words_from_a_call_and_json(
    annotation: object, value: object
) -> None:
    codec = taking(annotation)

    with pytest.raises(PayloadError) as called:
        codec.encode({"value": value}, limit=MAX_PAYLOAD)
    with pytest.raises(PayloadError) as typed:
        codec.decode(json.dumps({"value": value}))

    assert str(called.value) == str(typed.value)
    assert called.value.path == typed.value.path


def test_b54_an_int_may_reach_a_float_as_the_equal_float() -> None:
    back = there_and_back(taking(dict[str, set[float]]), {"a": {1, 2}})

    assert back == {"a": {1.0, 2.0}}


@pytest.mark.parametrize("value", [Text("x"), [Text("x")], type("F", (float,), {})(1)])
def test_b54_a_subclass_of_a_json_type_is_refused(value: object) -> None:
    with pytest.raises(PayloadError, match=r"tests\.unit\.test_codec\.(Text|F)`"):
        taking(Any).encode({"value": value}, limit=MAX_PAYLOAD)


def test_an_offset_with_seconds_is_refused_as_iso_8601_would_cut_it() -> None:
    odd = NOW.astimezone(timezone(timedelta(minutes=53, seconds=28)))

    with pytest.raises(PayloadError, match="offset has seconds"):
        taking(datetime).encode({"value": odd}, limit=MAX_PAYLOAD)


def test_a_dataclass_without_equality_is_compared_by_its_fields() -> None:
    codec = taking(WithoutEquality)

    back = there_and_back(codec, WithoutEquality(1.5))

    assert isinstance(back, WithoutEquality)
    assert back.value == 1.5
    with pytest.raises(PayloadError) as refused:
        codec.encode({"value": WithoutEquality(math.inf)}, limit=MAX_PAYLOAD)
    assert refused.value.path == "$.value.value"


def test_a_payload_may_be_as_large_as_the_limit_and_no_larger() -> None:
    codec = taking(str)
    fits = "é" * 20
    size = len(codec.encode({"value": fits}, limit=MAX_PAYLOAD).encode())

    assert size == len('{"value":""}') + 40
    assert codec.encode({"value": fits}, limit=size)
    with pytest.raises(PayloadError, match="52 bytes of JSON, and max_payload is 51"):
        codec.encode({"value": fits}, limit=size - 1)


def test_a_payload_that_is_too_large_names_its_largest_argument() -> None:
    def handler(small: str, document: str) -> None: ...

    with pytest.raises(PayloadError, match=r"1,048,603 bytes.*is 1,048,576") as refused:
        Codec(handler).encode(
            {"small": "x", "document": "x" * MAX_PAYLOAD}, limit=MAX_PAYLOAD
        )

    assert refused.value.path == "$.document"


def test_a_result_that_is_too_large_is_refused() -> None:
    with pytest.raises(PayloadError, match="1,048,580 bytes"):
        encode_json(["x" * MAX_PAYLOAD], limit=MAX_PAYLOAD)
    with pytest.raises(PayloadError) as refused:
        encode_json({"a": 1, "the rest": [1, 2]}, limit=20)
    assert refused.value.path == "$['the rest']"


@pytest.mark.parametrize("encode", [taking(Any).encode, encode_json])
def test_what_contains_itself_or_is_nested_too_deeply_is_refused(
    encode: Callable[..., str],
) -> None:
    circle: dict[str, object] = {}
    circle["value"] = circle
    deep: dict[str, object] = {}
    for _ in range(100):
        deep = {"value": deep}

    for value in (circle, deep):
        with pytest.raises(PayloadError, match="100 levels deep, or contains itself"):
            encode(value, limit=MAX_PAYLOAD)
    assert encode(deep["value"], limit=MAX_PAYLOAD)


def test_a_deep_payload_is_refused_where_pythons_stack_is_nearly_used_up() -> None:
    deep: object = 1
    for _ in range(90):
        deep = [deep]
    left = sys.getrecursionlimit() - len(inspect.stack(0))

    def encode_below(levels: int) -> str:
        if levels:
            return encode_below(levels - 1)
        return encode_json(deep, limit=MAX_PAYLOAD)

    assert encode_below(0)
    with pytest.raises(PayloadError, match="100 levels deep"):
        encode_below(left - 150)


def test_all_webhook_payloads_come_back_equal() -> None:
    def handler(event: str, payload: dict[str, Any]) -> None: ...

    codec = Codec(handler)
    rows = [json.loads(line) for line in WEBHOOKS.read_text().splitlines()]

    assert len(rows) == 329
    for row in rows:
        text = codec.encode(row, limit=MAX_PAYLOAD)
        assert exactly(json.loads(text)) == exactly(row)
        assert exactly(codec.decode(text)) == exactly(row)


@pytest.mark.parametrize(
    ("value", "path", "said"),
    [
        ((1, 2), "$", "`tuple` and would come back as `list`: pass `list`."),
        ({"at": NOW}, "$.at", "`datetime.datetime` and would come back as `str`"),
        ([{1: 2}], "$[0]", "its key 1 is `int`"),
        ({"a": {2.5, 3}}, "$.a", "`set` and would come back as `list`"),
        (ORDER, "$", "would come back as `dict`"),
        (object(), "$", "it is `object`"),
        (print, "$", "it is `builtin_function_or_method`"),
    ],
)
def test_a_result_that_would_come_back_changed_is_refused(
    value: object, path: str, said: str
) -> None:
    with pytest.raises(PayloadError) as refused:
        encode_json(value, limit=MAX_PAYLOAD)

    assert refused.value.path == path
    assert str(refused.value).startswith(f"`{path}` can't be stored: ")
    assert said in str(refused.value)
