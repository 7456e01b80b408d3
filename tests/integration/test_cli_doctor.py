"""`rowlock doctor`: what it prints, and how it ends."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rowlock import App, Finding

from .command_line import OnTerminal, fails, run

WRONG = Finding(
    about="tasks",
    severity="wrong",
    what="No live worker has the task 'greet', of which 1 job is due.",
    cure="Start a worker of the app that registers it, as by `rowlock worker shop:app`,"
    " or look with `rowlock tasks list` whether it was renamed.",
)


@pytest.fixture
def fresh(shop: Path) -> Path:
    """A folder with an app, and its database without a job."""
    app = App("sqlite:///shop.db")
    app.open_sync()
    app.close_sync()
    return shop


@pytest.fixture
def neglected(fresh: Path) -> Path:
    """The same with a job that nobody runs."""
    assert run("enqueue", "-A", "shop:app", "greet", '{"name": "Ada"}').exit_code == 0
    return fresh


@pytest.mark.usefixtures("fresh")
def test_a_fresh_database_has_nothing_wrong() -> None:
    result = run("doctor", "-A", "shop:app")

    assert result.exit_code == 0
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert "ok       The file is whole." in lines
    assert lines[-1] in {"All is well.", "Nothing is wrong; 1 warning."}


@pytest.mark.usefixtures("neglected")
def test_what_is_wrong_comes_first_with_its_cure_and_ends_with_1() -> None:
    result = run("doctor", "-A", "shop:app")

    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == f"wrong    {WRONG.what}"
    assert lines[1] == f"         {WRONG.cure}"
    assert lines[-1] == "1 thing is wrong."


@pytest.mark.usefixtures("neglected")
def test_scripts_get_all_findings() -> None:
    whole = run("doctor", "-A", "shop:app", "--json")
    lines = run("doctor", "-A", "shop:app", "--jsonl")

    assert whole.exit_code == lines.exit_code == 1
    findings = json.loads(whole.stdout)
    # But for how much of the disk is left, which others use as well.
    steady = re.sub(r"has [\d,]+ MB", "has MB", lines.stdout)
    left = re.sub(r"has [\d,]+ MB", "has MB", whole.stdout)
    assert [json.loads(line) for line in steady.splitlines()] == json.loads(left)
    assert findings[0] == {
        "about": "tasks",
        "severity": "wrong",
        "what": WRONG.what,
        "cure": WRONG.cure,
    }
    assert findings[-1]["cure"] is None


@pytest.mark.usefixtures("neglected")
def test_a_terminal_shows_colours_and_no_broken_word(on_terminal: OnTerminal) -> None:
    code, shown = on_terminal("doctor", "-A", "shop:app")

    assert code == 1
    assert "\x1b[31mwrong   \x1b[0m No live worker has the task" in shown
    assert "\x1b[32mok      \x1b[0m The file is whole." in shown
    _, plain = on_terminal("doctor", "-A", "shop:app", "--no-color")
    assert "\x1b" not in plain
    # The path of a test's folder is a word that may be longer.
    assert max(len(line) for line in plain.splitlines() if "/" not in line) <= 80
    assert " ".join(plain.split()).startswith(f"wrong {WRONG.what} {WRONG.cure}")


@pytest.mark.usefixtures("folder")
def test_what_is_out_of_reach_ends_with_4() -> None:
    away = "postgresql://ada:hidden@127.0.0.1:1/shop"

    said = fails(4, "doctor", "--database", away)

    assert said.startswith("The database postgresql://ada@127.0.0.1:1/shop is out of")
    assert "There is no database" in fails(4, "doctor", "--database", "sqlite:///x.db")


@pytest.mark.usefixtures("folder")
def test_what_cannot_be_examined_ends_with_2(folder: Path) -> None:
    (folder / "notes.db").write_text("not a database" * 100)

    assert "isn't an SQLite" in fails(2, "doctor", "--database", "sqlite:///notes.db")
    assert "in memory" in fails(2, "doctor", "--database", "sqlite://")
    assert "unexpected" in fails(2, "doctor", "everything")
