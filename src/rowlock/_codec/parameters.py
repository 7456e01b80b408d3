"""
A handler's parameters, as the type of its payload.

What could not be enqueued, or would reach the handler as something else, is refused
when the task is registered: the message names the function, the parameter and the
remedy.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any, get_type_hints

import msgspec
from msgspec import inspect as types

from rowlock._codec.faults import name_of
from rowlock._codec.pydantic_models import from_json, is_model
from rowlock._errors import InvalidTask


@dataclass(frozen=True, slots=True)
class Parameters:
    """
    What a handler takes.

    `kind` is a struct with a field a parameter; where that is missing and has a
    default, the field is UNSET. `zoned` tells whether a datetime is anywhere in it.
    """

    signature: inspect.Signature
    kind: type[msgspec.Struct]
    required: frozenset[str]
    zoned: bool


def read_parameters(function: Callable[..., object]) -> Parameters:
    """
    Read a handler's signature.

    Raises:
        InvalidTask: this function can't be a task; the message says what to change.
    """
    _check_function(function)
    signature = _signature(function)
    _check_owner(function, signature)
    fields: list[tuple[str, Any, Any]] = []
    kinds: list[types.Type] = []
    for parameter in signature.parameters.values():
        _check_parameter(function, parameter)
        annotation = _annotation(function, parameter)
        kinds.extend(_checked_kinds(function, parameter, annotation))
        default = (
            msgspec.NODEFAULT
            if parameter.default is inspect.Parameter.empty
            else msgspec.UNSET
        )
        fields.append((parameter.name, annotation, default))
    return Parameters(
        signature=signature,
        kind=msgspec.defstruct(
            "Arguments", fields, kw_only=True, forbid_unknown_fields=True
        ),
        required=frozenset(
            name for name, _, default in fields if default is msgspec.NODEFAULT
        ),
        zoned=any(isinstance(kind, types.DateTimeType) for kind in kinds),
    )


def _check_function(function: Callable[..., object]) -> None:
    if inspect.isclass(function):
        raise _refusal(function, "it is a class: write a function that uses it")
    if inspect.ismethod(function):
        raise _refusal(function, "it is a method: write a function that calls it")
    # Not callable objects and partials: they have no name of their own to be found by.
    if not inspect.isfunction(function):
        problem = f"it is `{name_of(type(function))}`: write a function that calls it"
        raise _refusal(function, problem)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        problem = "it is a generator, which nobody would iterate: return a value"
        raise _refusal(function, problem)


def _signature(function: Callable[..., object]) -> inspect.Signature:
    try:
        if sys.version_info >= (3, 14):
            from annotationlib import Format  # noqa: PLC0415 - new in 3.14

            # Only the parameters' annotations must be known, not the return's.
            return inspect.signature(function, annotation_format=Format.FORWARDREF)
        return inspect.signature(function)
    except (TypeError, ValueError, NameError) as error:
        raise _refusal(function, f"its signature can't be read ({error})") from error


def _check_owner(function: Callable[..., object], signature: inspect.Signature) -> None:
    # A function of a class's body is told from one of a function's body by its
    # qualified name, and from a static method by its first parameter.
    owner = function.__qualname__.rpartition(".")[0]
    first = next(iter(signature.parameters), None)
    if owner and not owner.endswith("<locals>") and first in ("self", "cls"):
        problem = f"it is a method of {owner}: write a function outside the class"
        raise _refusal(function, problem)


def _check_parameter(
    function: Callable[..., object], parameter: inspect.Parameter
) -> None:
    match parameter.kind:
        case inspect.Parameter.POSITIONAL_ONLY:
            problem = "is positional-only, and arguments are stored by name: remove `/`"
        case inspect.Parameter.VAR_POSITIONAL:
            problem = (
                "takes any number of arguments, and they are stored by name: take one"
                " list instead (a decorator's wrapper needs functools.wraps)"
            )
        case inspect.Parameter.VAR_KEYWORD:
            problem = (
                "takes arguments of any name, so that a wrong one is never noticed:"
                " name each, or take one dict instead (a decorator's wrapper needs"
                " functools.wraps)"
            )
        case _ if parameter.name.startswith("__"):
            problem = "begins with two underscores, which Python keeps: rename it"
        case _:
            return
    shown = parameter.replace(
        annotation=inspect.Parameter.empty, default=inspect.Parameter.empty
    )
    raise _refusal(function, f"its parameter `{shown}` {problem}")


def _annotation(
    function: Callable[..., object], parameter: inspect.Parameter
) -> object:
    if parameter.annotation is inspect.Parameter.empty:
        return Any
    unwrapped = inspect.unwrap(function)
    known = getattr(unwrapped, "__globals__", function.__globals__)
    # One at a time, so that the message can name the parameter.
    holder = FunctionType(_annotation.__code__, known)
    holder.__annotations__ = {"it": parameter.annotation}
    if sys.version_info >= (3, 12):
        holder.__type_params__ = getattr(unwrapped, "__type_params__", ())
    try:
        return get_type_hints(holder, include_extras=True)["it"]
    except Exception as error:
        # An annotation is code of the user's, and may raise anything.
        problem = (
            f"the annotation of `{parameter.name}` can't be resolved ({error}): import"
            " the name at run time, or define it at the top of its module"
        )
        raise _refusal(function, problem) from error


def _checked_kinds(
    function: Callable[..., object], parameter: inspect.Parameter, annotation: object
) -> list[types.Type]:
    try:
        msgspec.json.Decoder(annotation, dec_hook=from_json)
        msgspec.defstruct("Arguments", [(parameter.name, annotation)])
        kinds = list(_kinds(types.type_info(annotation), set()))
    except Exception as error:
        # msgspec reads classes of the user's, whose annotations may raise anything.
        problem = f"its parameter `{parameter.name}` can't be stored: {error}"
        raise _refusal(function, problem) from error
    for kind in kinds:
        fault = _kind_fault(kind)
        if fault:
            problem = f"its parameter `{parameter.name}` has {fault}"
            raise _refusal(function, problem)
    return kinds


def _kinds(kind: object, seen: set[int]) -> Iterator[types.Type]:
    """Walk a type and all that is inside it, each once, as types may be recursive."""
    if isinstance(kind, tuple):
        for part in kind:
            yield from _kinds(part, seen)
    elif isinstance(kind, types.Field):
        yield from _kinds(kind.type, seen)
    elif isinstance(kind, types.Type) and id(kind) not in seen:
        seen.add(id(kind))
        yield kind
        for name in kind.__struct_fields__:
            yield from _kinds(getattr(kind, name), seen)


def _kind_fault(kind: types.Type) -> str | None:
    match kind:
        case types.CustomType(cls=cls) if not (is_model(cls) or cls is object):
            return (
                f"the type `{name_of(cls)}`, which JSON can't carry: take what it is"
                " made of (str, int, list, a dataclass ...), and make it in the handler"
            )
        case types.RawType() | types.ExtType():
            return "a type of msgspec that isn't checked: annotate what is inside"
        case types.DictType(key_type=key) if not _is_text(key):
            return (
                "a dict whose keys aren't strings, as they are in JSON: annotate them"
                " as str, or take a list of pairs"
            )
        case types.DateTimeType(tz=False):
            return "a datetime that is refused a time zone: leave out `tz=False`"
        case _:
            return None


def _is_text(key: types.Type) -> bool:
    match key:
        case types.AnyType() | types.StrType():
            return True
        case types.EnumType(cls=cls):
            return issubclass(cls, str)
        case types.LiteralType(values=values):
            return all(isinstance(value, str) for value in values)
        case types.Metadata(type=inner):
            return _is_text(inner)
        case _:
            return False


def _refusal(function: Callable[..., object], problem: str) -> InvalidTask:
    name = getattr(function, "__qualname__", None) or repr(function)
    where = getattr(function, "__module__", None)
    whole = f"{where}.{name}" if where else name
    msg = f"{whole} can't be a task: {problem}."
    return InvalidTask(msg)
