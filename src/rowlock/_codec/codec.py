"""
Arguments and results as JSON, by the handler's annotations, both ways.

A codec is made once per task, when it is registered. What wouldn't reach the handler
equal and of the same type is refused when it is enqueued, with the path of the
culprit; so is what one store would take and another not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from rowlock._codec.complaint import misfit
from rowlock._codec.faults import Fault, difference, segment, shortened, unstorable
from rowlock._codec.parameters import read_parameters
from rowlock._codec.pydantic_models import from_json, to_json
from rowlock._errors import PayloadError

_encoder = msgspec.json.Encoder(enc_hook=to_json)
_plain = msgspec.json.Decoder()


class Codec:
    """
    How one task's arguments are stored.

        >>> def greet(name: str, times: int = 1) -> None: ...
        >>> codec = Codec(greet)
        >>> codec.encode(codec.bind(("Ada",), {}), limit=1000)
        '{"name":"Ada"}'
    """

    def __init__(
        self, function: Callable[..., object], *, name: str | None = None
    ) -> None:
        """
        Read the function's signature; `name` is the task's, where it has another.

        Raises:
            InvalidTask: this function can't be a task; the message says what to change.
        """
        parameters = read_parameters(function)
        self._task = name or function.__name__
        self._signature = parameters.signature
        self._names = parameters.signature.parameters.keys()
        self._required = parameters.required
        self._zoned = parameters.zoned
        self._decoder = msgspec.json.Decoder(parameters.kind, dec_hook=from_json)

    def bind(
        self, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> dict[str, object]:
        """
        Name the arguments of a call, as calling the function would; no defaults.

            >>> Codec(lambda a, b=2: None).bind((1,), {})
            {'a': 1}
        """
        if not args and self._required <= kwargs.keys() <= self._names:
            return dict(kwargs)
        try:
            return dict(self._signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            msg = f"{self._task}() {error}"
            raise TypeError(msg) from None

    def encode(self, arguments: Mapping[str, object], *, limit: int) -> str:
        """
        Write arguments as JSON text of at most `limit` bytes of UTF-8.

        Raises:
            PayloadError: they can't be stored, don't fit the handler, or wouldn't
                come back equal and of the same type.
        """

        def read(data: bytes) -> dict[str, object]:
            back = self._decoder.decode(data)
            return {name: getattr(back, name) for name in arguments}

        written = _write(dict(arguments), read, limit)
        if isinstance(written, str):
            return written
        if written.is_misfit:
            raise self._misfit(written) from written.cause
        remedy = f", or annotate it as `{written.wanted}`" if written.wanted else ""
        where = f"can't be stored for task {self._task!r}"
        raise _refusal(written, where, remedy) from written.cause

    def decode(self, payload: str) -> dict[str, object]:
        """
        Read keyword arguments for the handler from JSON text.

        A parameter that is missing and has a default is left to the handler.

        Raises:
            PayloadError: an argument is missing, unknown, or doesn't fit.

            >>> Codec(lambda a, b=2: None).decode('{"a":1}')
            {'a': 1}
        """
        try:
            found = self._decoder.decode(payload)
        except Exception as error:
            # A model's code may raise anything.
            fault = misfit(payload, error, self._decoder.decode)
            raise self._misfit(fault) from error
        arguments = {
            name: value
            for name in self._names
            if (value := getattr(found, name)) is not msgspec.UNSET
        }
        if self._zoned and (naive := unstorable(arguments)):
            raise self._misfit(naive)
        return arguments

    def _misfit(self, fault: Fault) -> PayloadError:
        return _refusal(fault, f"doesn't fit the handler of task {self._task!r}")


def encode_json(value: object, *, limit: int) -> str:
    """
    Write a result, state, progress or meta as JSON text of at most `limit` bytes.

    Raises:
        PayloadError: it can't be stored, or wouldn't come back equal and of the same
            type.

        >>> encode_json({"sent": 3}, limit=1000)
        '{"sent":3}'
    """
    written = _write(value, _plain.decode, limit)
    if isinstance(written, str):
        return written
    raise _refusal(written, "can't be stored") from written.cause


def _write(value: object, read: Callable[[bytes], object], limit: int) -> str | Fault:
    try:
        data = _encoder.encode(value)
    except Exception as error:  # noqa: BLE001 - a model's code may raise anything
        fault = unstorable(value) or Fault(f"it can't be written as JSON ({error})")
        return fault.because(error)
    if len(data) > limit:
        return _too_large(value, len(data), limit)
    try:
        back = read(data)
    except Exception as error:  # noqa: BLE001 - the same
        # NaN was written as null, so what msgspec finds may not be what was given.
        fault = unstorable(value) or misfit(data, error, read)
        return fault.because(error)
    found = difference(value, back)
    # A backslash before `u0000` looks the same in these bytes, and is harmless.
    if found is None and b"\\u0000" in data:
        found = unstorable(_plain.decode(data))
    return found or data.decode()


def _too_large(value: object, size: int, limit: int) -> Fault:
    problem = (
        f"it makes {size:,} bytes of JSON, and max_payload is {limit:,}: keep it"
        " elsewhere and pass where it is, or raise max_payload"
    )
    if not isinstance(value, dict):
        return Fault(problem)
    largest = max(value, key=lambda name: len(_encoder.encode(value[name])))
    return Fault(problem, segment(largest))


def _refusal(fault: Fault, where: str, remedy: str = "") -> PayloadError:
    path = f"${fault.path}"
    msg = f"`{shortened(path)}` {where}: {fault.problem}{remedy}."
    return PayloadError(msg, path=path)
