"""
Clocks that are wrong, by libfaketime: Debian's package `faketime`.

The offset stands in a file that a process reads once a second, so it can be set while
the process runs. The monotonic clock stays right, as it does where a
machine's time is corrected.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path

PLACES = ("/usr/lib/*/faketime", "/usr/lib/faketime", "/usr/lib64/faketime")
NONE = (
    "libfaketime isn't here, so no clock is wrong in this run: install it (Debian:"
    " faketime)."
)


def faketime() -> Path | None:
    """Find libfaketime for programs with threads; None: it isn't here."""
    for place in PLACES:
        for found in Path("/").glob(f"{place.lstrip('/')}/libfaketimeMT.so.1"):
            return found
    return None


class Clock:
    """The wall clock of some processes; right until it is set."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._library = faketime()
        self.set(0)

    def set(self, offset_s: float) -> None:
        """Have it be wrong by so many seconds."""
        # In one step: one that is read half written would be another offset.
        written = self._file.with_suffix(".new")
        written.write_text(f"{offset_s:+.2f}\n")
        written.rename(self._file)

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process needs to have this clock; empty without the library."""
        if self._library is None:
            return {}
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            # Seconds; read at each look, the file would cost more than all else.
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # Of processes that are killed they would stay behind.
            "FAKETIME_DISABLE_SHM": "1",
            # Compiled modules are known by their files' times.
            "NO_FAKE_STAT": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }


def mend_sleep() -> None:
    """
    Have `time.sleep` work beside libfaketime, in this process.

    Version 0.9.10 takes an offset off the instant until which Python sleeps, also
    where the monotonic clock is left alone, and the system refuses what comes of that.
    """

    def rest(seconds: float) -> None:
        threading.Event().wait(seconds)

    if "faketime" in os.environ.get("LD_PRELOAD", ""):
        time.sleep = rest  # type: ignore[assignment]  # of what is asked for a number
