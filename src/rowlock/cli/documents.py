"""
What `--json` and `--jsonl` print: the values of the API as JSON, under their own names.

Instants are ISO-8601 in UTC, durations seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import click

from rowlock._durations import iso


class Output(NamedTuple):
    """In which form a command prints: for people, unless one of these is asked for."""

    as_json: bool
    as_jsonl: bool

    def prints(self, whole: object, lines: Iterable[object] | None = None) -> bool:
        """
        Print `whole` as one document, or each of `lines` as one, where that is asked.

        Without `lines` the whole is one line. False: it is to be printed for people.
        """
        if self.as_json:
            click.echo(json.dumps(plain(whole), indent=2))
        elif self.as_jsonl:
            for line in [whole] if lines is None else lines:
                click.echo(json.dumps(plain(line), separators=(",", ":")))
        return self.as_json or self.as_jsonl


def plain(value: object) -> object:
    """
    Turn a value of the API into what JSON has.

        >>> plain({"after": timedelta(minutes=1), "ids": (1, 2)})
        {'after': 60.0, 'ids': [1, 2]}
    """
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def fields_of(value: object) -> dict[str, object]:
    """Give a value of the API by its fields, so that a command can add some."""
    told = plain(value)
    return dict(told) if isinstance(told, dict) else {}
