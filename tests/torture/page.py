"""What a tortured process writes: its own page of the journal, from its first line."""

from __future__ import annotations

import os
from pathlib import Path

from tests.journal import Journal

FOLDER = "ROWLOCK_TORTURE_FOLDER"
FAULT = "ROWLOCK_TORTURE_FAULT"


class Page:
    """The journal of whatever process writes; what is forked begins its own."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._journal: Journal | None = None
        self._pid = 0

    def record(self, what: str, **of: object) -> None:
        """Append an event; it is in the file when this returns."""
        if self._journal is None or self._pid != os.getpid():
            self._journal = Journal(Path(os.environ[FOLDER]), self._label)
            self._pid = os.getpid()
        self._journal.record(what, **of)
