"""Which functions can be tasks, and what is said of the others."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import msgspec
import pytest

from rowlock._codec import Codec
from rowlock._errors import ConfigError, InvalidTask
from rowlock._payload import MAX_PAYLOAD
from tests.unit.codec_values import Colour, Order, Size, taking

if TYPE_CHECKING:
    from fractions import Fraction

P = ParamSpec("P")
R = TypeVar("R")


def positional(order_id: int, /) -> None: ...


def starred(*orders: int) -> None: ...


def double_starred(**options: int) -> None: ...


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


def dunder(__order: int) -> None: ...  # noqa: PYI063 - the case


def unresolved(order_id: int, share: Fraction) -> None: ...


def unsigned() -> None: ...


unsigned.__signature__ = "none"  # type: ignore[attr-defined]  # the case


class Shop:
    def send(self, order_id: int) -> None: ...

    @classmethod
    def make(cls) -> None: ...

    @staticmethod
    def total(order_id: int) -> None: ...

    def __call__(self) -> None: ...


def opaque(function: Callable[..., R]) -> Callable[..., R]:
    def wrapper(*args: object, **kwargs: object) -> R:
        return function(*args, **kwargs)

    return wrapper


def logged(function: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    return wrapper


@logged
def wrapped(order: Order, day: date | None = None) -> None: ...


NOT_TASKS: list[tuple[Any, str]] = [
    (positional, "positional can't be a task: its parameter `order_id` is positional"),
    (starred, "starred can't be a task: its parameter `*orders` takes any number"),
    (double_starred, "its parameter `**options` takes arguments of any name"),
    (generator, "it is a generator"),
    (async_generator, "it is a generator"),
    (dunder, "begins with two underscores"),
    (Shop, "Shop can't be a task: it is a class"),
    (Shop().send, "Shop.send can't be a task: it is a method"),
    (Shop.send, "it is a method of Shop: write a function outside the class"),
    (logged(Shop.send), "it is a method of Shop"),
    (Shop.make, "it is a method"),
    (Shop.__dict__["make"], "it is `classmethod`"),
    (Shop.__dict__["total"], "it is `staticmethod`"),
    (Shop(), "Shop`: write a function that calls it"),
    (functools.partial(positional, 1), "it is `functools.partial`"),
    (functools.cache(wrapped), "it is `functools._lru_cache_wrapper`"),
    (print, "builtins.print can't be a task: it is `builtin_function_or_method`"),
    (opaque(wrapped), "needs functools.wraps"),
    (unresolved, "the annotation of `share` can't be resolved (name 'Fraction'"),
    (unsigned, "its signature can't be read"),
    (3, "3 can't be a task: it is `int`"),
]


@pytest.mark.parametrize(("function", "said"), NOT_TASKS)
def test_what_cannot_be_a_task_is_refused_with_its_name_and_the_remedy(
    function: Callable[..., object], said: str
) -> None:
    with pytest.raises(InvalidTask) as refused:
        Codec(function)

    assert said in str(refused.value)
    assert isinstance(refused.value, ConfigError)


@dataclasses.dataclass
class WithPath:
    where: Path


@dataclasses.dataclass
class WithInit:
    seed: dataclasses.InitVar[int]


@dataclasses.dataclass
class Broken:
    other: Missing  # type: ignore[name-defined]  # noqa: F821 - the case


class Loop(msgspec.Struct):
    again: list[Loop]
    by_number: dict[int, str]


NOT_STORED: list[tuple[object, str]] = [
    (Path, "has the type `pathlib.Path`"),
    (list[Path | None], "has the type `pathlib.Path`"),
    (WithPath, "has the type `pathlib.Path`"),
    (dict[str, tuple[WithPath, ...]], "has the type `pathlib.Path`"),
    (complex, "has the type `complex`"),
    (Callable[[], None], "has the type `collections.abc.Callable`"),
    (Iterator[int], "has the type `collections.abc.Iterator`"),
    (dict[int, str], "keys aren't strings"),
    (dict[Colour, str], "keys aren't strings"),
    (dict[Size, str], "keys aren't strings"),
    (list[dict[str, dict[date, int]]], "keys aren't strings"),
    (Loop, "keys aren't strings"),
    (str | datetime, "may not contain more than one str-like type"),
    (list[int] | set[int], "may not contain more than one array-like"),
    (Path | int, "union"),
    (msgspec.Raw, "isn't checked"),
    (Annotated[datetime, msgspec.Meta(tz=False)], "leave out `tz=False`"),
    (WithInit, "InitVar"),
    (Broken, "name 'Missing' is not defined"),
]


@pytest.mark.parametrize(("annotation", "said"), NOT_STORED)
def test_an_annotation_that_json_cannot_carry_is_refused_at_registration(
    annotation: object, said: str
) -> None:
    with pytest.raises(InvalidTask, match="its parameter `value`") as refused:
        taking(annotation)

    assert "handler can't be a task" in str(refused.value)
    assert said in str(refused.value)


def test_a_wrapped_function_is_read_as_the_one_inside() -> None:
    codec = Codec(wrapped)
    text = '{"order":{"id":"%s","at":"2026-01-01T00:00:00Z","lines":[]}}'

    found = codec.decode(text % "00000000-0000-0000-0000-000000000007")

    assert isinstance(found["order"], Order)
    assert codec.encode(found, limit=MAX_PAYLOAD)


def test_a_function_that_wraps_a_partial_is_a_task() -> None:
    @functools.wraps(functools.partial(wrapped, day=date(2026, 1, 2)))
    def handler(order: Order, day: date) -> None: ...

    handler.__name__ = "handler"

    assert Codec(handler).bind((1,), {}) == {"order": 1}


def test_a_coroutine_function_is_read_like_a_plain_one() -> None:
    async def handler(day: date) -> None: ...

    assert Codec(handler).decode('{"day":"2026-01-02"}') == {"day": date(2026, 1, 2)}


def test_annotations_that_are_no_text_are_read_too() -> None:
    def handler(day: object, n: int = 1) -> None: ...

    handler.__annotations__ = {"day": date}

    assert Codec(handler).decode('{"day":"2026-01-02"}') == {"day": date(2026, 1, 2)}


def test_what_a_handler_returns_need_not_be_known() -> None:
    def handler(n: int) -> Fraction: ...  # type: ignore[empty-body]  # never called

    assert Codec(handler).decode('{"n":1}') == {"n": 1}


def test_a_static_method_and_a_function_of_a_function_are_tasks() -> None:
    def inner(self: int) -> None: ...

    assert Codec(Shop.total).decode('{"order_id":1}') == {"order_id": 1}
    assert Codec(inner).decode('{"self":1}') == {"self": 1}


def test_a_parameter_may_have_any_other_name() -> None:
    def handler(_: int, cls: int, mro: int, ünï: int, type: int) -> None: ...  # noqa: A002, PLC2401 - the case

    arguments = {"_": 1, "cls": 2, "mro": 3, "ünï": 4, "type": 5}

    codec = Codec(handler)
    assert codec.decode(codec.encode(arguments, limit=MAX_PAYLOAD)) == arguments


def test_a_decorator_that_changes_what_is_returned_changes_no_parameter() -> None:
    @contextlib.contextmanager
    def handler(n: int) -> Iterator[int]:
        yield n

    assert Codec(handler).bind((1,), {}) == {"n": 1}
