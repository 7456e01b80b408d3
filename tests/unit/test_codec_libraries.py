"""Types of other libraries, which Rowlock itself never imports."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar
from uuid import UUID

import attrs
import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    SecretStr,
    computed_field,
)
from pydantic.dataclasses import dataclass

from rowlock._codec import Codec
from rowlock._errors import PayloadError
from rowlock._payload import MAX_PAYLOAD
from tests.unit.codec_values import taking, there_and_back

T = TypeVar("T")
NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    id: UUID
    at: datetime
    price: Decimal = Field(alias="unitPrice")
    tags: frozenset[str] = frozenset()

    @computed_field  # type: ignore[prop-decorator]  # as pydantic's manual says
    @property
    def label(self) -> str:
        return f"{self.id} at {self.price}"


class Loose(BaseModel):
    where: Path
    by_number: dict[int, float | None] = {}
    any: object = None


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")

    n: int

    @cached_property
    def double(self) -> int:
        return self.n * 2


class Page(BaseModel, Generic[T]):
    items: list[T]


class Numbers(RootModel[list[int]]):
    pass


class Login(BaseModel):
    password: SecretStr


class Derived(Loose):
    more: int = 1


@dataclass
class Checked:
    n: int
    at: datetime


@attrs.define
class Crate:
    size: float
    labels: list[str] = attrs.field(factory=list)


STRICT = Strict(id=UUID(int=1), at=NOW, unitPrice=Decimal("1.10"), tags=frozenset("ab"))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Strict, STRICT),
        (Loose, Loose(where=Path("/a"), by_number={1: None, 2: 0.5}, any=[1, "a"])),
        (dict[str, list[Strict] | None], {"a": [STRICT], "b": None}),
        (Page[int], Page[int](items=[1])),
        (Page[Strict], Page[Strict](items=[STRICT])),
        (Numbers, Numbers([1, 2])),
        (Open, Open.model_validate({"n": 1, "more": ["a"]})),
        (Checked, Checked(1, NOW)),
        (Crate, Crate(1.5, ["a"])),
    ],
)
def test_b54_a_model_comes_back_equal_and_of_its_type(
    annotation: object, value: object
) -> None:
    back = there_and_back(taking(annotation), value)

    assert type(back) is type(value)
    assert back == value


@pytest.mark.parametrize(
    ("annotation", "value", "path", "said"),
    [
        (object, STRICT, "$.value", "would come back as `dict`"),
        (Loose, {"where": "/a"}, "$.value", "`dict` and would come back as"),
        (Loose, Derived(where=Path("a")), "$.value", "Derived` and would come back as"),
        (Loose, Loose(where=Path("a"), any=(1,)), "$.value.any", "as `list`"),
        (
            list[Loose],
            [Loose(where=Path("a"), by_number={7: math.nan})],
            "$.value[0].by_number['7']",
            "it is nan",
        ),
        (Loose, Loose(where=Path("a"), any="\0"), "$.value.any", "U+0000"),
        (Loose, Loose(where=Path("a"), any=["\ud800"]), "$.value.any[0]", "U+D800"),
        (
            Checked,
            Checked(1, NOW.replace(tzinfo=None)),
            "$.value.at",
            "no time zone",
        ),
        (
            Open,
            Open.model_validate({"n": 1, "more": (1,)}),
            "$.value.more",
            "as `list`",
        ),
        (Login, Login(password=SecretStr("x")), "$.value.password", "come back equal"),
        (Crate, Crate(math.inf), "$.value.size", "it is inf"),
        (Crate, Crate("x"), "$.value.size", "expected `float`, got `str`"),  # type: ignore[arg-type]  # the case
    ],
)
def test_b54_what_a_model_would_change_is_refused_with_its_path(
    annotation: object, value: object, path: str, said: str
) -> None:
    with pytest.raises(PayloadError) as refused:
        taking(annotation).encode({"value": value}, limit=MAX_PAYLOAD)

    assert refused.value.path == path
    assert said in str(refused.value)


def test_a_model_is_stored_as_it_takes_its_input() -> None:
    text = taking(Strict).encode({"value": STRICT}, limit=MAX_PAYLOAD)

    assert json.loads(text)["value"].keys() == {"id", "at", "unitPrice", "tags"}


def test_what_a_model_has_cached_is_no_part_of_it() -> None:
    value = Open(n=2)

    assert value.double == 4
    assert there_and_back(taking(Open), value) == Open(n=2)


def test_what_a_model_complains_of_is_said_without_the_value() -> None:
    codec = taking(dict[str, Page[int]])

    with pytest.raises(PayloadError) as refused:
        codec.decode('{"value":{"a":{"items":[1]},"b":{"items":[1,"secret"]}}}')

    assert refused.value.path == "$.value.b"
    assert "input should be a valid integer" in str(refused.value)
    assert "(`items.1`)" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_importing_the_codec_imports_neither_pydantic_nor_attrs() -> None:
    program = (
        "import sys, rowlock._codec\n"
        "print(sorted({'pydantic', 'attrs', 'attr'} & sys.modules.keys()))"
    )

    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert told.stdout == "[]\n"


def test_a_task_of_models_takes_positional_arguments_too() -> None:
    def handler(page: Page[int], crate: Crate) -> None: ...

    codec = Codec(handler)
    arguments = codec.bind((Page[int](items=[]), Crate(1.0)), {})

    assert codec.decode(codec.encode(arguments, limit=MAX_PAYLOAD)) == arguments
