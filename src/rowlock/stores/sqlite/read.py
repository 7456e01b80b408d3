"""
Reading jobs and figures; each is one snapshot.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rowlock.stores.sqlite import rows
from rowlock.stores.sqlite.statements import SQL

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from rowlock._job import Job


def get(connection: sqlite3.Connection, _now: int, ids: Sequence[int]) -> tuple[Job, ...]:
    """Read jobs by id, in the order given; missing ids are left out."""
    found = connection.execute(SQL["get"], {"ids": json.dumps(list(ids))}).fetchall()
    by_id = {row[0]: row for row in found}
    return tuple(rows.job(by_id[job_id]) for job_id in ids if job_id in by_id)
