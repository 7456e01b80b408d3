"""Handlers, types and the one comparison that the codec's tests share."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any, NamedTuple, NotRequired, Self, TypedDict
from uuid import UUID

import msgspec

from rowlock._codec import Codec
from rowlock._payload import MAX_PAYLOAD


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


class Channel(StrEnum):
    MAIL = "mail"
    POST = "post"


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Address(TypedDict):
    street: str
    number: NotRequired[int]


@dataclasses.dataclass
class Line:
    sku: str
    price: Decimal
    tags: set[str] = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class Order:
    id: UUID
    at: datetime
    lines: list[Line]
    colour: Colour = Colour.RED


@dataclasses.dataclass(eq=False)
class WithoutEquality:
    value: float


class Tree(msgspec.Struct):
    value: int
    children: list[Tree] = []


class Renamed(msgspec.Struct, rename="camel", omit_defaults=True, tag=True):
    first_name: str
    last_name: str | msgspec.UnsetType = msgspec.UNSET


class LookAlike:
    """A model by its methods alone, as pydantic's are known."""

    def __init__(self, n: object) -> None:
        if n == "broken":
            msg = "it is broken"
            raise ValueError(msg)
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LookAlike) and self.n == other.n

    __hash__ = None  # type: ignore[assignment]  # as pydantic's

    def model_dump(self, **_: object) -> dict[str, object]:
        return {"n": self.n}

    def model_dump_json(self, **_: object) -> str:
        return msgspec.json.encode({"n": self.n}).decode()

    @classmethod
    def model_validate(cls, value: dict[str, Any]) -> Self:
        return cls(**value)

    @classmethod
    def model_validate_json(cls, text: bytes) -> Self:
        return cls.model_validate(msgspec.json.decode(text))


class Forgetful(LookAlike):
    """A model that reads the last of its items away, and adds one of its own."""

    @classmethod
    def model_validate(cls, value: dict[str, Any]) -> Self:
        match value["n"]:
            case list() as items:
                return cls(items[:-1])
            case dict() as entries:
                return cls({**entries, "more": 1})
            case other:
                return cls(other + 1)


def taking(annotation: object) -> Codec:
    """Make the codec of a handler whose one parameter has this annotation."""

    def handler(value: object) -> None: ...

    handler.__annotations__["value"] = annotation
    return Codec(handler)


def there_and_back(codec: Codec, value: object) -> object:
    return codec.decode(codec.encode({"value": value}, limit=MAX_PAYLOAD))["value"]


def exactly(value: object) -> object:
    """Spell a value out with the type of each part, so that `==` compares both."""
    parts: object = value
    match value:
        case dict():
            parts = [(exactly(key), exactly(part)) for key, part in value.items()]
        case set() | frozenset():
            parts = frozenset((type(part), part) for part in value)
        case list() | tuple():
            parts = [exactly(part) for part in value]
        case msgspec.Struct():
            parts = exactly(msgspec.structs.asdict(value))
        case Order() | Line():
            parts = exactly(vars(value))
        case datetime():
            parts = value.replace(tzinfo=None), value.utcoffset()
    return type(value), parts
