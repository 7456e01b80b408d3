"""`rowlock jobs run|move|cancel|replay|delete`: by id and by filter, asked and not."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from rowlock._durations import span
from tests.copying.given import elsewhere, job

from .command_line import Command, OnTerminal, fails, run, run_json
from .test_cli_jobs import SHOP, enqueue, ids, work

VERBS = ["run", "move", "cancel", "replay", "delete"]
TO = {"move": ("--to-priority", 5)}


@pytest.fixture
def jobs(shop: Path) -> Path:
    """Jobs 1 (succeeded), 2 and 3 (failed), 4 and 5 (pending, in an hour)."""
    enqueue("greet", '{"name": "Ada"}')
    enqueue("die", '{"reason": "no order 1"}')
    enqueue("die", '{"reason": "no order 2"}')
    work()
    enqueue("greet", '{"name": "Bo"}', "--delay", "1h")
    enqueue("greet", '{"name": "Cy"}', "--queue", "slow", "--delay", "1h")
    return shop


@pytest.mark.usefixtures("jobs")
def test_a_job_that_is_run_is_due_now() -> None:
    result = run("jobs", "run", 4, 1, *SHOP)

    assert (result.exit_code, result.stdout) == (1, "4  done\n1  already succeeded\n")
    work()
    assert run_json("jobs", "show", 4, *SHOP)["status"] == "succeeded"
    assert run_json("jobs", "show", 5, *SHOP)["status"] == "pending"


@pytest.mark.usefixtures("jobs")
def test_a_job_is_moved_to_another_queue_priority_and_time() -> None:
    to = ("--to-queue", "slow", "--to-priority", -7, "--delay", "2d")

    assert run("jobs", "move", 4, *to, *SHOP).stdout == "4  done\n"

    job = run_json("jobs", "show", 4, *SHOP)
    assert (job["queue"], job["priority"]) == ("slow", -7)
    assert "due in 48 h" in run("jobs", "show", 4, *SHOP).stdout


@pytest.mark.usefixtures("jobs")
def test_a_move_to_nowhere_is_refused() -> None:
    assert "Say where to" in fails(2, "jobs", "move", 4, *SHOP)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.usefixtures("jobs")
def test_no_job_at_all_is_refused_rather_than_every_job(verb: str) -> None:
    said = fails(2, "jobs", verb, *TO.get(verb, ()), "--yes", *SHOP)

    assert said.startswith(
        f"Say which jobs to {verb}: their ids, a filter such as --task"
    )


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.usefixtures("jobs")
def test_ids_beside_a_filter_are_refused(verb: str) -> None:
    said = fails(2, "jobs", verb, 4, "--task", "greet", *TO.get(verb, ()), *SHOP)

    assert "either by their ids or by a filter" in said


@pytest.mark.usefixtures("jobs")
def test_a_status_that_a_verb_never_takes_is_refused() -> None:
    assert fails(2, "jobs", "replay", "--status", "succeeded", *SHOP) == (
        "`jobs replay` takes failed and cancelled jobs, and none that is succeeded."
    )


@pytest.mark.parametrize(
    ("verb", "taken", "after"),
    [
        ("replay", [3, 2], "pending"),
        ("cancel", [5, 4], "cancelled"),
        ("run", [5, 4], "pending"),
        ("move", [5, 4], "pending"),
    ],
)
@pytest.mark.usefixtures("jobs")
def test_a_filter_takes_what_the_verb_can_take(
    verb: str, taken: list[int], after: str
) -> None:
    by_age = ("--older-than", 0, *TO.get(verb, ()))

    result = run("jobs", verb, *by_age, "--yes", "--jsonl", *SHOP)

    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer["job_id"] for answer in answers] == taken
    assert {answer["answer"] for answer in answers} == {"done"}
    assert result.exit_code == 0
    assert run_json("jobs", "show", taken[0], *SHOP)["status"] == after
    assert run_json("jobs", "show", 1, *SHOP)["status"] == "succeeded"


@pytest.mark.usefixtures("jobs")
def test_many_answers_are_counted() -> None:
    result = run("jobs", "delete", "--older-than", 0, "--yes", *SHOP)

    assert (result.exit_code, result.stdout) == (0, "3 jobs: done\n")
    assert ids() == [5, 4]


@pytest.mark.usefixtures("jobs")
def test_a_filter_that_fits_nothing_has_nothing_to_do() -> None:
    result = run("jobs", "replay", "--task", "unknown", *SHOP)

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "No job fits.\n"


@pytest.mark.usefixtures("jobs")
def test_a_dry_run_counts_shows_and_changes_nothing() -> None:
    before = run_json("jobs", "list", *SHOP)

    result = run("jobs", "replay", "--task", "die", "--dry-run", *SHOP)
    told = run_json("jobs", "replay", "--task", "die", "--dry-run", *SHOP)

    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[0] == "JOBS STATUS TASK LAST ERROR"
    assert sorted(lines[1:3]) == [
        "1 failed die Unrecoverable: no order 1",
        "1 failed die Unrecoverable: no order 2",
    ]
    assert lines[3] == "2 jobs to replay. Nothing was done."
    assert (told["verb"], told["count"], told["sampled"]) == ("replay", 2, 2)
    assert run_json("jobs", "list", *SHOP) == before


@pytest.mark.usefixtures("jobs")
def test_a_dry_run_by_id_counts_those_that_it_would_take() -> None:
    told = run_json("jobs", "delete", 1, 2, 4, 99, "--dry-run", *SHOP)

    assert told["count"] == 2


@pytest.mark.usefixtures("jobs")
def test_where_nobody_can_be_asked_yes_is_named_and_nothing_done() -> None:
    said = fails(2, "jobs", "replay", "--task", "die", *SHOP, stdin="y\n")
    of_one = fails(2, "jobs", "delete", 1, *SHOP)

    assert said == (
        "This would replay 2 jobs, and there is nobody to ask: add --yes to do it, or"
        " --dry-run to look at them."
    )
    assert of_one.startswith("This would delete 1 job, and there is nobody")
    assert ids("--status", "failed") == [3, 2]


@pytest.mark.parametrize(
    ("types", "code", "left"), [("y\n", 0, []), ("n\n", 1, [3, 2]), ("\n", 1, [3, 2])]
)
@pytest.mark.usefixtures("jobs")
def test_on_a_terminal_it_asks(
    on_terminal: OnTerminal, types: str, code: int, left: list[int]
) -> None:
    of = ("--task", "die", "-A", "shop:app", "--no-color")

    ended, shown = on_terminal("jobs", "replay", *of, types=types)

    assert "Replay 2 jobs? [y/N]: " in shown
    assert "failed  die  Unrecoverable: no order 1\n" in shown
    assert ("Nothing was done." in shown) is bool(left)
    assert ended == code
    assert ids("--status", "failed") == left


@pytest.mark.usefixtures("jobs")
def test_a_deleted_job_is_gone() -> None:
    result = run("jobs", "delete", 1, 4, "--yes", *SHOP)

    assert (result.exit_code, result.stdout) == (1, "1  done\n4  already pending\n")
    assert fails(3, "jobs", "show", 1, *SHOP) == "There is no job 1."


def due_in_s(job_id: int) -> float:
    job = run_json("jobs", "show", job_id, *SHOP)
    due = datetime.fromisoformat(job["run_at"]) - datetime.fromisoformat(
        job["updated_at"]
    )
    return due.total_seconds()


@pytest.mark.parametrize(
    ("pace", "apart"), [(("--rate", "2/m"), 30), (("--spread", "1m"), 30)]
)
@pytest.mark.usefixtures("jobs")
def test_a_paced_replay_is_due_step_by_step_in_another_queue(
    pace: tuple[str, str], apart: int
) -> None:
    run("jobs", "cancel", 5, *SHOP)  # cancelled ones share the pace with the failed

    to = ("--to-queue", "calm", "--delay", "10m")
    chosen = () if "--rate" in pace else ("--task", "die")
    result = run("jobs", "replay", *(chosen or ("--all",)), *pace, *to, "--yes", *SHOP)

    done = 2 if chosen else 3
    assert (result.exit_code, result.stdout) == (0, f"{done} jobs: done\n")
    last = 600 + apart * (done - 1)
    assert result.stderr == f"The last of them is due in {span(last)}.\n"
    assert due_in_s(2) == pytest.approx(600, abs=1)
    assert due_in_s(3) == pytest.approx(600 + apart, abs=1)
    if not chosen:
        assert due_in_s(5) == pytest.approx(600 + 2 * apart, abs=1)
    assert ids("--queue", "calm") == [3, 2] if chosen else [5, 3, 2]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--rate", "0"), "--rate takes jobs a second, as in 50 or 50/s"),
        (("--rate", "50/w"), "--rate takes jobs a second"),
        (("--rate", "fast"), "--rate takes jobs a second"),
        (("--rate", "-1/s"), "--rate takes jobs a second"),
        (("--rate", "nan"), "--rate takes jobs a second"),
        (("--rate", "50/s", "--spread", "1h"), "either --rate or --spread"),
        (("--rate", "1e-12"), "more than a century"),
        (("--rate", "1e-12", "--dry-run"), "more than a century"),
    ],
)
@pytest.mark.usefixtures("jobs")
def test_a_pace_that_cant_be_meant_is_refused(
    options: tuple[str, ...], said: str
) -> None:
    assert said in fails(2, "jobs", "replay", 2, 3, *options, *SHOP)
    assert ids("--status", "failed") == [3, 2]


@pytest.mark.parametrize(("verb", "taken"), [("replay", [3, 2]), ("cancel", [5, 4])])
@pytest.mark.usefixtures("jobs")
def test_all_is_every_job_that_the_verb_takes(verb: str, taken: list[int]) -> None:
    result = run("jobs", verb, "--all", "--yes", "--json", *SHOP)

    assert [answer["job_id"] for answer in json.loads(result.stdout)] == taken
    assert all(answer["done"] for answer in json.loads(result.stdout))


@pytest.mark.parametrize("beside", [("2",), ("--task", "die")])
@pytest.mark.usefixtures("jobs")
def test_all_beside_a_choice_is_refused(beside: tuple[str, ...]) -> None:
    assert "--all means every job" in fails(
        2, "jobs", "replay", "--all", *beside, "--yes", *SHOP
    )


@pytest.mark.usefixtures("jobs")
def test_all_asks_like_a_filter() -> None:
    assert "This would replay 2 jobs" in fails(1 + 1, "jobs", "replay", "--all", *SHOP)


@pytest.mark.usefixtures("jobs")
def test_a_dry_run_of_a_pace_says_when_the_last_is_due() -> None:
    chosen = ("jobs", "replay", "--task", "die", "--dry-run", *SHOP)

    assert run(*chosen, "--rate", "1/m").stderr == "The last of them is due in 60 s.\n"
    assert run(*chosen).stderr == ""


@pytest.mark.usefixtures("jobs")
def test_a_filter_that_is_given_twice_is_refused() -> None:
    for verb in ("list", "cancel"):
        said = fails(2, "jobs", verb, "--task", "greet", "--task", "die", *SHOP)
        assert said == "--task takes one value, and is given 2."
    assert "--status takes one value" in fails(
        2, "jobs", "delete", "--status", "failed", "--status", "succeeded", *SHOP
    )


@pytest.mark.usefixtures("shop")
def test_a_preview_looks_at_jobs_of_every_age(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowlock._operations.SAMPLE", 4)
    for reason in ("old", "old", "old", "new", "new", "new", "new"):
        enqueue("die", json.dumps({"reason": reason}))
    work()

    shown = run("jobs", "replay", "--task", "die", "--dry-run", *SHOP)

    assert "Unrecoverable: old" in shown.stdout
    assert "Unrecoverable: new" in shown.stdout
    assert shown.stdout.endswith(
        "7 jobs to replay, of which 4 were looked at. Nothing was done.\n"
    )


OUTAGE = """
import atexit
import sqlite3

from rowlock import App

app = App("sqlite:///outage.db")
held = []


def hold(event):
    if event.name == "jobs.cancelled":
        held.append(sqlite3.connect("outage.db", check_same_thread=False))
        held[-1].execute("BEGIN IMMEDIATE")
        atexit.register(held[-1].close)


app.listen(hold)
"""


def test_an_outage_half_way_is_told_with_how_far_it_came(
    folder: Path, start: type[Command]
) -> None:
    (folder / "outage.py").write_text(OUTAGE)
    elsewhere(f"sqlite:///{folder}/outage.db", "enqueue", [job()] * 1200)

    command = start("jobs", "cancel", "--all", "--yes", "-A", "outage:app")

    assert command.ends() == 4
    stopped, error = command.output.splitlines()
    assert stopped == (
        "Stopped: 1,000 jobs done, and perhaps those under way."
        " The same command goes on with the others."
    )
    assert error.startswith("Error: ")
    assert "locked" in error
    again = run("jobs", "cancel", "--all", "--yes", "-A", "outage:app")
    assert (again.exit_code, again.stdout) == (0, "200 jobs: done\n")
