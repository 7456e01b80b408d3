"""`rowlock enqueue`: what it takes, what it prints, what it refuses."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from rowlock import PayloadError
from rowlock.cli.discovery import load

from .command_line import fails, run, run_json

pytestmark = pytest.mark.usefixtures("shop")

ENQUEUE = ("enqueue", "-A", "shop:app")
GREET = (*ENQUEUE, "greet", '{"name": "Ada"}')


def job(job_id: int) -> Any:  # noqa: ANN401 - JSON has no narrower type
    return run_json("jobs", "show", job_id, "-A", "shop")


def test_it_prints_the_id_and_nothing_else_on_stdout() -> None:
    first, second = run(*GREET), run(*GREET)

    assert (first.exit_code, first.stdout) == (0, "1\n")
    assert (second.exit_code, second.stdout, second.stderr) == (0, "2\n", "")


def test_a_new_file_is_said_to_be_one(folder: Path) -> None:
    assert run(*GREET).stderr == f"Made a new, empty database: {folder}/shop.db\n"


def test_a_file_may_have_any_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A URL writes the space, the accent and the percent sign in another way.
    name = "Ada's jöbs 100%.db"
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", f"sqlite:///{quote(name)}")
    (folder / "any.py").write_text(
        "from rowlock import App\n\napp = App()\n\n@app.task\ndef note(): ...\n"
    )

    made = run("enqueue", "-A", "any:app", "note")

    assert made.stderr == f"Made a new, empty database: {folder}/{name}\n"
    (listed,) = run_json("jobs", "list")["jobs"]
    assert listed["task"] == "note"


def test_the_payload_may_be_left_out_or_come_from_stdin() -> None:
    run(*ENQUEUE, "die")
    run(*ENQUEUE, "greet", "-", stdin='{"name": "Bo"}')

    assert job(1)["payload"] == {}
    assert job(2)["payload"] == {"name": "Bo"}


def test_every_option_reaches_the_job() -> None:
    options = (
        "--queue",
        "slow",
        "--priority",
        -7,
        "--max-attempts",
        9,
        "--idempotency-key",
        "k",
    )
    run(*GREET, *options, "--delay", "90.5")

    made = job(1)
    assert made["queue"] == "slow"
    assert made["priority"] == -7
    assert made["max_attempts"] == 9
    assert made["idempotency_key"] == "k"
    at = [datetime.fromisoformat(made[name]) for name in ("run_at", "created_at")]
    assert (at[0] - at[1]).total_seconds() == 90.5


def test_what_is_not_said_is_the_tasks_own() -> None:
    run(*GREET)

    made = job(1)
    assert made["queue"] == "mail"
    assert (made["priority"], made["max_attempts"]) == (0, 3)


def test_an_instant_with_a_zone_is_taken_as_it_is() -> None:
    run(*GREET, "--run-at", "2031-01-31T10:00:00+01:00")

    at = datetime.fromisoformat(job(1)["run_at"])
    assert at == datetime(2031, 1, 31, 9, tzinfo=UTC)


def test_a_duplicate_is_said_to_be_one_with_the_job_that_holds_the_key() -> None:
    run(*GREET, "--idempotency-key", "k")
    result = run(*GREET, "--idempotency-key", "k")

    assert (result.exit_code, result.stdout) == (0, "")
    assert "A duplicate" in result.stderr
    assert "job 1 of 'greet' holds the key 'k'" in result.stderr


def test_a_key_is_kept_after_the_end_of_its_job() -> None:
    run(*GREET, "--idempotency-key", "k", "--idempotency-for", "30d")
    run("jobs", "cancel", 1, "--yes", "-A", "shop:app")
    result = run(*GREET, "--idempotency-key", "k")

    assert (result.exit_code, result.stdout) == (0, "")
    assert "job 1 of 'greet' holds the key 'k'" in result.stderr
    assert job(1)["key_until"] is not None


def test_a_conflict_is_refused_or_replaces_a_pending_job() -> None:
    run(*GREET, "--idempotency-key", "k", "--delay", "1h")
    bo = (
        *ENQUEUE,
        "greet",
        '{"name": "Bo"}',
        "--idempotency-key",
        "k",
        "--on-conflict",
    )

    said = fails(1, *bo, "raise")
    assert said.startswith("Job 1 of 'greet' holds the key 'k', with another payload")
    assert job(1)["payload"] == {"name": "Ada"}

    result = run(*bo, "replace")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("No new job: job 1 of 'greet' holds the key 'k'")
    assert job(1)["payload"] == {"name": "Bo"}


@pytest.mark.parametrize(
    "said", [("--idempotency-for", "1h"), ("--on-conflict", "raise")]
)
def test_what_is_of_a_key_needs_one(said: tuple[str, str]) -> None:
    assert "say --idempotency-key, too" in fails(2, *GREET, *said)


def test_json_says_the_same() -> None:
    assert run_json(*GREET, "--idempotency-key", "k") == {
        "job_id": 1,
        "duplicate": False,
        "held_by": None,
    }
    assert run_json(*GREET, "--idempotency-key", "k") == {
        "job_id": None,
        "duplicate": True,
        "held_by": 1,
    }


def test_a_wrong_argument_is_refused_in_the_words_of_a_call_from_python() -> None:
    said = fails(2, *ENQUEUE, "greet", '{"name": 17}')

    with pytest.raises(PayloadError) as refused:
        load("shop:app").tasks["greet"].job(name=17)
    assert said == str(refused.value)


def test_an_unknown_task_is_not_found_and_the_nearest_named() -> None:
    message = fails(3, *ENQUEUE, "gret", '{"name": "Ada"}')

    assert message == "This app has no task 'gret'; did you mean 'greet'?"


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ('{"name": }', "isn't JSON: Expecting value at line 1, column 10."),
        ('{"name":\n 1,}', "at line 2, column"),
        ("", "isn't JSON"),
        ("[1]", "must be a JSON object"),
        ('"Ada"', "it is a string"),
        ("17", "it is a number"),
        ("true", "it is a boolean"),
        ("null", "it is null"),
        ('{"times": NaN}', "it holds NaN"),
        ('{"name": "a", "name": "b"}', "has 'name' twice"),
        ("[" * 100_000, "nested too deeply"),
        ('{"name": ' + "9" * 4301 + "}", "a number that Python won't read"),
        ('{"name": 3}', "`$.name` doesn't fit"),
        ('{"nome": "Ada"}', "doesn't fit"),
        ("{}", "doesn't fit"),
        ('{"name": "a\\u0000"}', "can't be stored"),
        ('{"name": "\\ud800"}', "."),
        (f'{{"name": "{"x" * 2_000_000}"}}', "max_payload"),
    ],
    ids=lambda value: value[:20],
)
def test_a_payload_that_does_not_fit_is_refused_and_nothing_is_enqueued(
    payload: str, said: str
) -> None:
    run(*GREET)

    assert said in fails(2, *ENQUEUE, "greet", payload)
    assert len(run_json("jobs", "list", "-A", "shop")["jobs"]) == 1


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--delay", "-1", "--delay can't be negative; it was -1 s."),
        ("--delay", "nan", "--delay takes a finite number"),
        ("--delay", "1e300", "longer than a century"),
        ("--delay", "1y", "--delay takes a number of seconds, or a duration"),
        ("--run-at", "2031-01-31T10:00:00", "--run-at has no time zone"),
        ("--run-at", "tomorrow", "--run-at takes an instant"),
        ("--priority", "101", "not in the range"),
        ("--priority", "high", "not a valid integer"),
        ("--max-attempts", "0", "not in the range"),
        ("--max-attempts", str(2**40), "not in the range"),
        ("--queue", "", "--queue takes a text that isn't empty"),
        (
            "--idempotency-key",
            "x" * 201,
            "--idempotency-key has at most 200 characters",
        ),
        ("--idempotency-key", os.fsdecode(b"\xff"), "lone surrogate"),
        ("--kye", "x", "No such option"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(
    option: str, value: str, said: str
) -> None:
    assert said in fails(2, *GREET, option, value)


def test_delay_and_run_at_exclude_each_other() -> None:
    options = ("--delay", 1, "--run-at", "2031-01-31T10:00:00Z")

    assert fails(2, *GREET, *options) == "Say either --delay or --run-at, not both."


def test_a_file_that_cannot_be_written_is_named(folder: Path) -> None:
    (folder / "shop.db").mkdir()

    assert f"{folder}/shop.db is a folder" in fails(2, *GREET)


def test_a_file_in_a_folder_that_is_missing_is_named(folder: Path) -> None:
    program = (folder / "shop.py").read_text().replace("shop.db", "gone/shop.db")
    (folder / "shop.py").write_text(program)

    assert f"there is no folder {folder}/gone" in fails(2, *GREET)


def test_a_file_that_is_no_database_is_named(folder: Path) -> None:
    (folder / "shop.db").write_text("These are no jobs.\n" * 99)

    assert f"{folder}/shop.db isn't an SQLite database" in fails(2, *GREET)
