"""`rowlock jobs` and `rowlock stats`: what an operator sees, and does."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from rowlock import Status
from rowlock.cli.discovery import load
from rowlock.testing import drain_sync

from .command_line import fails, run, run_json

SHOP = ("-A", "shop:app")


NAP = """

@app.task
def nap() -> None:
    raise Snooze(0 if current_attempt().number < 3 else 3600)
"""
WOBBLE = """

@app.task(backoff=0)
def wobble() -> None:
    if current_attempt().number == 1:
        raise OSError("gone")
"""


def enqueue(task: str, payload: str = "{}", *options: object) -> int:
    result = run("enqueue", *SHOP, task, payload, *options)
    assert result.exit_code == 0, result.stderr
    return int(result.stdout)


def work() -> None:
    """Run a worker in this process until nothing is due."""
    app = load("shop:app")

    async def until_done() -> None:
        async with app, app.worker():
            while any(  # noqa: ASYNC110 - the counts are the store's, and tell nobody
                queue.due or queue.counts[Status.RUNNING]
                for queue in (await app.stats()).queues
            ):
                # The worker runs on real time.
                await asyncio.sleep(0.01)

    asyncio.run(until_done())


@pytest.fixture
def jobs(shop: Path) -> Path:
    """Jobs 1 (succeeded), 2 (failed), 3 (pending, with a key), 4 (pending, later)."""
    enqueue("greet", '{"name": "Ada"}')
    enqueue("die", '{"reason": "no such \\u001b[31morder"}')
    work()
    enqueue("greet", '{"name": "Bo"}', "--idempotency-key", "k", "--delay", 100)
    enqueue("greet", '{"name": "Cy"}', "--queue", "slow", "--delay", 100)
    return shop


def ids(*options: object) -> list[int]:
    return [job["id"] for job in run_json("jobs", "list", *SHOP, *options)["jobs"]]


@pytest.mark.usefixtures("jobs")
def test_jobs_are_listed_newest_first_and_by_what_they_are() -> None:
    assert ids() == [4, 3, 2, 1]
    assert ids("--status", "failed") == [2]
    assert ids("--task", "greet") == [4, 3, 1]
    assert ids("--queue", "slow") == [4]
    assert ids("--idempotency-key", "k") == [3]
    assert ids("--task", "greet", "--status", "pending", "--queue", "mail") == [3]
    assert ids("--task", "unknown") == []


@pytest.mark.usefixtures("jobs")
def test_pages_follow_each_other_until_the_end() -> None:
    first = run_json("jobs", "list", *SHOP, "--limit", 3)
    assert [job["id"] for job in first["jobs"]] == [4, 3, 2]

    second = run_json("jobs", "list", *SHOP, "--limit", 3, "--after", first["after"])
    assert [job["id"] for job in second["jobs"]] == [1]
    assert second["after"] is None
    said = run("jobs", "list", *SHOP, "--limit", 3).stderr
    assert said == f"There are more: --after {first['after']}\n"


@pytest.mark.usefixtures("jobs")
def test_the_table_is_for_people() -> None:
    result = run("jobs", "list", *SHOP)

    lines = result.stdout.splitlines()
    titles = " ".join(lines[0].split())
    assert titles == "ID STATUS TASK QUEUE FAILURES WHEN LAST ERROR"
    assert lines[1].split()[:4] == ["4", "pending", "greet", "slow"]
    assert "due in" in lines[1]
    assert lines[3].endswith(r"no such \x1b[31morder")
    assert "finished" in lines[4]
    assert result.stderr == ""


def test_a_job_that_succeeded_in_the_end_shows_no_error_but_keeps_its_story(
    shop: Path,
) -> None:
    with (shop / "shop.py").open("a") as program:
        program.write(WOBBLE)
    enqueue("wobble", "{}")
    work()

    (line,) = run("jobs", "list", *SHOP).stdout.splitlines()[1:]
    preview = run("jobs", "delete", 1, "--dry-run", *SHOP).stdout
    assert line.split()[1:3] == ["succeeded", "wobble"]
    assert "OSError" not in line
    assert "succeeded" in preview
    assert "OSError" not in preview
    assert "OSError: gone" in run("jobs", "show", 1, *SHOP).stdout
    # Where a program reads it, it is the row's.
    assert run_json("jobs", "list", *SHOP)["jobs"][0]["last_error"] == "OSError: gone"


def test_a_job_that_snoozes_says_how_often_and_when_it_is_due(shop: Path) -> None:
    with (shop / "shop.py").open("a") as program:
        program.write(f"from rowlock import Snooze\n{NAP}")
    enqueue("nap")
    work()

    told = run("jobs", "show", 1, *SHOP).stdout
    assert re.search(r"attempt 4 due in (60|59) min, after 3 snoozes or rel", told)
    assert told.endswith("  attempts 1 to 3 snoozed or released\n")


@pytest.mark.usefixtures("jobs")
def test_a_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowlock.cli.table.terminal_width", lambda: 70)

    lines = run("jobs", "list", *SHOP).stdout.splitlines()

    assert max(map(len, lines)) <= 70
    assert any("…" in line for line in lines)


@pytest.mark.usefixtures("jobs")
def test_jsonl_is_a_document_a_line() -> None:
    lines = run("jobs", "list", *SHOP, "--jsonl").stdout.splitlines()

    assert [json.loads(line)["id"] for line in lines] == [4, 3, 2, 1]


@pytest.mark.usefixtures("jobs")
def test_colours_are_for_terminals_and_for_who_asks() -> None:
    listing = ("jobs", "list", *SHOP)

    assert "\x1b[" not in run(*listing).stdout
    assert "\x1b[31mfailed" in run(*listing, env={"FORCE_COLOR": "1"}).stdout
    both = {"FORCE_COLOR": "1", "NO_COLOR": "1"}
    assert "\x1b[" not in run(*listing, env=both).stdout


@pytest.mark.usefixtures("jobs")
def test_a_story_tells_every_field_that_a_job_has() -> None:
    told = run("jobs", "show", 2, *SHOP).stdout
    job = run_json("jobs", "show", 2, *SHOP)

    assert told.startswith("job 2  die  failed\n")
    for name, value in job.items():
        if isinstance(value, int | str) and name not in ("id", "task", "status"):
            assert str(value).encode("unicode_escape").decode() in told, name
    assert "payload\n  {" in told
    assert "attempt 1 failed\n" in told
    assert "Traceback (most recent call last):" in told
    assert "raise Unrecoverable(reason)" in told
    assert "\x1b" not in told


@pytest.mark.usefixtures("shop")
def test_an_error_without_a_text_is_its_type_alone() -> None:
    enqueue("quits", '{"with_": "LookupError"}')
    work()

    assert run_json("jobs", "show", 1, *SHOP)["last_error"] == "LookupError"
    assert "attempt 1 failed\n    LookupError\n" in run("jobs", "show", 1, *SHOP).stdout


@pytest.mark.usefixtures("jobs")
def test_a_story_tells_what_operators_did() -> None:
    run("jobs", "replay", 2, *SHOP)

    told = run("jobs", "show", 2, *SHOP).stdout

    assert "\n  replay by " in told


@pytest.mark.usefixtures("jobs")
def test_a_result_is_told() -> None:
    assert 'result\n  "Hello Ada"' in run("jobs", "show", 1, *SHOP).stdout


@pytest.mark.usefixtures("jobs")
def test_cancel_answers_for_each_id_and_by_exit_code() -> None:
    done = run("jobs", "cancel", 3, 4, *SHOP)
    mixed = run("jobs", "cancel", 3, 1, 99, *SHOP)
    none = run("jobs", "cancel", 98, 99, *SHOP)

    assert (done.exit_code, done.stdout) == (0, "3  done\n4  done\n")
    said = "3  already cancelled\n1  already succeeded\n99  not found\n"
    assert (mixed.exit_code, mixed.stdout) == (1, said)
    assert (none.exit_code, none.stdout) == (3, "98  not found\n99  not found\n")


@pytest.mark.usefixtures("jobs")
def test_replay_answers_for_each_id_and_runs_it_again() -> None:
    result = run("jobs", "replay", 1, 2, "--json", *SHOP)

    assert result.exit_code == 1
    assert json.loads(result.stdout) == [
        {
            "job_id": 1,
            "done": False,
            "status": "succeeded",
            "blocked_by": None,
            "is_locked": False,
            "answer": "already succeeded",
        },
        {
            "job_id": 2,
            "done": True,
            "status": "pending",
            "blocked_by": None,
            "is_locked": False,
            "answer": "done",
        },
    ]
    work()
    job = run_json("jobs", "show", 2, *SHOP)
    assert (job["status"], job["failures"], job["attempts"]) == ("failed", 1, 2)


@pytest.mark.usefixtures("jobs")
def test_replay_names_the_job_that_holds_the_key() -> None:
    run("jobs", "cancel", 3, *SHOP)
    holder = enqueue("greet", '{"name": "Di"}', "--idempotency-key", "k")

    result = run("jobs", "replay", 3, *SHOP)

    assert (result.exit_code, result.stdout) == (1, f"3  blocked by {holder}\n")


@pytest.mark.usefixtures("jobs")
def test_an_unknown_id_is_not_found() -> None:
    assert fails(3, "jobs", "show", 99, *SHOP) == "There is no job 99."


@pytest.mark.parametrize("verb", ["show", "cancel", "replay"])
@pytest.mark.parametrize("job_id", ["0", "x", str(2**63), "1.5", "9" * 5000, ""])
@pytest.mark.usefixtures("shop")
def test_what_cannot_be_an_id_is_refused(verb: str, job_id: str) -> None:
    said = fails(2, "jobs", verb, job_id, *SHOP)

    assert f"A job's id is a whole number from 1 to {2**63 - 1}, not " in said
    assert job_id in said


@pytest.mark.parametrize("verb", ["cancel", "replay"])
def test_no_id_at_all_is_refused(verb: str) -> None:
    assert f"Say which jobs to {verb}: their ids" in fails(2, "jobs", verb)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--status", "dead", "is not one of"),
        ("--limit", "0", "not in the range"),
        ("--after", "x", "A job's id is a whole number"),
        ("--task", "", "isn't empty"),
        ("--database", "", "isn't empty"),
        ("--app", "", "isn't empty"),
        ("--database", "shop.db", "isn't a database URL"),
        ("--database", "mongodb://x", "There is no store for mongodb://"),
        ("--database", "postgresql:///shop?schema=pg_shop", "pg_ is for Postgres"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_an_option_that_makes_no_sense_is_refused(
    option: str, value: str, said: str
) -> None:
    assert said in fails(2, "jobs", "list", option, value)


@pytest.mark.parametrize(
    "command",
    [
        ("jobs", "list"),
        ("jobs", "show", 1),
        ("jobs", "cancel", 1),
        ("jobs", "replay", 1),
        ("stats",),
    ],
)
def test_looking_makes_no_file_and_names_the_one_that_is_missing(
    folder: Path, command: tuple[object, ...]
) -> None:
    message = fails(4, *command)

    assert f"There is no database {folder}/rowlock.db" in message
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("command", [("jobs", "list"), ("enqueue", "greet")])
def test_a_database_in_memory_is_refused_since_it_would_be_another(
    folder: Path, command: tuple[str, ...]
) -> None:
    (folder / "bare.py").write_text("from rowlock import App\napp = App('sqlite://')\n")

    assert "in memory" in fails(2, *command, "-A", "bare:app")


@pytest.mark.usefixtures("jobs")
def test_the_database_is_the_one_named_else_the_apps_else_the_environments(
    folder: Path,
) -> None:
    url = f"sqlite:///{folder}/shop.db"

    def sees(*options: object, **env: str) -> bool:
        return run("jobs", "show", 1, *options, env=env).exit_code == 0

    assert sees("--database", url)
    assert sees("--database", "sqlite:///shop.db")
    assert sees(ROWLOCK_APP="shop")
    assert sees(ROWLOCK_DATABASE_URL=url, DATABASE_URL="sqlite:///other.db")
    assert sees(DATABASE_URL=url)
    assert sees("--database", url, ROWLOCK_APP="missing:app")
    assert sees("-A", "shop", ROWLOCK_DATABASE_URL="sqlite:///other.db")
    (folder / "pyproject.toml").write_text('[tool.rowlock]\napp = "shop:app"\n')
    assert sees()


@pytest.mark.usefixtures("jobs")
def test_stats_count_queues_and_say_that_no_worker_is_live() -> None:
    result = run("stats", *SHOP)

    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[0].startswith("QUEUE PENDING RUNNING SUCCEEDED FAILED CANCELLED DUE")
    assert "default 0 0 0 1 0 0" in lines
    assert "mail 1 0 1 0 0 0" in lines
    assert result.stderr == "No worker is live.\n"


@pytest.mark.usefixtures("jobs")
def test_stats_as_json_have_every_figure() -> None:
    stats = run_json("stats", *SHOP)

    assert [queue["queue"] for queue in stats["queues"]] == ["default", "mail", "slow"]
    none = dict.fromkeys(Status, 0)
    assert stats["queues"][0]["counts"] == none | {"failed": 1}
    assert stats["workers"] == []


STILL = """
from rowlock import App
from rowlock.testing import FakeClock

app = App("sqlite:///still.db", clock=FakeClock())


@app.task(max_attempts=1)
def die() -> None:
    raise OSError
"""


def test_how_far_an_instant_is_is_told_by_the_stores_clock(folder: Path) -> None:
    (folder / "still.py").write_text(STILL)
    of = ("-A", "still:app")
    run("enqueue", *of, "die")
    drain_sync(load("still:app"), raises=False)
    run("enqueue", *of, "die", "--delay", 600)

    assert "due in 10 m" in run("jobs", "list", *of).stdout
    assert "due in 10 m" in run("jobs", "show", 2, *of).stdout
    assert "  now  " in run("jobs", "dead", *of).stdout
