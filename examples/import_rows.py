"""
A long import that goes on where it was interrupted.

    python import_rows.py 10000          # writes rows.csv, and imports it in chunks

The handler saves how far it is after each chunk; its next attempt goes on from there,
after a failure as after a deploy. The chunk that was under way comes twice, so writing
it is repeatable: `INSERT OR REPLACE` by the rows' own number.
"""

from __future__ import annotations

import asyncio
import csv
import itertools
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from rowlock import App, current_attempt

CHUNK = 1000
TABLE = "CREATE TABLE IF NOT EXISTS customers (number INTEGER PRIMARY KEY, name TEXT)"
ROW = "INSERT OR REPLACE INTO customers VALUES (?, ?)"
app = App("sqlite:///import.db")


@app.task(timeout=0, backoff=0)
def import_rows(file: str, total: int) -> int:
    """Import lines of `number,name`; returns how many this attempt read."""
    attempt = current_attempt()
    done = attempt.state["rows"] if attempt.state else 0
    print(f"attempt {attempt.number} begins after row {done}")
    first = done
    with closing(sqlite3.connect("customers.db")) as customers:
        customers.execute(TABLE)
        for chunk in chunks(Path(file), skip=done):
            with customers:
                customers.executemany(ROW, chunk)
            done += len(chunk)
            # For the example's sake the network fails once, with this chunk unnoted.
            if attempt.number == 1 and done > total // 2:
                raise ConnectionError("the network is gone")
            attempt.checkpoint_sync({"rows": done})
            attempt.progress(done / total, f"row {done} of {total}")
            # A cancel, or a worker that stops. To return would be to succeed.
            attempt.cancelled.raise_if_set()
    return done - first


def chunks(file: Path, skip: int) -> Iterator[list[list[str]]]:
    """Read the rows behind the first `skip`, so many at a time."""
    with file.open(newline="") as lines:
        rows = itertools.islice(csv.reader(lines), skip, None)
        while chunk := list(itertools.islice(rows, CHUNK)):
            yield chunk


async def work(job_id: int) -> None:
    """Work until the job is over, and tell how it went."""
    async with app, app.worker():
        job = await app.wait(job_id, timeout=60)
    print(f"{job.status} after {job.attempts} attempts, the last of {job.result} rows")


def main(total: int) -> None:
    """Write a file, import it, and count what has come."""
    Path("rows.csv").write_text("".join(f"{n},customer {n}\n" for n in range(total)))
    if job_id := import_rows.enqueue_sync("rows.csv", total):
        asyncio.run(work(job_id))
    with closing(sqlite3.connect("customers.db")) as customers:
        ((count,),) = customers.execute("SELECT count(*) FROM customers").fetchall()
    print("customers:", count)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
