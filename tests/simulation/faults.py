"""Faults to plant, one at a time, that the simulation has to find."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Have a fault while the block runs."""
    yield
