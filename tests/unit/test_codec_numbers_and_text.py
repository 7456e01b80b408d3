"""Numbers and text that JSON, or one store of several, doesn't have."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from rowlock._codec import encode_json
from rowlock._errors import PayloadError
from rowlock._payload import MAX_PAYLOAD, storable
from tests.unit.codec_values import LookAlike, Point, taking, there_and_back

NOT_NUMBERS = [math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("number", NOT_NUMBERS)
@pytest.mark.parametrize("annotation", [Any, float, float | None, float | str])
def test_b52_nan_and_infinity_are_refused(annotation: object, number: float) -> None:
    with pytest.raises(PayloadError, match=f"it is {number}, which JSON") as refused:
        taking(annotation).encode({"value": number}, limit=MAX_PAYLOAD)

    assert isinstance(refused.value, ValueError)
    assert refused.value.path == "$.value"


@pytest.mark.parametrize("number", NOT_NUMBERS)
@pytest.mark.parametrize(
    ("annotation", "nest", "path"),
    [
        (dict, lambda number: {"a": [1, {"b": number}]}, "$.value.a[1].b"),
        (dict[str, float], lambda number: {"a": 1.0, "b": number}, "$.value.b"),
        (tuple[float | None, ...], lambda number: (1.0, number), "$.value[1]"),
        (set[float], lambda number: {number}, "$.value[0]"),
        (Point, lambda number: Point(1, number), "$.value.y"),
        (dict, lambda number: {"a": {number: 1}}, "$.value.a"),
        (list[LookAlike], lambda number: [LookAlike(number)], "$.value[0].n"),
    ],
)
def test_b52_nan_and_infinity_are_refused_wherever_they_are(
    annotation: object, nest: Callable[[float], object], path: str, number: float
) -> None:
    with pytest.raises(PayloadError, match=str(number)) as refused:
        taking(annotation).encode({"value": nest(number)}, limit=MAX_PAYLOAD)

    assert refused.value.path == path


@pytest.mark.parametrize("number", NOT_NUMBERS)
def test_b52_a_result_of_nan_is_refused(number: float) -> None:
    with pytest.raises(PayloadError, match=str(number)) as refused:
        encode_json({"ratios": [1.0, number]}, limit=MAX_PAYLOAD)

    assert refused.value.path == "$.ratios[1]"


# What is in it, where, and what is said.
NO_TEXT = [
    ("x\0y", "$.value", r"U\+0000"),
    (["a", "\0"], "$.value[1]", r"U\+0000"),
    ({"a": {"b": "\\u0000\0"}}, "$.value.a.b", r"U\+0000"),
    ({"k\0": 1}, "$.value", r"its key 'k\\x00' has the character U\+0000"),
    ("\ud800", "$.value", r"surrogate U\+D800"),
    ({"a": ["ok", "x\udfffy"]}, "$.value.a[1]", r"surrogate U\+DFFF"),
    ({"a": {"\udcff": 1}}, "$.value.a", r"its key '\\udcff' has the lone surrogate"),
]


@pytest.mark.parametrize(("value", "path", "said"), NO_TEXT)
def test_b50_nul_and_lone_surrogates_are_refused(
    value: object, path: str, said: str
) -> None:
    with pytest.raises(PayloadError, match=said) as refused:
        taking(Any).encode({"value": value}, limit=MAX_PAYLOAD)

    assert refused.value.path == path


@pytest.mark.parametrize(("value", "path", "said"), NO_TEXT)
def test_b50_a_result_with_nul_or_lone_surrogates_is_refused(
    value: object, path: str, said: str
) -> None:
    with pytest.raises(PayloadError, match=said) as refused:
        encode_json({"value": value}, limit=MAX_PAYLOAD)

    assert refused.value.path == path


def test_b50_the_text_of_an_error_is_made_printable() -> None:
    text = "bad\0 \ud800\udfff good \U0001f600"

    assert storable(text) == "bad\ufffd \ufffd\ufffd good \U0001f600"
    assert encode_json(storable(text), limit=MAX_PAYLOAD)


def test_b50_the_six_characters_that_spell_nul_are_no_nul() -> None:
    value = {"\\u0000": ["\\u0000", "\\\\u0000"]}

    assert there_and_back(taking(dict), value) == value
    assert json.loads(encode_json(value, limit=MAX_PAYLOAD)) == value
