"""A worker whose handler writes a row and completes in one transaction of SQLite."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from rowlock import App, ClaimLost, current_attempt
from tests.journal import Gate, Journal
from tests.serve import serve


def gate(folder: Path) -> Gate:
    """Give the gate before the transaction."""
    return Gate(folder, "settle")


def register(app: App, journal: Journal) -> None:
    def die(at: str, dies: str | None) -> None:
        if at == dies and current_attempt().number == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    @app.task(max_attempts=5, backoff=0)
    def settle(path: str, dies: str | None) -> None:
        """Die at its first attempt, `before` or `after` the commit, or not at all."""
        attempt = current_attempt()
        journal.record("begun", number=attempt.number)
        while not gate(journal.folder).is_open():
            time.sleep(0.01)
        with closing(sqlite3.connect(path)) as own:
            own.execute("INSERT INTO paid VALUES (?)", (attempt.job_id,))
            try:
                attempt.complete_sync(connection=own)
            except ClaimLost:
                journal.record("refused", number=attempt.number)
            die("before", dies)
            # Also where the error was swallowed.
            own.commit()
            die("after", dies)


if __name__ == "__main__":
    serve(register)
