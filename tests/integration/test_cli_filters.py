"""The filter of `rowlock jobs`, option by option, and a list that is followed."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from .command_line import Command, fails, run
from .test_cli_jobs import SHOP, enqueue, ids, work


@pytest.fixture
def jobs(shop: Path) -> Path:
    """Jobs 1 (succeeded), 2 (failed), 3 (pending, with a key), 4 (pending, later)."""
    enqueue("greet", '{"name": "Ada"}')
    enqueue("die", '{"reason": "no such order"}')
    work()
    enqueue("greet", '{"name": "Bo"}', "--idempotency-key", "k", "--delay", 100)
    enqueue("greet", '{"name": "Cy"}', "--queue", "slow", "--delay", 100)
    return shop


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ((2, 4, 999), [4, 2]),
        ((2, 4, "--task", "greet"), [4]),
        (("--error", "no such"), [2]),
        (("--error", "NO SUCH"), []),
        (("--error-type", "Unrecoverable"), [2]),
        (("--priority", 0), [4, 3, 2, 1]),
        (("--priority", "1.."), []),
        (("--attempts", "1.."), [2, 1]),
        (("--attempts", "..0"), [4, 3]),
        (("--worker", "nobody"), []),
        (("--younger-than", "1h"), [4, 3, 2, 1]),
        (("--older-than", "1h"), []),
        (("--finished-younger-than", "1h"), [2, 1]),
        (("--finished-older-than", "1h"), []),
        (("--payload", "name=Ada"), [1]),
        (("--payload", 'name="Ada"', "--status", "succeeded"), [1]),
        (("--payload", "name=Ada", "--payload", "times=1"), []),
        (("--payload", "name.first=Ada"), []),
    ],
)
@pytest.mark.usefixtures("jobs")
def test_every_field_of_a_filter_has_an_option(
    options: tuple[object, ...], found: list[int]
) -> None:
    assert ids(*options) == found


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--priority", "high"), "--priority takes a whole number, or a range"),
        (("--attempts", "5..3"), "--attempts takes a whole number, or a range"),
        (("--payload", "name"), "--payload takes a field and its value"),
        (("--payload", "=Ada"), "--payload takes a field and its value"),
        (("--payload", "a=1", "--payload", "a=2"), "each field once"),
        (("--payload", "a=1", "--payload", "a.b=2"), "each field once"),
        (("--payload", "a=[1]"), "compares texts, numbers, true, false and null"),
        (("--error", ""), "--error"),
        (("--younger-than", "soon"), "--younger-than takes a number of seconds"),
        (("--follow", "--json"), "--follow has no end"),
        (("--follow", "--after", 3), "--follow has no end"),
    ],
)
@pytest.mark.usefixtures("jobs")
def test_a_filter_that_cant_be_meant_is_refused(
    options: tuple[object, ...], said: str
) -> None:
    assert said in fails(2, "jobs", "list", *SHOP, *options)


@pytest.mark.usefixtures("jobs")
def test_a_list_that_is_followed_shows_what_comes_and_changes(
    start: type[Command],
) -> None:
    following = start("jobs", "list", *SHOP, "--follow", "--task", "greet", "--jsonl")
    following.prints('"id":4')
    assert [json.loads(line)["id"] for line in following.lines] == [1, 3, 4]

    five = enqueue("greet", '{"name": "Di"}', "--delay", 100)
    following.prints(f'"id":{five}')
    run("jobs", "cancel", 3, *SHOP)
    following.prints('"status":"cancelled"')
    following.signal(signal.SIGINT)

    assert following.ends() == 130
    jobs = [json.loads(line) for line in following.lines if line.startswith("{")]
    assert [(job["id"], job["status"]) for job in jobs[3:]] == [
        (five, "pending"),
        (3, "cancelled"),
    ]


@pytest.mark.usefixtures("jobs")
def test_a_followed_table_has_one_title(start: type[Command]) -> None:
    following = start("jobs", "list", *SHOP, "--follow", "--limit", 1)
    following.prints("pending")
    enqueue("die", "{}", "--delay", 100)
    following.prints("die")
    following.signal(signal.SIGTERM)
    following.ends()

    assert sum("STATUS" in line for line in following.lines) == 1
    assert sum("due in" in line for line in following.lines) == 2


@pytest.mark.usefixtures("jobs")
def test_a_followed_list_shows_an_old_job_that_comes_to_fit(
    start: type[Command],
) -> None:
    for _ in range(3):
        enqueue("die", "{}")
    work()
    options = ("--status", "failed", "--limit", 1, "--jsonl")
    following = start("jobs", "list", *SHOP, "--follow", *options)
    following.prints('"status":"failed"')
    assert run("jobs", "replay", 2, *SHOP).exit_code == 0
    time.sleep(2.5)  # until it has been seen to be gone: it looks every second
    work()
    following.prints('"id":2,')
    following.signal(signal.SIGINT)

    # The jobs' own tracebacks are in what it prints.
    assert following.ends(with_traceback=True) == 130


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--task", "gret"), "has a task 'gret'; did you mean 'greet'?"),
        (("--queue", "xyz"), "has a queue 'xyz'."),
    ],
)
@pytest.mark.usefixtures("jobs")
def test_a_filter_that_nobody_knows_is_doubted(
    options: tuple[str, str], said: str
) -> None:
    result = run("jobs", "list", *SHOP, *options)

    assert result.exit_code == 0
    assert said in result.stderr
    assert run("jobs", "list", *SHOP, "--task", "greet", "--queue", "slow").stdout
