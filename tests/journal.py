"""
What happened in which process, written outside of the database.

Each process appends to a file of its own, one JSON line an event, with one write each:
what was written before a SIGKILL is there after it. Instants are of the machine's
monotonic clock, which all its processes share.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Record:
    """One event: when, in which process, what, and what belongs to it."""

    at: float
    process: str
    what: str
    of: Mapping[str, Any]


class Journal:
    """The file that one process writes, in the folder that all of them share."""

    def __init__(self, folder: Path, label: str) -> None:
        self.folder = folder
        self.label = label
        self.process = f"{label}-{os.getpid()}"
        self._file = os.open(
            folder / f"{self.process}.jsonl",
            os.O_WRONLY | os.O_CREAT | os.O_APPEND,
            0o600,
        )

    def record(self, what: str, **of: object) -> None:
        """Append an event; it is in the file when this returns."""
        line = {"at": time.monotonic(), "what": what, "of": of}
        os.write(self._file, json.dumps(line, default=str).encode() + b"\n")

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


class Gate:
    """What a handler waits at, in whatever process it runs, until a test opens it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / f"{name}.open"

    def open(self) -> None:
        """Let everybody pass, now and later."""
        self._path.touch()

    def is_open(self) -> bool:
        """Tell whether it is open."""
        return self._path.exists()

    async def passed(self) -> None:
        """Wait until it is open."""
        while not self.is_open():  # noqa: ASYNC110 - another process opens it
            await asyncio.sleep(0.01)  # and tells nobody


def read(folder: Path) -> list[Record]:
    """Read what all processes wrote so far, in the order it happened."""
    return sorted(
        (record for path in folder.glob("*.jsonl") for record in _read_file(path)),
        key=lambda record: record.at,
    )


def _read_file(path: Path) -> list[Record]:
    lines = path.read_bytes().split(b"\n")
    # What follows the last newline is empty, or the line in which a SIGKILL struck.
    return [
        Record(line["at"], path.stem, line["what"], line["of"])
        for line in map(json.loads, lines[:-1])
    ]
