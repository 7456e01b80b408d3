"""`rowlock copy`: what it prints, what it refuses and how, and what a kill leaves."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from rowlock._store import Pause
from tests.cluster_fixtures import FreshDatabase
from tests.copying.given import elsewhere, job
from tests.programs import copy_many

from .command_line import SOURCES, Command, OnTerminal, fails, run, run_json


@pytest.fixture
def source(folder: Path) -> str:
    """The URL of a file with a few jobs."""
    url = f"sqlite:///{folder / 'jobs.db'}"
    with_jobs(url, 3)
    elsewhere(url, "cancel", [2], by="ada")
    elsewhere(url, "pause", Pause(queue="mail"))
    return url


def with_jobs(url: str, count: int, size: int = 10) -> None:
    """Make jobs with payloads of so many characters."""
    elsewhere(url, "enqueue", [job(payload=json.dumps({"text": "x" * size}))] * count)


def total(url: str) -> int:
    """Count the jobs."""
    found = run_json("stats", "--database", url)
    return sum(sum(queue["counts"].values()) for queue in found["queues"])


def test_it_says_what_it_copied(source: str, url: str) -> None:
    said = run("copy", "--from", source, "--to", url)

    assert (said.exit_code, said.stderr) == (0, "")
    *counts, last = said.stdout.splitlines()
    assert counts == ["2 pending", "1 cancelled"]
    assert last.startswith(f"Copied 3 jobs, 1 pause and 0 tasks from {source} to post")
    assert total(url) == 3


def test_its_summary_is_one_document(source: str, folder: Path) -> None:
    target = f"sqlite:///{folder / 'new.db'}"
    told = {
        "from": source,
        "to": target,
        "dry_run": True,
        "total": 3,
        "jobs": {
            "pending": 2,
            "running": 0,
            "succeeded": 0,
            "failed": 0,
            "cancelled": 1,
        },
        "last_id": 3,
        "pauses": 1,
        "tasks": 0,
    }

    assert run_json("copy", "--from", source, "--to", target, "--dry-run") == told
    assert not (folder / "new.db").exists()
    done = told | {"dry_run": False}
    assert run_json("copy", "--from", source, "--to", target) == done
    assert total(target) == 3


def test_on_a_terminal_it_shows_how_far_it_is(
    source: str, on_terminal: OnTerminal
) -> None:
    code, shown = on_terminal("copy", "--from", source, "--to", "sqlite:///new.db")

    assert code == 0
    assert "\r3 of 3 jobs\r\x1b[K2 pending\n" in shown


def test_what_cant_be_copied_is_said_in_a_sentence(
    source: str, fresh_database: FreshDatabase, folder: Path
) -> None:
    url, empty = fresh_database(), fresh_database(empty=True)
    new = f"sqlite:///{folder / 'new.db'}"
    for code, words, said in (
        (4, ("sqlite:///none.db", new), "correct --from."),
        (2, ("sqlite://", new), "in memory"),
        (2, (source, "sqlite://"), "in memory"),
        (2, (source, source), "are the same database: name another."),
        (2, (source, "mongodb://x"), "There is no store for mongodb://"),
        (4, (source, empty), "run `rowlock migrate`"),
    ):
        assert said in fails(code, "copy", "--from", words[0], "--to", words[1])
    assert not (folder / "none.db").exists()
    assert not (folder / "new.db").exists()

    run("copy", "--from", source, "--to", url)
    assert "holds 3 jobs already" in fails(1, "copy", "--from", source, "--to", url)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)]
)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_kill_in_the_middle_leaves_nothing_and_it_can_be_done_again(
    kind: str,
    number: int,
    code: int,
    folder: Path,
    start: type[Command],
    fresh_database: FreshDatabase,
) -> None:
    source, count = f"sqlite:///{folder / 'jobs.db'}", 20_000
    with_jobs(source, count, size=1000)
    if kind == "sqlite":
        target = f"sqlite:///{folder / 'new.db'}"
        elsewhere(target, "open")
    else:
        target = fresh_database()
    command = start("copy", "--from", source, "--to", target)

    while not is_receiving(target):
        assert command.process.poll() is None, command.output
        # A process of its own, on no clock of ours.
        time.sleep(0.005)
    command.signal(number)
    assert command.ends() == code

    while is_receiving(target):
        # The server hears of it when it next writes to the connection.
        time.sleep(0.01)
    assert total(target) == 0
    assert total(source) == count
    done = run_json("copy", "--from", source, "--to", target)
    assert done["total"] == total(target) == count


def is_receiving(url: str) -> bool:
    """Say whether somebody writes there who lets nobody else."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=0)) as own:
            try:
                own.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
            return False
    with psycopg.connect(url) as own:
        found = own.execute(
            "SELECT FROM pg_locks WHERE mode = 'ExclusiveLock' AND granted"
            " AND relation = 'rowlock.live'::regclass AND database ="
            " (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        return bool(found.fetchall())


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_memory_doesnt_grow_with_the_jobs(
    kind: str, folder: Path, fresh_database: FreshDatabase, scale: int
) -> None:
    source, count = f"sqlite:///{folder / 'jobs.db'}", 10_000 * scale
    with_jobs(source, count, size=5_000)
    target = fresh_database() if kind == "postgres" else f"sqlite:///{folder}/new.db"
    for pair in ((source, target), (target, f"sqlite:///{folder}/back.db")):
        ran = subprocess.run(
            [sys.executable, copy_many.__file__, *pair],
            env={**os.environ, "PYTHONPATH": str(SOURCES)},
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
        copied, grown, _rate = map(float, ran.stdout.split())
        assert copied == count
        # Of 50 MB of payloads, and ten times that in the slow run.
        assert grown < 25
