"""
Pydantic's models, known by their methods: Rowlock never imports pydantic.

Their own JSON is used in both directions, since a strict model reads a datetime or a
UUID from JSON text only.
"""

from __future__ import annotations

from typing import Any

import msgspec


def is_model(kind: object) -> bool:
    """Tell a model's class, of pydantic 2 or of the same methods."""
    return isinstance(kind, type) and all(
        callable(getattr(kind, name, None))
        for name in (
            "model_dump",
            "model_dump_json",
            "model_validate",
            "model_validate_json",
        )
    )


def contents(model: Any) -> dict[str, object]:  # noqa: ANN401 - any model
    """Tell a model's fields, without what it has cached beside them."""
    if not hasattr(type(model), "model_fields"):
        return dict(vars(model))
    fields = {name: getattr(model, name) for name in type(model).model_fields}
    return fields | (model.model_extra or {})


def to_json(value: Any) -> msgspec.Raw:  # noqa: ANN401 - msgspec hands over anything
    """Write a model, as msgspec's `enc_hook`."""
    if not is_model(type(value)):
        msg = f"Encoding objects of type {type(value).__qualname__} is unsupported"
        raise TypeError(msg)
    # By alias and without computed fields: what the model itself takes as input.
    text = value.model_dump_json(by_alias=True, round_trip=True)
    return msgspec.Raw(text.encode())


def from_json(kind: Any, value: object) -> object:  # noqa: ANN401 - the same
    """Read a model, as msgspec's `dec_hook`."""
    # `object` is what careful people write for Any; msgspec takes it for a class.
    if kind is object:
        return value
    try:
        return kind.model_validate_json(msgspec.json.encode(value))
    except ValueError as error:
        raise ValueError(_first_complaint(error)) from error


def _first_complaint(error: Any) -> str:  # noqa: ANN401 - pydantic's, if it is
    """Say what a model complains of first, without the value, which may be private."""
    if not hasattr(error, "errors"):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(step) for step in first["loc"])
    return f"{first['msg']} (`{where}`)" if where else str(first["msg"])
