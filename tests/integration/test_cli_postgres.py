"""The commands on a database of Postgres: what works on SQLite works here."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from .command_line import Command, fails, run, run_json

SHOP = """
from rowlock import App, Unrecoverable

app = App()


@app.task(queue="mail")
def greet(name: str) -> str:
    return f"Hello {name}"


@app.task
def die() -> None:
    raise Unrecoverable("broken")
"""


@pytest.fixture
def url(folder: Path, each_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a database of this test, which the shop's environment names."""
    (folder / "shop.py").write_text(SHOP)
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", each_url)
    return each_url


def listed(*options: object) -> list[Any]:
    found: list[Any] = run_json("jobs", "list", *options)["jobs"]
    return found


def test_a_job_is_enqueued_worked_shown_cancelled_and_replayed(
    url: str, start: type[Command]
) -> None:
    enqueue = ("enqueue", "-A", "shop:app")
    greet = (*enqueue, "greet", '{"name": "Ada"}', "--idempotency-key", "k")
    assert run(*greet).stdout == "1\n"
    assert "job 1 of 'greet' holds the key 'k'" in run(*greet).stderr
    died = run_json(*enqueue, "die")["job_id"]
    late = run_json(*enqueue, "greet", '{"name": "Bo"}', "--delay", 3600)["job_id"]

    worker = start("worker", "shop:app")
    worker.prints("attempt.succeeded")
    worker.prints("job.dead_lettered")
    worker.signal(signal.SIGTERM)
    assert worker.ends() == 0

    assert [job["id"] for job in listed("--database", url)] == [late, died, 1]
    assert [job["id"] for job in listed("--status", "failed")] == [died]
    assert [
        job["id"] for job in listed("--idempotency-key", "k", "--queue", "mail")
    ] == [1]
    shown = run_json("jobs", "show", 1, "--database", url)
    assert (shown["status"], shown["result"]) == ("succeeded", "Hello Ada")
    assert "Unrecoverable: broken" in run("jobs", "show", died).stdout
    assert run("jobs", "cancel", late, "--database", url).stdout == f"{late}  done\n"
    assert run("jobs", "replay", died, late).exit_code == 0
    assert "already succeeded" in run("jobs", "replay", 1).stdout
    counts = {queue["queue"]: queue["counts"] for queue in run_json("stats")["queues"]}
    assert counts["default"]["pending"] == 1
    assert counts["mail"]["succeeded"] == counts["mail"]["pending"] == 1


@pytest.mark.usefixtures("url")
def test_jobs_are_moved_run_and_deleted_and_a_queue_paused() -> None:
    enqueue = ("enqueue", "-A", "shop:app", "--delay", "1h", "greet")
    first, second = (
        run_json(*enqueue, json.dumps({"name": name}))["job_id"]
        for name in ("Ada", "Bo")
    )
    moved = run("jobs", "move", first, "--to-queue", "slow", "--to-priority", 7)
    assert moved.stdout == f"{first}  done\n"
    assert run("jobs", "run", "--task", "greet", "--yes").stdout == "2 jobs: done\n"
    due = {queue["queue"]: queue["due"] for queue in run_json("queues", "list")}
    assert due == {"mail": 1, "slow": 1}

    assert run("queues", "pause", "mail", "--for", "10m").exit_code == 0
    assert "ends in 10 min, by " in run("queues", "list").stdout
    assert run_json("queues", "resume", "mail")["was_paused"]

    told = run_json("jobs", "cancel", "--queue", "mail", "--dry-run")
    assert (told["count"], told["groups"][0]["task"]) == (1, "greet")
    assert run("jobs", "cancel", "--queue", "mail", "--yes").stdout == "1 job: done\n"
    assert run("jobs", "delete", "--status", "cancelled", "--yes").exit_code == 0
    assert [job["id"] for job in listed()] == [first]
    assert fails(3, "jobs", "show", second) == f"There is no job {second}."


@pytest.fixture
def locked(url: str) -> Iterator[Callable[[str], None]]:
    """Lock a table for as long as the test lasts, so that nobody reads it."""
    assert run("enqueue", "-A", "shop:app", "die").exit_code == 0
    with psycopg.connect(url) as admin:

        def lock(table: str) -> None:
            admin.execute(f"LOCK TABLE rowlock.{table} IN ACCESS EXCLUSIVE MODE")

        yield lock


@pytest.mark.parametrize(
    "command",
    [
        ("queues", "pause", "mail"),
        ("tasks", "pause", "greet"),
        ("tasks", "list"),
    ],
)
def test_a_pause_reads_no_history_however_long_it_is(
    locked: Callable[[str], None], command: tuple[object, ...]
) -> None:
    """Where it can't be counted in time, as here behind a lock, nothing is lost."""
    locked("history")

    assert run(*command, "-A", "shop:app").exit_code == 0
    assert "try again" in fails(4, "stats", "-A", "shop:app")


@pytest.mark.parametrize(
    ("group", "kind", "name"), [("queues", "queue", "mail"), ("tasks", "task", "greet")]
)
def test_a_pause_stands_where_nothing_more_can_be_said_of_it(
    locked: Callable[[str], None], group: str, kind: str, name: str
) -> None:
    locked("tasks")

    paused = run(group, "pause", name, "--for", "10m", "--reason", "no mail")

    assert (paused.exit_code, paused.stdout) == (0, f"{kind} {name}: paused\n")
    assert paused.stderr == ""
    told = run_json(group, "pause", name, "--reason", "no mail")
    assert (told[kind], told["reason"]) == (name, "no mail")
    assert run_json(group, "resume", name)["was_paused"]


@pytest.mark.usefixtures("url")
def test_a_job_that_is_not_there_ends_with_3() -> None:
    assert fails(3, "jobs", "show", 99) == "There is no job 99."


@pytest.mark.parametrize(
    "command",
    [
        ("jobs", "list"),
        ("jobs", "show", 1),
        ("jobs", "replay", 1),
        ("jobs", "delete", "--status", "failed", "--dry-run"),
        ("queues", "pause", "mail"),
        ("tasks", "list"),
        ("workers", "list"),
        ("stats",),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_server_out_of_reach_ends_each_with_4(command: tuple[object, ...]) -> None:
    away = "postgresql://ada:hidden@127.0.0.1:1/shop"

    said = fails(4, *command, "--database", away)

    assert "postgresql://ada@127.0.0.1:1/shop is out of reach" in said


def test_a_worker_alone_whose_server_is_out_of_reach_ends_with_4(
    url: str, start: type[Command], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert url
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", "postgresql://ada@127.0.0.1:1/shop")

    alone = start("worker", "shop:app", "--no-supervisor")

    assert alone.ends() == 4
    assert "is out of reach: check that it runs" in alone.output


def test_a_job_that_a_transaction_has_is_shown_as_kept_and_not_as_lost(
    url: str,
) -> None:
    """As of a handler that holds it for longer than its lease."""
    assert run("enqueue", "-A", "shop:app", "greet", '{"name": "Ada"}').stdout == "1\n"
    with psycopg.connect(url, autocommit=True) as admin, psycopg.connect(url) as own:
        admin.execute(
            "UPDATE rowlock.live SET status = 'running', claims = 1, attempts = 1,"
            " worker = 'w-1', started_at = now(), leased_until = now() - interval '4 s'"
        )
        own.execute("SELECT rowlock.hold(1, 1)")
        why, shown = run_json("jobs", "why", 1), run("jobs", "show", 1).stdout
        own.rollback()
        lost = run("jobs", "show", 1).stdout

    assert why["reason"] == "held"
    assert "a transaction has its row" in why["sentence"]
    assert "and a transaction has its row, as hold() and complete() take it" in shown
    assert "recover it" not in shown
    assert "it is recovered when a worker is started" in lost
