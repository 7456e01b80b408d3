"""The group of commands: help, exit codes, and what every command has."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import rowlock
from rowlock import (
    App,
    ConfigError,
    JobNotFound,
    PayloadError,
    SchemaMismatch,
    StoreUnavailable,
    TaskNotFound,
    UsageError,
)
from rowlock.cli.errors import exit_code, sentence
from rowlock.cli.main import main
from rowlock.cli.table import Column, cells_of, render

from .command_line import fails, run


def commands(
    group: click.Group = main, name: str = "rowlock"
) -> Iterator[tuple[str, click.Command]]:
    for part, command in group.commands.items():
        yield f"{name} {part}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {part}")


COMMANDS = dict(commands())
# They print for people, and log: a worker has --log-format json.
WITHOUT_DOCUMENTS = {"rowlock worker", "rowlock demo"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_an_example_of_itself_in_its_help(name: str) -> None:
    result = run(*name.split()[1:], "--help")

    assert result.exit_code == 0
    assert f"Example: {name}" in " ".join(result.stdout.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_flag_has_its_default_said(name: str) -> None:
    """From click 8.3 on a flag without one may be None."""
    flags = [
        param
        for param in COMMANDS[name].params
        if isinstance(param, click.Option) and param.is_flag
    ]

    assert [flag.name for flag in flags if flag.default is not False] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_option_is_one_sentence_that_names_the_help(name: str) -> None:
    message = fails(2, *name.split()[1:], "--unknown")

    assert "No such option" in message
    assert message.endswith(f"(See {name} --help.)")


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - WITHOUT_DOCUMENTS))
def test_what_prints_has_json_and_jsonl_but_not_both(name: str) -> None:
    command = COMMANDS[name]
    if isinstance(command, click.Group):
        return
    opts = {opt for param in command.params for opt in param.opts}

    assert {"--json", "--jsonl", "--no-color"} <= opts


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_on_its_page(name: str) -> None:
    page = (Path(__file__).parents[2] / "docs/command-line.md").read_text()
    _, group, *verb = name.split()

    assert f"rowlock {group}" in page
    assert not verb or f"`{verb[0]}" in page or f"{group} {verb[0]}" in page


def test_both_json_and_jsonl_are_refused() -> None:
    assert fails(2, "stats", "--json", "--jsonl") == (
        "Say either --json or --jsonl, not both."
    )


def test_an_option_before_its_command_is_told_where_it_goes() -> None:
    assert "It goes behind the command." in fails(2, "-A", "shop:app", "stats")


def test_b135_an_app_named_as_an_argument_is_told_the_other_form() -> None:
    assert "An app is named by -A shop:app." in fails(2, "jobs", "list", "shop:app")


def test_an_error_shows_no_password_that_was_typed() -> None:
    said = fails(2, "stats", "postgresql://ada:hidden@localhost/shop")

    assert "postgresql://ada@localhost/shop" in said


# A bare interpreter, on the machine that the goals are for while it is at rest.
BARE_S = 0.013


@pytest.mark.parametrize(
    ("program", "goal_s"),
    [(("-m", "rowlock", "--help"), 0.2), (("-c", "import rowlock"), 0.1)],
    ids=["help", "import"],
)
def test_help_and_import_are_quick(
    tmp_path: Path, program: tuple[str, ...], goal_s: float
) -> None:
    # As installed: with its bytecode written, by the first of the runs.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def cpu_of(*program: str) -> float:
        before = cpu_of_children()
        ran = [sys.executable, *program]
        subprocess.run(ran, check=True, capture_output=True, env=environment)
        return cpu_of_children() - before

    took = [(cpu_of("-c", "pass"), cpu_of(*program)) for _ in range(5)]
    bare_s, ran_s = map(min, zip(*took, strict=True))

    # A slow machine, or a busy one, is slow in both.
    assert ran_s < goal_s * max(1, bare_s / BARE_S)


def test_help_loads_neither_the_worker_nor_the_demo() -> None:
    program = (
        "import sys\n"
        "from rowlock.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print(*sys.modules)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    loaded = set(ran.stdout.split())
    heavy = {
        *("asyncio", "msgspec", "sqlite3", "tomllib"),
        *("rowlock._worker", "rowlock._store", "rowlock.cli.demo_play"),
        *("rowlock._copy", "rowlock._copying"),
    }
    assert not loaded & heavy


def test_no_command_shows_the_help() -> None:
    result = run()

    assert result.exit_code == 2
    assert "Usage: rowlock" in result.output


def test_the_version_is_the_packages() -> None:
    assert run("--version").stdout == f"rowlock {rowlock.__version__}\n"


def test_an_unknown_command_is_a_usage_error() -> None:
    assert "No such command 'job'" in fails(2, "job")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("x."), 2),
        (UsageError("x."), 2),
        (PayloadError("x."), 2),
        (click.BadParameter("x."), 2),
        (JobNotFound(17), 3),
        (TaskNotFound("x", "x."), 3),
        (StoreUnavailable("x."), 4),
        (SchemaMismatch("x."), 4),
        (PermissionError(13, "Permission denied", "x"), 1),
        (KeyError("x"), 1),
        (ExceptionGroup("of a task group", [ExceptionGroup("", [JobNotFound(1)])]), 3),
        (ExceptionGroup("", [KeyError("x"), StoreUnavailable("x.")]), 4),
    ],
)
def test_the_exit_code_tells_the_kind_of_error(error: Exception, code: int) -> None:
    assert exit_code(error) == code
    assert sentence(error).endswith((".", "shows where."))
    assert "\n" not in sentence(error)


EVERY_COMMAND = """
import click, sys
from rowlock.cli.main import main
def walk(command, path):
    main([*path, "--help"], standalone_mode=False, prog_name="rowlock")
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            walk(command.get_command(context, name), [*path, name])
walk(main, [])
"""
IN_A_THREAD = """
import sys, threading
from rowlock import App
app = App(f"sqlite:///{sys.argv[1]}/jobs.db")
@app.task
def greet() -> None: ...
done = []
def call() -> None:
    done.append(greet.enqueue_sync())
    done.append(len(app.list_sync().jobs))
    app.close_sync()
thread = threading.Thread(target=call)
thread.start()
thread.join()
assert done == [1, 1], done
"""


@pytest.mark.parametrize("program", [EVERY_COMMAND, IN_A_THREAD], ids=["cli", "thread"])
def test_b140_all_commands_and_calls_run_with_warnings_as_errors(
    program: str, tmp_path: Path
) -> None:
    """On each Python that the suite is run on."""
    command = [sys.executable, "-W", "error", "-c", program, str(tmp_path)]

    done = subprocess.run(command, check=False, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", [["jobs", "list"], ["stats"], ["check"]])
def test_b140_a_command_that_reads_runs_with_warnings_as_errors(
    tmp_path: Path, arguments: list[str]
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    with App(url):
        pass
    program = [sys.executable, "-W", "error", "-m", "rowlock", *arguments]

    done = subprocess.run(
        [*program, "--database", url], check=False, capture_output=True, text=True
    )

    assert "Warning" not in done.stderr
    assert done.returncode in {0, 1, 2}, done.stderr


def test_an_error_is_red_where_colours_are_asked_for() -> None:
    asked, refused = {"FORCE_COLOR": "1"}, {"NO_COLOR": "1"}

    assert run("job", env=asked).stderr.startswith("\x1b[31mError:\x1b[0m ")
    assert run("job", env=asked | refused).stderr.startswith("Error: ")
    for args in (("--no-color", "job"), ("jobs", "show", "x", "--no-color")):
        assert run(*args, env=asked).stderr.startswith("Error: ")
    assert run("job", env=asked).stderr.startswith("\x1b[31mError:")


def test_a_table_counts_the_cells_of_wide_letters() -> None:
    columns = [Column("TASK", may_shrink=True), Column("QUEUE")]
    lines = render(columns, [["日本語の仕事の名前", "q"], ["naïve", "r"]], width=20)

    assert [cells_of(line) for line in lines[1:]] == [15 + 1, 15 + 1]


def test_a_table_keeps_what_may_not_be_cut() -> None:
    columns = [Column("ID", is_number=True), Column("ERROR", may_shrink=True)]

    assert render(columns, [["123456", "a long error"]], width=10) == [
        "    ID  ERROR",
        "123456  a long …",
    ]


def test_a_table_without_a_terminal_cuts_nothing() -> None:
    long = "x" * 500

    assert render([Column("ERROR", may_shrink=True)], [[long]], width=None)[1] == long


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
