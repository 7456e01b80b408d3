"""How a call is bound, and a stored payload read by a handler that may have changed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import pytest

from rowlock._codec import Codec
from rowlock._errors import PayloadError
from rowlock._payload import MAX_PAYLOAD
from tests.unit.codec_values import LookAlike, Order, taking


def send(order_id: int, note: str = "none", *, urgent: bool = False) -> None: ...


SEND = Codec(send)


@pytest.mark.parametrize(
    ("args", "kwargs", "bound"),
    [
        ((), {"order_id": 1}, {"order_id": 1}),
        ((1,), {}, {"order_id": 1}),
        ((1, "x"), {"urgent": True}, {"order_id": 1, "note": "x", "urgent": True}),
        ((), {"urgent": True, "order_id": 1}, {"order_id": 1, "urgent": True}),
    ],
)
def test_a_call_is_bound_by_name_without_defaults(
    args: tuple[object, ...], kwargs: dict[str, object], bound: dict[str, object]
) -> None:
    assert SEND.bind(args, kwargs) == bound


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, r"^send\(\) missing a required argument: 'order_id'$"),
        ((), {"order_id": 1, "q": 2}, r"^send\(\) got an unexpected keyword argument"),
        ((1,), {"order_id": 2}, r"^send\(\) multiple values for argument 'order_id'$"),
        ((1, "x", True), {}, r"^send\(\) too many positional arguments$"),
    ],
)
def test_a_wrong_call_raises_as_calling_the_function_would(
    args: tuple[object, ...], kwargs: dict[str, object], said: str
) -> None:
    with pytest.raises(TypeError, match=r"send\(\)"):
        send(*args, **kwargs)  # type: ignore[arg-type]  # the case

    with pytest.raises(TypeError, match=said):
        SEND.bind(args, kwargs)


def test_what_is_bound_may_be_encoded_in_any_order() -> None:
    text = SEND.encode({"urgent": True, "order_id": 1}, limit=MAX_PAYLOAD)

    assert SEND.decode(text) == {"order_id": 1, "urgent": True}


def test_a_default_is_left_to_the_handler_that_runs() -> None:
    assert SEND.decode('{"order_id": 1}') == {"order_id": 1}


def test_a_handler_without_parameters_takes_an_empty_payload() -> None:
    codec = Codec(lambda: None)

    assert codec.encode({}, limit=MAX_PAYLOAD) == "{}"
    assert codec.decode("{}") == {}


@pytest.mark.parametrize(
    ("payload", "path", "said"),
    [
        ("{}", "$.order_id", "it is missing"),
        ('{"order_id": 1, "q": 2}', "$.q", "there is no such parameter"),
        ('{"order_id": "1"}', "$.order_id", "expected `int`, got `str`"),
        ('{"order_id": 1, "note": null}', "$.note", "expected `str`, got `null`"),
        ("[]", "$", "expected `object`, got `array`"),
        ("{", "$", "it isn't JSON"),
        ('{"order_id": NaN}', "$", "it isn't JSON"),
        ("", "$", "it isn't JSON"),
        ('{"order_id": 1, "note": "\ud800"}', "$", "UnicodeEncodeError"),
    ],
)
def test_a_payload_that_does_not_fit_names_the_path_and_the_task(
    payload: str, path: str, said: str
) -> None:
    with pytest.raises(PayloadError) as refused:
        Codec(send, name="shop.send").decode(payload)

    assert refused.value.path == path
    assert said in str(refused.value)
    assert f"`{path}` doesn't fit the handler of task 'shop.send'" in str(refused.value)


def test_arguments_that_are_missing_are_refused_when_enqueued_too() -> None:
    with pytest.raises(PayloadError, match=r"task 'shop\.send': it is missing"):
        Codec(send, name="shop.send").encode({}, limit=MAX_PAYLOAD)


def test_a_payload_that_is_nested_too_deeply_for_python_is_refused() -> None:
    with pytest.raises(PayloadError, match="nested too deeply"):
        taking(Any).decode('{"value": ' + "[" * 100_000)


def test_a_misfit_deep_in_a_payload_has_its_whole_path() -> None:
    codec = taking(dict[str, list[Order]])
    line = '{"sku": "a", "price": 1}'
    order = '{"id": "%s", "at": "2026-01-01T00:00:00Z", "lines": [%s]}'
    good = order % ("00000000-0000-0000-0000-000000000007", line)
    bad = order % ("00000000-0000-0000-0000-000000000007", f'{line}, {{"sku": "b"}}')

    with pytest.raises(PayloadError, match="it is missing") as refused:
        codec.decode(f'{{"value": {{"a": [{good}], "b c": [{good}, {bad}]}}}}')

    assert refused.value.path == "$.value['b c'][1].lines[1].price"


def test_a_field_that_nobody_knows_is_named() -> None:
    with pytest.raises(PayloadError, match="expected `object`, got `int`") as refused:
        taking(dict[str, dict[str, Order]]).decode('{"value":{"a":{},"b":{"c":1}}}')

    assert refused.value.path == "$.value.b.c"


def test_a_stored_datetime_without_a_zone_is_refused() -> None:
    codec = taking(list[datetime | None])

    with pytest.raises(PayloadError, match="no time zone") as refused:
        codec.decode('{"value": [null, "2026-01-01T00:00:00"]}')

    assert refused.value.path == "$.value[1]"


def test_a_path_whose_names_have_dots_keeps_what_msgspec_said() -> None:
    class Dotted(msgspec.Struct, rename={"n": "a.n"}):
        n: int

    with pytest.raises(PayloadError, match="expected `int`, got `str`") as refused:
        taking(dict[str, Dotted]).decode('{"value": {"k": {"a.n": "x"}}}')

    assert refused.value.path == "$.value[...].a.n"


def test_what_a_model_says_is_told_with_its_path() -> None:
    with pytest.raises(PayloadError, match="it is broken") as refused:
        taking(list[LookAlike]).decode('{"value": [{"n": 1}, {"n": "broken"}]}')

    assert refused.value.path == "$.value[1]"


def test_what_a_type_of_the_users_raises_becomes_a_refusal() -> None:
    class Fussy:
        def model_dump(self) -> None: ...
        def model_dump_json(self, **_: object) -> str:
            return "{}"

        @classmethod
        def model_validate(cls, _: object) -> None: ...
        @classmethod
        def model_validate_json(cls, _: bytes) -> None:
            raise KeyError(cls.__name__)

    codec = taking(Fussy)

    with pytest.raises(PayloadError, match="raised KeyError: 'Fussy'") as refused:
        codec.decode('{"value": {}}')
    assert isinstance(refused.value.__cause__, KeyError)
    with pytest.raises(PayloadError, match="raised KeyError: 'Fussy'"):
        codec.encode({"value": Fussy()}, limit=MAX_PAYLOAD)
