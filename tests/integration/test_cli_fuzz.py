"""
Every command with wrong input: one sentence, the right exit code, no traceback.

The commands are found by walking click's own tree, so that a new one is fuzzed from its
first day, on a database in a file and on a server that is out of reach.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rowlock.cli.main import main

from .command_line import SHOP, run

AWAY = "postgresql://ada:hidden@127.0.0.1:1/shop"
# These run until somebody stops them, so each is given something wrong, and last: it
# counts, whatever was said before.
ENDLESS = {
    "worker": ("--no-supervisor", "-A", "nowhere:app"),
    "demo": ("--seconds", "0"),
}

TEXTS = st.one_of(
    st.sampled_from(
        [
            "",
            "0",
            "1",
            "-1",
            "2",
            "99",
            "9" * 40,
            "1.5",
            "nan",
            "inf",
            "1e400",
            "10m",
            "h",
            "-",
            "--",
            "greet",
            "mail",
            "shop:app",
            "shop.py",
            "nowhere:app",
            "shop:nothing",
            "{}",
            '{"name": "Ada"}',
            '{"name": NaN}',
            "[" * 5000,
            "[]",
            "2026-01-31T09:00:00Z",
            "2026-01-31T09:00:00",
            "0001-01-01T00:00:00+23:59",
            "9999-12-31T23:59:59-23:59",
            "sqlite:///shop.db",
            "sqlite:///nowhere.db",
            "sqlite:///.",
            "sqlite://",
            "mongodb://x",
            AWAY,
            "x" * 300,
            "\udcff",  # what Python makes of a byte that is no letter
            "\x1b[31m",
        ]
    ),
    # A process is given no NUL among its arguments.
    st.text(st.characters(exclude_characters="\0"), max_size=12),
    st.integers().map(str),
)
ANSWERS = st.sampled_from([b"", b"y\n", b"n\n", b"\xff", b"{}"])
LIKELY = {
    "app": ["shop:app"],
    "database": ["sqlite:///shop.db"],
    "named_app": ["shop:app"],
    "payload": ['{"name": "Ada"}'],
    "queue": ["mail", "default"],
    "run_at": ["2026-01-31T09:00:00Z"],
    "source": ["sqlite:///shop.db", AWAY],
    "target": ["sqlite:///copy.db", AWAY],
    "task": ["greet"],
}


def leaves(
    group: click.Group = main, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield (*path, name), command


LEAVES = dict(leaves())


@st.composite
def arguments(draw: st.DrawFn, command: click.Command) -> list[str]:
    """Draw what a command takes, with a few things wrong: many hide each other."""
    words: list[str] = []
    options = [param for param in command.params if isinstance(param, click.Option)]
    for option in draw(st.lists(st.sampled_from(options), max_size=4)):
        words.append(draw(st.sampled_from([*option.opts, *option.secondary_opts])))
        if option.name == "follow":
            words.append("--json")  # refused: it would print until it is stopped
        if not option.is_flag:
            words.append(draw(value_of(option)))
    for param in command.params:
        if isinstance(param, click.Argument):
            most = 3 if param.nargs == -1 else 1
            words += draw(st.lists(value_of(param), max_size=most))
    return words + draw(
        st.one_of(st.just([]), st.just([]), st.lists(TEXTS, max_size=1))
    )


def value_of(param: click.Parameter) -> st.SearchStrategy[str]:
    kind = param.type
    likely = (
        list(map(str, kind.choices))
        if isinstance(kind, click.Choice)
        else LIKELY.get(param.name or "", ["1", "10m"])
    )
    return st.one_of(st.sampled_from(likely), st.sampled_from(likely), TEXTS)


@pytest.fixture
def fuzzed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an app and a few jobs."""
    (folder / "shop.py").write_text(SHOP)
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", "sqlite:///shop.db")
    for name in ("Ada", "Bo"):
        payload = json.dumps({"name": name})
        assert run("enqueue", "-A", "shop:app", "greet", payload).exit_code == 0
    return folder


@pytest.mark.parametrize("on", ["sqlite", "away"])
@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
@pytest.mark.usefixtures("fuzzed")
def test_no_input_makes_a_command_fail_otherwise_than_in_one_sentence(
    path: tuple[str, ...], on: str, scale: int
) -> None:
    env = {} if on == "sqlite" else {"ROWLOCK_DATABASE_URL": AWAY}

    @settings(
        max_examples=(40 if on == "sqlite" else 15) * scale,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(words=arguments(LEAVES[path]), stdin=ANSWERS)
    def check(words: list[str], stdin: bytes) -> None:
        fails_well(*path, *words, *ENDLESS.get(path[-1], ()), stdin=stdin, env=env)

    check()


def fails_well(*words: str, stdin: bytes, env: dict[str, str]) -> None:
    result = run(*words, stdin=stdin, env=env)

    assert isinstance(result.exception, SystemExit | None), words
    assert result.exit_code in (0, 1, 2, 3, 4), words
    assert "Traceback" not in result.output
    assert "what it didn't expect" not in result.output
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    if result.exit_code in (2, 4):
        (said,) = errors
        assert result.stdout == ""
        assert said.endswith((".", "?", ")"))
    assert len(errors) <= 1
    assert not any("hidden" in said for said in errors)
    if result.exit_code == 0 and "--json" in words and "--help" not in words:
        json.loads(result.stdout)
