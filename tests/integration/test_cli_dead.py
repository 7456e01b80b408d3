"""`rowlock jobs dead`, and what shows automatic replay."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from rowlock import App, Status
from rowlock.cli.discovery import load
from rowlock.events import Event, ReplayProbed
from tests.eventually import eventually

from .command_line import fails, run, run_json

SHOP = ("-A", "shop:app")
WITH_PROBE = """
from rowlock import App

app = App("sqlite:///shop.db", version="2026.11.3")
is_up = False


@app.task(queue="mail", max_attempts=1)
def send(number: int) -> None:
    if not is_up:
        raise ConnectionError(f"host {number} refused 'it'")


@app.task(max_attempts=1)
def bill(number: int) -> None:
    raise ValueError("no such order")


app.replay_when("send", lambda: is_up, every=60)
"""


@pytest.fixture
def shop(folder: Path) -> App:
    """An app with a rule, in `shop.py`."""
    (folder / "shop.py").write_text(WITH_PROBE)
    return load("shop:app")


def work(app: App, *numbers: int, task: str = "send") -> None:
    """Let jobs of these numbers run to their end."""

    async def until_over() -> None:
        async with app, app.worker():
            ids = [await app.tasks[task].enqueue(number) for number in numbers]
            for job_id in ids:
                assert job_id is not None
                assert (await app.wait(job_id, 10)).status is Status.FAILED

    asyncio.run(until_over())


@pytest.fixture
def dead(shop: App) -> App:
    """Jobs 1 and 2 died of one error, 3 of another."""
    work(shop, 17, 18)
    work(shop, 1, task="bill")
    return shop


@pytest.mark.usefixtures("dead")
def test_dead_letters_are_grouped_by_task_and_error() -> None:
    shown = run("jobs", "dead", *SHOP).stdout.splitlines()

    assert shown[0].split() == [
        *("FINGERPRINT", "TASK", "ERROR", "COUNT", "FIRST", "SEEN", "LAST", "SEEN"),
        *("VERSION", "NEWEST"),
    ]
    first, second = (re.split(r" {2,}", line.strip()) for line in shown[1:])
    assert first[1:4] == ["bill", "ValueError: no such order", "1"]
    assert second[1:4] == ["send", "ConnectionError: host # refused '*'", "2"]
    assert [row[-2:] for row in (first, second)] == [
        ["2026.11.3", "3"],
        ["2026.11.3", "2"],
    ]


@pytest.mark.usefixtures("dead")
def test_as_json_a_group_has_all_its_fields() -> None:
    (group,) = run_json("jobs", "dead", "--task", "send", *SHOP)

    assert set(group) == {
        *("fingerprint", "task", "error", "count", "first_seen", "last_seen"),
        *("version", "newest"),
    }
    assert (group["count"], group["newest"]) == (2, 2)
    assert re.fullmatch("[0-9a-f]{8}", group["fingerprint"])
    lines = run("jobs", "dead", "--jsonl", *SHOP).stdout.splitlines()
    assert len(lines) == 2


@pytest.mark.usefixtures("dead")
def test_groups_are_of_a_task_or_a_queue_and_at_most_so_many() -> None:
    def tasks(*options: object) -> list[str]:
        return [group["task"] for group in run_json("jobs", "dead", *SHOP, *options)]

    assert tasks() == ["bill", "send"]
    assert tasks("--queue", "mail") == ["send"]
    assert tasks("--limit", 1) == ["bill"]
    assert "There are more" in run("jobs", "dead", "--limit", 1, *SHOP).stderr
    assert "more" not in run("jobs", "dead", "--limit", 2, *SHOP).stderr
    assert run("jobs", "dead", "--task", "none", *SHOP).stderr == "No dead letters.\n"


@pytest.mark.usefixtures("dead")
def test_a_fingerprint_takes_one_group() -> None:
    (group,) = run_json("jobs", "dead", "--task", "send", *SHOP)
    of = ("--fingerprint", group["fingerprint"], *SHOP)
    listed = run_json("jobs", "list", *of)["jobs"]
    assert [job["id"] for job in listed] == [2, 1]
    assert {job["fingerprint"] for job in listed} == {group["fingerprint"]}

    assert run("jobs", "replay", "--yes", *of).stdout == "2 jobs: done\n"

    (left,) = run_json("jobs", "dead", *SHOP)
    assert left["task"] == "bill"


@pytest.mark.usefixtures("dead")
def test_wrong_input_is_one_sentence() -> None:
    assert "--fingerprint" in fails(2, "jobs", "list", "--fingerprint", "", *SHOP)
    fails(2, "jobs", "dead", "--limit", "0", *SHOP)
    fails(2, "jobs", "dead", "--task", "", *SHOP)


@pytest.mark.usefixtures("dead")
def test_a_job_tells_the_version_it_died_in() -> None:
    told = run("jobs", "show", 1, *SHOP).stdout

    assert re.search(r"\n    version +2026\.11\.3\n", told)
    assert re.search(r"\n  fingerprint +[0-9a-f]{8}\n", told)


def test_workers_show_their_codes_version_and_rowlocks(shop: App) -> None:
    shown: list[Any] = []

    async def look() -> None:
        async with shop, shop.worker():
            shown.append(await asyncio.to_thread(run_json, "workers", "list", *SHOP))
            shown.append(await asyncio.to_thread(run, "workers", "list", *SHOP))

    asyncio.run(look())

    assert shown[0][0]["version"] == "2026.11.3"
    assert shown[0][0]["rowlock"]
    assert shown[1].stdout.splitlines()[0].split()[-2:] == ["VERSION", "ROWLOCK"]


def test_tasks_show_their_rule_and_what_its_probe_said(dead: App) -> None:
    told = run_json("tasks", "list", *SHOP)
    assert {task["task"]: task["replay_rule"] is None for task in told} == {
        "bill": True,
        "send": False,
    }
    # It was asked when the jobs died, and didn't pass.
    assert told[1]["replay_rule"]["passed"] is False
    assert "probe passes, every 60 s; didn't pass" in run("tasks", "list", *SHOP).stdout

    replay(dead)

    rule = run_json("tasks", "list", *SHOP)[1]["replay_rule"]
    assert (rule["passed"], rule["replayed"], rule["every"]) == (True, 2, 60)
    shown = run("tasks", "list", *SHOP).stdout
    assert re.search(r"probe passes, every 60 s; passed .*, 2 replayed", shown)
    story = run("jobs", "show", 1, *SHOP).stdout
    assert "\n  replay by probe of send (1 of 2)\n" in story


def test_a_rule_that_nobody_has_followed_yet_is_shown(shop: App) -> None:
    shop.open_sync()
    shop.close_sync()

    (_, known) = run_json("tasks", "list", *SHOP)
    assert (known["task"], known["replay_rule"]["probed_at"]) == ("send", None)
    assert "every 60 s; not asked yet" in run("tasks", "list", *SHOP).stdout


def replay(app: App) -> None:
    """Let the probe pass, and the turn be over."""
    told: list[Event] = []
    app.listen(told.append)
    rule = app._replay_rules["send"]
    app._replay_rules["send"] = type(rule)(
        task=rule.task, probe=lambda: True, every=rule.every, limit=100, rate=10
    )
    with sqlite3.connect("shop.db") as own:
        own.execute("UPDATE rowlock_replay_rules SET turn_at = 0")

    async def until_replayed() -> None:
        async with app, app.worker():
            await eventually(
                lambda: any(isinstance(each, ReplayProbed) for each in told)
            )

    asyncio.run(until_replayed())
