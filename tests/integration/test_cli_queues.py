"""`rowlock queues`, `tasks` and `workers`: what there is, and pausing it."""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rowlock._answers import Overview, WorkerInfo
from rowlock.cli.workers import print_workers

from .command_line import Command, fails, run, run_json
from .supervising import children_of
from .test_cli_jobs import SHOP, enqueue, work

KINDS = [("queues", "queue", "mail"), ("tasks", "task", "greet")]


@pytest.fixture
def jobs(shop: Path) -> Path:
    """A job of `greet` that is due in queue `mail`."""
    enqueue("greet", '{"name": "Ada"}')
    return shop


def row(*command: object) -> str:
    """The first row of a table, with single spaces."""
    return " ".join(run(*command).stdout.splitlines()[1].split())


@pytest.mark.parametrize(("group", "kind", "name"), KINDS)
@pytest.mark.usefixtures("jobs")
def test_a_pause_is_shown_until_it_is_resumed(group: str, kind: str, name: str) -> None:
    what = ("--for", "10m", "--reason", "provider is down")

    paused = run(group, "pause", name, *what, *SHOP)

    assert (paused.exit_code, paused.stdout) == (0, f"{kind} {name}: paused\n")
    assert paused.stderr == ""
    told = [each for each in run_json(group, "list", *SHOP) if each[kind] == name]
    assert told[0]["paused"]["reason"] == "provider is down"
    assert told[0]["paused"]["by"]
    listed = run(group, "list", *SHOP).stdout
    assert "ends in 10 min, by " in listed
    assert "provider is down" in run("stats", *SHOP).stdout

    assert run(group, "resume", name, *SHOP).stdout == f"{kind} {name}: resumed\n"
    assert run_json(group, "resume", name, *SHOP) == {kind: name, "was_paused": False}
    again = run(group, "resume", name, *SHOP)
    assert (again.exit_code, again.stderr) == (0, f"{kind} {name}: wasn't paused\n")
    assert "ends in" not in run(group, "list", *SHOP).stdout


@pytest.mark.parametrize(
    ("group", "name", "near"), [("queues", "mial", "mail"), ("tasks", "great", "greet")]
)
@pytest.mark.usefixtures("jobs")
def test_a_pause_of_what_nobody_knows_says_so_and_names_the_nearest(
    group: str, name: str, near: str
) -> None:
    result = run(group, "pause", name, *SHOP)

    assert result.exit_code == 0
    assert result.stderr.endswith(
        f"so far; it is paused all the same; did you mean {near!r}?\n"
    )
    assert run("queues", "list", *SHOP).exit_code == 0
    assert name in run(group, "list", *SHOP).stdout


@pytest.mark.usefixtures("jobs")
def test_queues_are_listed_with_what_waits_in_them() -> None:
    enqueue("greet", '{"name": "Di"}', "--delay", 100)
    enqueue("die", "{}")
    work()

    listed = run("queues", "list", *SHOP).stdout.splitlines()
    lines = [" ".join(line.split()) for line in listed]
    assert lines == [
        "QUEUE DUE SCHEDULED RUNNING FAILED OLDEST DUE RATE PAUSED",
        "default 0 0 0 1 0.0167/s",
        "mail 0 1 0 0 0.0167/s",
    ]
    failed, queue = run_json("queues", "list", *SHOP)
    assert (queue["queue"], queue["due"], queue["paused"]) == ("mail", 0, None)
    assert (queue["scheduled"], queue["counts"]["pending"]) == (1, 1)
    assert failed["rate"] == pytest.approx(1 / 60)


@pytest.mark.usefixtures("shop")
def test_workers_are_listed_with_what_each_runs_now(start: type[Command]) -> None:
    enqueue("wait")
    worker = start("worker", "shop:app", "--concurrency", 3, "--lease", 60)
    worker.prints("waiting")

    (told,) = run_json("workers", "list", *SHOP)
    (job,) = told["jobs"]
    assert (job["job_id"], job["task"], job["attempt"]) == (1, "wait", 1)
    assert (told["running"], told["concurrency"]) == (1, 3)
    assert (told["alone"], told["gives_way"]) == (False, False)
    lines = [
        " ".join(line.split())
        for line in run("workers", "list", *SHOP).stdout.splitlines()
    ]
    assert lines[-2] == "WORKER JOB TASK ATTEMPT RUNS FOR LEASE PROGRESS"
    assert re.fullmatch(rf"{told['id']} 1 wait 1 .* ends in \d+ s", lines[-1])
    why = run("jobs", "why", 1, *SHOP)
    assert re.fullmatch(rf"Job 1 runs for .* on worker {told['id']}, .*\n", why.stdout)


SERVING = WorkerInfo(
    id="w-1",
    host="here",
    pid=1,
    version=None,
    rowlock="1",
    tasks=("greet",),
    queues=None,
    concurrency=3,
    lease=timedelta(seconds=60),
    running=1,
)


@pytest.mark.parametrize(
    ("worker", "shown"),
    [
        (SERVING, "1 of 3"),
        (replace(SERVING, gives_way=True), "1 of 3, gives way"),
        (replace(SERVING, alone=True), "1 of 3, alone"),
        (replace(SERVING, alone=True, concurrency=1), "1 of 1"),
    ],
)
def test_workers_are_listed_with_why_one_with_room_claims_nothing(
    worker: WorkerInfo, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    now = datetime.now(UTC)

    print_workers(Overview(now=now, workers=(worker,), pauses=()))

    assert f" {shown} " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("stuck", "shown"),
    [
        ((17, 23), "2 (17, 23)"),
        (tuple(range(1, 9)), "8 (1, 2, 3, 4, 5, ...)"),
        ((), None),
    ],
)
def test_workers_are_listed_with_the_handlers_that_are_stuck(
    stuck: tuple[int, ...], shown: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = replace(SERVING, stuck=stuck)

    print_workers(Overview(now=datetime.now(UTC), workers=(worker,), pauses=()))

    told = capsys.readouterr().out
    assert ("STUCK" in told) == bool(stuck)
    assert shown is None or f" {shown} " in told


@pytest.mark.usefixtures("jobs")
def test_tasks_are_those_of_the_app_and_of_jobs_that_are_due(folder: Path) -> None:
    url = f"sqlite:///{folder}/shop.db"

    of_database = [
        each["task"] for each in run_json("tasks", "list", "--database", url)
    ]
    of_app = {each["task"]: each for each in run_json("tasks", "list", *SHOP)}

    assert of_database == ["greet"]
    assert {"greet", "die", "wait"} < set(of_app)
    assert (of_app["greet"]["due"], of_app["greet"]["workers"]) == (1, 0)
    assert "No live worker has task 'greet': 1 due.\n" in run("stats", *SHOP).stderr


@pytest.mark.usefixtures("jobs")
def test_tasks_that_a_worker_had_are_known_from_the_database_when_it_is_gone(
    folder: Path, start: type[Command]
) -> None:
    at = ("--database", f"sqlite:///{folder}/shop.db")
    assert row("tasks", "list", *SHOP) == "block default 0 0 never"
    worker = start("worker", *SHOP)
    worker.prints("worker.started")
    worker.signal(signal.SIGTERM)
    assert worker.ends() == 0

    listed = run("tasks", "list", *at).stdout.splitlines()
    told = {each["task"]: each for each in run_json("tasks", "list", *at)}
    assert " ".join(listed[0].split()) == (
        "TASK QUEUE DUE WORKERS LAST SEEN PAUSED REPLAYED WHEN"
    )
    assert re.match(r"block +default +0 +0 +(now|.* ago)", listed[1])
    assert told["greet"]["queue"] == "mail"
    assert told["greet"]["defaults"]["max_attempts"] == 3
    assert datetime.fromisoformat(told["greet"]["seen_at"]).tzinfo is not None
    # Known, though no job and no live worker has it.
    assert run("tasks", "pause", "block", *at).stderr == ""


@pytest.mark.parametrize("form", [("-A", "shop:app"), ("--app", "shop"), ("shop:app",)])
@pytest.mark.usefixtures("shop")
def test_b135_a_worker_is_named_in_either_form_and_listed_while_it_lives(
    start: type[Command], form: tuple[str, ...]
) -> None:
    worker = start("worker", *form)
    worker.prints("worker.started")
    (told,) = run_json("workers", "list", *SHOP)

    assert told["pid"] in children_of(worker.process.pid)
    assert "greet" in told["tasks"]
    assert str(told["pid"]) in row("workers", "list", *SHOP)
    worker.signal(signal.SIGTERM)
    assert worker.ends() == 0
    gone = run("workers", "list", *SHOP)
    assert (gone.exit_code, gone.stdout, gone.stderr) == (0, "", "No worker is live.\n")


@pytest.mark.usefixtures("jobs")
def test_why_is_a_sentence_for_people_and_a_word_for_programs() -> None:
    assert "no live worker has task 'greet'" in run("jobs", "why", 1, *SHOP).stdout

    told = run_json("jobs", "why", 1, *SHOP)
    assert (told["job_id"], told["status"], told["reason"]) == (
        1,
        "pending",
        "unserved",
    )
    assert told["sentence"].startswith("Job 1 has been due for")
    assert fails(3, "jobs", "why", 99, *SHOP) == "There is no job 99."
