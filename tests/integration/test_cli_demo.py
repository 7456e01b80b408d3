"""`rowlock demo`: it ends by itself, shows what it promises, and its advice works."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import tempfile
from pathlib import Path

import click
import pytest

from rowlock.cli.demo import _path_to_add

from .command_line import Command, OnTerminal, fails, run

LONGEST_LINE = 80


@pytest.fixture(scope="module")
def shown() -> str:
    """What a short demo prints."""
    result = run("demo", "--seconds", 3)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


@pytest.mark.parametrize(
    "line",
    [
        r"record   #1 +succeeded in",
        r"announce #\d+ +failure 1, again in 0\.\d s: ConnectionError: chat is away",
        r"announce #\d+ +attempt \d succeeded",
        r"notify   #\d+ +dead letter, after 3 failures: KeyError: 'repository'",
        r"await_ci #\d+ +snoozed, again in",
        r"await_ci #\d+ +attempt \d succeeded",
        r"report   #\d+ +started",
        r"report   #\d+ +succeeded in \d",
        r"-- \d+ pending, \d+ running, \d+ succeeded, \d+ failed",
        r"  job \d+  notify  failed",
        r"    KeyError: 'repository'",
        r"  app.replay\(\d+\)  done",
        r"export   #\d+ +a process of its own starts: \d+",
        r"export   #\d+ +\[#+\.+\] +\d+ %",
        r"export   #\d+ +process \d+ killed; the lease ends within 1 s",
        r"export   #\d+ +recovered: w-\w+ is lost, its lease is over",
        r"export   #\d+ +attempt 2 goes on after \d+ rows",
        r"export   #\d+ +attempt 2 succeeded: 1000 rows, resumed after \d+",
        r"-- .*; \d+/s, waited \d",
        r"1 job recovered from a killed process",
        r"\d+ jobs enqueued; now \d+ pending, \d+ running, \d+ succeeded, 0 failed",
    ],
)
def test_it_shows(shown: str, line: str) -> None:
    assert re.search(line, shown), shown


def test_the_dead_letter_succeeds_once_the_bug_is_mended(shown: str) -> None:
    told, _, after = shown.partition("app.replay(")

    assert "dead letter" in told
    job_id = after.partition(")")[0]
    assert re.search(rf"notify   #{job_id} +attempt 4 succeeded", after)


def test_it_fits_80_columns(shown: str) -> None:
    # The names of the temporary folder and of this checkout are the machine's.
    names = ("sqlite:///", 'File "', "export PATH=")
    lines = [
        line for line in shown.splitlines() if not any(name in line for name in names)
    ]

    assert max(map(len, lines)) <= LONGEST_LINE
    assert not [line for line in lines if line != line.rstrip()]


def test_on_a_terminal_a_panel_stands_beneath_the_lines(
    on_terminal: OnTerminal,
) -> None:
    code, shown = on_terminal("demo", "--seconds", "2")

    assert code == 0
    text = click.unstyle(shown)
    assert re.search(r"\d+ pending, \d+ running, \d+ succeeded, \d+ failed\n", text)
    assert re.search(r"export #\d+  \[#+\.*\] +\d+ %  attempt \d, running", text)
    assert re.search(r"^ +notify #\d+  KeyError: 'repository'$", text, re.MULTILINE)
    assert "  -- " not in text
    # What was drawn is taken away before each line, and at the end.
    erased = re.findall(r"\x1b\[(\d+)A\x1b\[J", shown)
    assert len(erased) > 10
    assert max(map(int, erased)) <= 7
    assert "-----" not in text.partition("What happened")[2]


def test_it_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder))

    assert run("demo", "--seconds", 2).exit_code == 0

    assert list(folder.iterdir()) == []


def test_a_kept_demo_can_be_looked_at_as_it_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder))

    shown = run("demo", "--seconds", 2, "--keep").stdout

    (kept,) = folder.iterdir()
    commands = re.findall(r"^    (cd|rowlock) (.*)$", shown, re.MULTILINE)
    assert ("cd", str(kept)) in commands
    monkeypatch.chdir(kept)
    assert "succeeded" in run("jobs", "list").stdout
    assert "default" in run("stats").stdout
    assert ("rowlock", "jobs list") in commands
    assert ("rowlock", "stats") in commands


def test_what_it_says_to_try_next_works(
    shown: str, folder: Path, start: type[Command]
) -> None:
    advice = shown.partition("put this into shop.py:")[2]
    program, _, rest = advice.partition("and there:")
    (folder / "shop.py").write_text(re.sub(r"^    ", "", program, flags=re.MULTILINE))
    lines = [line.partition("#")[0] for line in rest.splitlines() if line.strip()]
    enqueue, worker, *looks = [shlex.split(line)[1:] for line in lines]

    assert run(*enqueue).stdout == "1\n"
    running = start(*worker)
    running.prints("Hello Ada")
    running.signal(signal.SIGINT)
    assert running.ends() == 0
    for look in looks:
        assert "greet" in run(*look).stdout
        assert "succeeded" in run(*look).stdout


def test_it_says_how_to_reach_rowlock_where_the_path_is_only_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    scripts.mkdir()
    (scripts / "rowlock").touch(mode=0o755)
    monkeypatch.setattr(sys, "prefix", str(folder))
    monkeypatch.setenv("PATH", str(scripts))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    assert _path_to_add() == scripts

    monkeypatch.setenv("VIRTUAL_ENV", str(folder))
    assert _path_to_add() is None


def test_ctrl_c_ends_it_and_removes_its_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, start: type[Command]
) -> None:
    monkeypatch.setenv("TMPDIR", str(folder))

    demo = start("demo", "--seconds", 30)
    demo.prints("succeeded in")
    demo.signal(signal.SIGINT)

    assert demo.ends() == 130
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("seconds", ["0", "-1", "1e9", "long", "nan"])
def test_a_length_that_makes_no_sense_is_refused(seconds: str) -> None:
    assert "--seconds " in fails(2, "demo", "--seconds", seconds)
