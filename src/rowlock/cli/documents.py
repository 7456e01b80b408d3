"""
What `--json` prints: the values of the API as JSON, under their own names.

Instants are ISO-8601 in UTC, durations seconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta

import click

from rowlock._durations import iso


def print_json(value: object) -> None:
    """Print one document, indented."""
    click.echo(json.dumps(plain(value), indent=2))


def print_json_line(value: object) -> None:
    """Print one document on one line."""
    click.echo(json.dumps(plain(value), separators=(",", ":")))


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
