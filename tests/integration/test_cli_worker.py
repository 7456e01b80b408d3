"""`rowlock worker` as a process: how it starts, and every way in which it ends."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from .command_line import SHOP, Command, fails, run, run_json

pytestmark = pytest.mark.usefixtures("shop")


def enqueue(task: str, payload: str = "{}") -> int:
    result = run("enqueue", "-A", "shop", task, payload)
    assert result.exit_code == 0, result.stderr
    return int(result.stdout)


def status(job_id: int) -> str:
    return str(run_json("jobs", "show", job_id, "-A", "shop")["status"])


def test_it_runs_jobs_and_a_sigterm_ends_it_with_0(start: type[Command]) -> None:
    job_id = enqueue("greet", '{"name": "Ada"}')

    worker = start("worker", "shop:app")
    worker.prints(f"attempt.succeeded job_id={job_id}")
    worker.signal(signal.SIGTERM)

    assert worker.ends() == 0
    assert status(job_id) == "succeeded"
    assert not [line for line in worker.lines if " warning " in line]


def test_the_first_line_shows_the_store_absolute(
    start: type[Command], folder: Path
) -> None:
    enqueue("greet", '{"name": "Ada"}')

    worker = start("worker", "shop:app")
    worker.prints("worker.started")

    assert f"store=sqlite:///{folder}/shop.db" in worker.lines[0]


def test_a_new_empty_file_is_said_to_be_one(start: type[Command], folder: Path) -> None:
    worker = start("worker", "shop:app")
    worker.prints("worker.started")

    assert f"sqlite:///{folder}/shop.db is new and empty" in worker.lines[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_waits_for_what_runs(start: type[Command], number: int) -> None:
    job_id = enqueue("wait", '{"seconds": 1}')

    worker = start("worker", "shop:app")
    worker.prints("waiting")
    worker.signal(number)
    worker.prints("worker.draining")

    assert worker.ends() == 0
    assert status(job_id) == "succeeded"


def test_an_async_handler_that_outlasts_the_drain_is_given_back(
    start: type[Command],
) -> None:
    job_id = enqueue("sleep")

    worker = start("worker", "shop:app", "--shutdown-timeout", "1")
    worker.prints("sleeping")
    worker.signal(signal.SIGTERM)

    assert worker.ends() == 0
    assert status(job_id) == "pending"


def test_a_handler_that_never_ends_is_abandoned_and_the_exit_code_is_1(
    start: type[Command],
) -> None:
    enqueue("never_ends")

    worker = start("worker", "shop:app", "--shutdown-timeout", "1")
    worker.prints("stuck")
    worker.signal(signal.SIGTERM)

    assert worker.ends(within=5) == 1
    assert "abandoned=1" in worker.output


@pytest.mark.parametrize("task", ["wait", "block", "never_ends"])
def test_a_second_signal_ends_it_at_once_with_130(
    start: type[Command], task: str
) -> None:
    """Also where the handler blocks the event loop."""
    enqueue(task)

    worker = start("worker", "shop:app")
    worker.prints({"wait": "waiting", "block": "blocking"}.get(task, "stuck"))
    worker.signal(signal.SIGINT)
    time.sleep(0.6)  # the process tells two signals apart by real time
    worker.signal(signal.SIGINT)

    assert worker.ends(within=3) == 130


def test_two_signals_within_half_a_second_are_one(start: type[Command]) -> None:
    job_id = enqueue("wait", '{"seconds": 1}')

    worker = start("worker", "shop:app")
    worker.prints("waiting")
    worker.signal(signal.SIGINT)
    worker.signal(signal.SIGTERM)

    assert worker.ends() == 0
    assert status(job_id) == "succeeded"


def test_b138_it_stops_by_signal_where_the_loop_takes_none(
    start: type[Command],
) -> None:
    program = """
import asyncio
def refuse(*args): raise NotImplementedError
asyncio.SelectorEventLoop.add_signal_handler = refuse
from rowlock.cli.main import main
main(prog_name="rowlock")
"""
    worker = start("worker", "shop:app", program=program)
    worker.prints("worker.started")
    worker.signal(signal.SIGINT)

    assert worker.ends() == 0


def test_b26_a_handler_that_quits_is_a_failure_and_the_worker_goes_on(
    start: type[Command],
) -> None:
    job_ids = [
        enqueue("quits", json.dumps({"with_": name}))
        for name in ("SystemExit", "KeyboardInterrupt", "GeneratorExit")
    ]
    worker = start("worker", "shop:app", "--concurrency", "1")
    for job_id in job_ids:
        worker.prints(f"job.dead_lettered job_id={job_id}")
    good = enqueue("greet", '{"name": "Ada"}')
    worker.prints(f"attempt.succeeded job_id={good}")
    worker.signal(signal.SIGTERM)

    assert worker.ends() == 0
    assert [status(job_id) for job_id in job_ids] == ["failed"] * 3


def test_a_worker_of_one_queue_leaves_the_others(start: type[Command]) -> None:
    other, mail = enqueue("die"), enqueue("greet", '{"name": "Ada"}')

    worker = start("worker", "shop:app", "--queue", "mail")
    worker.prints(f"attempt.succeeded job_id={mail}")
    worker.signal(signal.SIGTERM)

    assert worker.ends() == 0
    assert status(other) == "pending"


def test_a_queue_has_a_limit_and_a_weight(start: type[Command]) -> None:
    job_id = enqueue("greet", '{"name": "Ada"}')

    worker = start("worker", "shop:app", "--queue", "mail=2", "--weight", "mail=3")
    worker.prints(f"attempt.succeeded job_id={job_id}")
    worker.signal(signal.SIGTERM)

    assert worker.ends() == 0
    assert " queues=mail limits=mail:2 weights=mail:3 concurrency=2 " in worker.lines[0]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--queue", "mail=ten"], "--queue takes the name of a queue and a whole"),
        (["--queue", "mail=0"], "--queue takes the name of a queue and a whole"),
        (["--queue", "=3"], "--queue takes the name of a queue and a whole"),
        (["--queue", "mail", "--queue", "mail=3"], "--queue mail is given twice"),
        (["--weight", "mail=2", "--weight", "mail=3"], "--weight mail is given twice"),
        (["--weight", "mail"], "--weight takes the name of a queue and a whole"),
        (["--weight", "mail=1", "--weight", "mail=2"], "with two numbers"),
        (["--weight", "mail=101"], "--weight mail is 100 at most, not 101"),
        (["--queue", "sms", "--weight", "mail=2"], "the worker doesn't serve it"),
        (["--queue", "mail=9", "--concurrency", "3"], "may run 9 jobs at once, and"),
    ],
)
def test_a_limit_or_weight_that_makes_no_sense_is_refused(
    options: list[str], told: str
) -> None:
    assert told in fails(2, "worker", "shop:app", "--no-supervisor", *options)


def test_the_log_can_be_one_json_object_a_line(start: type[Command]) -> None:
    job_id = enqueue("die")

    worker = start("worker", "shop:app", "--log-format", "json")
    worker.prints("job.dead_lettered")
    worker.signal(signal.SIGTERM)

    assert worker.ends() == 0
    told = [json.loads(line) for line in worker.lines]
    (dead,) = [line for line in told if line.get("event") == "job.dead_lettered"]
    assert dead["job_id"] == job_id
    assert dead["level"] == "error"
    assert dead["at"].endswith("Z")
    assert "message" in told[-3]  # the one of the signal, which is no event


@pytest.mark.parametrize("kind", ["text", "json"])
def test_what_a_handler_logs_names_its_attempt(start: type[Command], kind: str) -> None:
    job_id = enqueue("log", '{"text": "from the handler"}')

    worker = start("worker", "shop:app", "--log-format", kind)
    worker.prints("from the handler")
    worker.signal(signal.SIGTERM)

    assert worker.ends() == 0
    (line,) = [line for line in worker.lines if "from the handler" in line]
    if kind == "json":
        named = {"job_id": job_id, "task": "log", "queue": "default", "attempt": 1}
        assert json.loads(line).items() >= named.items()
    else:
        named_so = f" job_id={job_id} task=log queue=default attempt=1"
        assert line.rstrip().endswith(named_so)


def test_the_level_says_what_is_logged(start: type[Command]) -> None:
    enqueue("die")

    worker = start("worker", "shop:app", "--log-level", "error")
    worker.prints("job.dead_lettered")
    worker.signal(signal.SIGTERM)

    assert worker.ends() == 0
    assert len(worker.lines) == 1


def test_what_fails_inside_is_logged_with_its_traceback_and_ends_it_with_1(
    start: type[Command], folder: Path
) -> None:
    (folder / "shop.py").write_text(f"{SHOP}\napp.retention = None\n")

    worker = start("worker", "shop:app", "--no-supervisor")

    assert worker.ends(with_traceback=True) == 1
    assert worker.lines[-1].startswith("Error: Rowlock met what it didn't expect")


def test_a_cancel_reaches_the_handler_that_runs(start: type[Command]) -> None:
    job_id = enqueue("wait")

    worker = start("worker", "shop:app", "--lease", "1")
    worker.prints("waiting")
    answer = run("jobs", "cancel", job_id, "-A", "shop")
    worker.prints(f"job.cancelled job_id={job_id}")
    worker.signal(signal.SIGTERM)

    assert "asked to stop" in answer.stdout
    assert worker.ends() == 0
    assert status(job_id) == "cancelled"


def test_a_live_worker_is_seen_by_stats_and_a_stopped_one_is_not(
    start: type[Command],
) -> None:
    enqueue("wait", '{"seconds": 1}')

    queues = ("--queue", "default", "--queue", "mail")
    worker = start("worker", "shop:app", "--no-supervisor", *queues)
    worker.prints("waiting")
    stats = run("stats", "-A", "shop").stdout
    worker.signal(signal.SIGTERM)

    assert str(worker.process.pid) in stats
    assert "1 of 5" in stats
    assert "default, mail" in stats
    assert worker.ends() == 0
    assert run_json("stats", "-A", "shop")["workers"] == []


def test_an_app_without_tasks_is_a_usage_error(
    start: type[Command], folder: Path
) -> None:
    (folder / "bare.py").write_text(
        "from rowlock import App\napp = App('sqlite:///bare.db')\n"
    )

    worker = start("worker", "bare:app")

    assert worker.ends() == 2
    assert "Error: This app has no tasks" in worker.output
    assert not (folder / "bare.db").exists()


def test_an_app_in_memory_has_no_worker_that_anybody_could_reach(
    start: type[Command], folder: Path
) -> None:
    (folder / "bare.py").write_text("from rowlock import App\napp = App('sqlite://')\n")

    worker = start("worker", "bare:app")

    assert worker.ends() == 2
    (line,) = worker.lines
    assert line.startswith("Error: This app's database is in memory")


def test_a_file_that_is_no_database_is_refused(
    start: type[Command], folder: Path
) -> None:
    (folder / "shop.db").write_text("These are no jobs.\n" * 99)

    worker = start("worker", "shop:app")

    assert worker.ends() == 2
    (line,) = worker.lines
    assert line.startswith(f"Error: The database {folder}/shop.db isn't an SQLite")


def test_a_schema_that_is_too_new_is_not_served(
    start: type[Command], folder: Path
) -> None:
    enqueue("greet", '{"name": "Ada"}')
    come_from_the_future(folder / "shop.db")

    worker = start("worker", "shop:app", "--no-supervisor")

    assert worker.ends() == 4
    assert "upgrade Rowlock" in worker.lines[-1]


def test_a_schema_that_is_too_new_is_not_served_to_operators_either(
    folder: Path,
) -> None:
    enqueue("greet", '{"name": "Ada"}')
    come_from_the_future(folder / "shop.db")

    assert "upgrade Rowlock" in fails(4, "jobs", "list", "-A", "shop")


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--concurrency", "0", "not in the range"),
        ("--lease", "0.5", "at least 1 s"),
        ("--lease", "soon", "as in 10m, 2h or 3d, not 'soon'"),
        ("--shutdown-timeout", "-1", "can't be negative"),
        ("--shutdown-timeout", "inf", "finite"),
        ("--queue", "", "isn't empty"),
        ("--log-level", "loud", "is not one of"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(
    option: str, value: str, said: str
) -> None:
    assert said in fails(2, "worker", "shop:app", option, value)


def come_from_the_future(database: Path) -> None:
    connection = sqlite3.connect(database)
    with connection:
        connection.execute("UPDATE rowlock_migrations SET version = version + 1000")
    connection.close()


@pytest.mark.usefixtures("shop")
def test_two_apps_are_refused() -> None:
    said = fails(2, "worker", "shop:app", "-A", "bank:app")

    assert said == "Two apps are named, shop:app and bank:app: a worker runs one."
