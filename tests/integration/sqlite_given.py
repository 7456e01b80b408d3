"""What a test of the SQLite store starts from: a store, a job, another process."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from rowlock._clock import Clock
from rowlock._job import NewJob
from rowlock._store import Claimed, Demand
from rowlock.stores.sqlite import SQLiteStore
from rowlock.stores.sqlite.connection import Trace
from rowlock.stores.sqlite.url import Address

ROOT = Path(__file__).parent.parent.parent
LEASE = timedelta(seconds=60)


@asynccontextmanager
async def opened(
    path: Path | str,
    *,
    clock: Clock | None = None,
    trace: Trace | None = None,
    synchronous: str = "full",
) -> AsyncIterator[SQLiteStore]:
    """Open a store on a path."""
    address = Address(path=str(path), synchronous=synchronous)
    store = SQLiteStore(address, clock=clock, trace=trace)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def new_job(**fields: Any) -> NewJob:  # noqa: ANN401 - any field of a job
    """Make a job, unless told otherwise of `task` in `default`."""
    return NewJob(**({"task": "task", "queue": "default", "payload": "{}"} | fields))


async def claim(
    store: SQLiteStore, total: int = 10, *tasks: str, worker: str = "w1"
) -> Claimed:
    """Claim jobs of these tasks, or of `task`."""
    demand = Demand(total=total, tasks=frozenset(tasks or ("task",)))
    return await store.claim(demand, worker=worker, lease=LEASE)


@contextmanager
def a_users(path: Path, **options: Any) -> Iterator[sqlite3.Connection]:  # noqa: ANN401 - any option of sqlite3
    """Connect as any program would."""
    with closing(sqlite3.connect(path, **options)) as connection:
        yield connection


def start(
    program: str, *arguments: object, warnings: bool = True
) -> subprocess.Popen[str]:
    """Start a program in a process of its own; a warning is an error to it."""
    return subprocess.Popen(
        [
            sys.executable,
            *(("-W", "error") if warnings else ()),
            "-c",
            PRELUDE + textwrap.dedent(program),
            *(str(argument) for argument in arguments),
        ],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(program: str, *arguments: object, warnings: bool = True) -> str:
    """Run a program to its end, which has to be a good one; what it printed."""
    process = start(program, *arguments, warnings=warnings)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert not err
    return out


PRELUDE = """
import asyncio, os, sqlite3, sys, time
from tests.integration.sqlite_given import LEASE, claim, new_job, opened
from rowlock.stores.sqlite import SQLiteStore
from rowlock.stores.sqlite.url import Address
"""
