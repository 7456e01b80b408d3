"""
The shape that keeps the code legible: sizes, names, and where SQL may stand.

An exception is listed here with its reason, and goes when the reason does.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowlock.stores import _sql

ROOT = Path(__file__).parent.parent
LONGEST_FILE = 400
LONGEST_FUNCTION = 40

LONG_FILES = {
    "src/rowlock/_store.py": "the seam and its laws are one page to read and implement",
}
LONG_FUNCTIONS: dict[str, str] = {
    "src/rowlock/_filter.py:__init__": "a line for each field, twice",
}

# Names that say nothing of the field, so that everything ends up in them.
EMPTY_NAMES = {
    "base",
    "common",
    "core",
    "helpers",
    "manager",
    "misc",
    "models",
    "shared",
    "types",
    "util",
    "utils",
}

SQL = re.compile(
    r"\b(SELECT|INSERT INTO|INSERT OR|UPDATE \w+ SET|DELETE FROM|RETURNING|JOIN|WHERE"
    r"|(CREATE|DROP|ALTER) (TABLE|VIEW|INDEX|UNIQUE|TRIGGER|SCHEMA|FUNCTION))\b"
)

PYTHON = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
)
STATEMENTS = sorted((ROOT / "src").glob("rowlock/stores/*/sql/*.sql"))
PARTS = sorted((ROOT / "src").glob("rowlock/stores/*/parts/*.sql"))
LONGEST_STATEMENT = 60

LONG_STATEMENTS = {
    f"src/rowlock/stores/{operation}.sql": reason
    for operation, reason in {
        "postgres/sql/cancel": "a job changes its table, or keeps its key where it is",
        "postgres/sql/claim": "a claim is one statement, with the pauses that bind it",
        "postgres/sql/complete": "a success moves, or stays where its key is",
        "postgres/sql/enqueue_keyed": "who holds a key in vain goes by the same one",
        "postgres/sql/finish": "a job changes its table of two in one statement",
        "postgres/sql/replay": "a job comes back from either table, in one statement",
        "sqlite/sql/damaged": "it says of each column what a hand may have made of it",
    }.items()
}
LAWS = 21


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", PYTHON, ids=name)
def test_a_file_fits_on_a_few_screens(path: Path) -> None:
    lines = len(path.read_text().splitlines())

    if name(path) in LONG_FILES:
        assert lines > LONGEST_FILE, "it is short again: take it off the list"
    else:
        assert lines <= LONGEST_FILE


@pytest.mark.parametrize("path", PYTHON, ids=name)
def test_a_function_fits_on_one_screen(path: Path) -> None:
    long = {
        f"{name(path)}:{function.name}": lines
        for function in functions(path)
        if (lines := body_length(function)) > LONGEST_FUNCTION
    }

    expected = {key for key in LONG_FUNCTIONS if key.startswith(f"{name(path)}:")}
    assert long.keys() == expected, long


@pytest.mark.parametrize("path", PYTHON, ids=name)
def test_a_module_is_named_after_what_it_holds(path: Path) -> None:
    words = {part.strip("_") for part in path.relative_to(ROOT).with_suffix("").parts}

    assert not words & EMPTY_NAMES


def test_listed_exceptions_exist() -> None:
    listed = {entry.split(":")[0] for entry in (*LONG_FILES, *LONG_FUNCTIONS)}

    assert listed <= {name(path) for path in PYTHON}
    assert LONG_STATEMENTS.keys() <= {name(path) for path in STATEMENTS}


@pytest.mark.parametrize("path", sorted((ROOT / "src").rglob("*.py")), ids=name)
def test_sql_stands_in_files_of_its_own(path: Path) -> None:
    found = [f"line {line}: {text!r}" for line, text in texts(path) if SQL.search(text)]

    assert not found


@pytest.mark.parametrize("path", STATEMENTS, ids=name)
def test_a_statement_stands_alone_in_its_file(path: Path) -> None:
    header, body = split(path)

    assert body.rstrip().endswith(";")
    assert body.count(";") == 1
    lines = len((header + body).splitlines())
    if name(path) in LONG_STATEMENTS:
        assert lines > LONGEST_STATEMENT, "it is short again: take it off the list"
    else:
        assert lines <= LONGEST_STATEMENT


@pytest.mark.parametrize("path", PARTS, ids=name)
def test_a_part_is_of_several_statements_which_name_it(path: Path) -> None:
    header, body = split(path)
    slot = f"{{{path.stem}}}"
    beside = [file for file in STATEMENTS if file.parents[1] == path.parents[1]]
    users = [split(file) for file in beside if slot in file.read_text()]

    assert slot in header
    assert ";" not in body
    assert len(users) > 1
    for its_header, its_body in users:
        assert f"parts/{path.name}" in its_header
        assert its_body.count(slot) == 1
    filled = _sql.statements(f"rowlock.stores.{path.parents[1].name}").values()
    assert sum(body.rstrip() in text for text in filled) == len(users)
    assert not any(slot in text for text in filled)


@pytest.mark.parametrize("path", STATEMENTS, ids=name)
def test_a_statement_says_what_it_locks(path: Path) -> None:
    header, _ = split(path)

    assert re.search(r"\b[Ll]ocks?\b", header)


@pytest.mark.parametrize("path", STATEMENTS, ids=name)
def test_a_statement_names_indexes_and_laws_that_there_are(path: Path) -> None:
    header, _ = split(path)
    migrations = (path.parent.parent / "migrations").glob("*.sql")
    indexes = {
        index
        for migration in migrations
        for index in re.findall(
            r"CREATE (?:UNIQUE )?INDEX (\w+)", migration.read_text()
        )
    }

    laws = re.findall(r"laws? ((?:\d+(?:, | and )?)+)", header)
    assert set(re.findall(r"\b(?:rowlock|live|history)_\w+", header)) <= indexes
    assert {int(law) for text in laws for law in re.findall(r"\d+", text)} <= set(
        range(1, LAWS + 1)
    )


def split(path: Path) -> tuple[str, str]:
    """Part a statement from the comment that it begins with."""
    lines = path.read_text().splitlines(keepends=True)
    end = next(n for n, line in enumerate(lines) if not line.startswith("--"))
    return "".join(lines[:end]), "".join(lines[end:])


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def body_length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines from `def` to the end, less those of the docstring."""
    end = function.end_lineno or function.lineno
    lines = end - function.lineno + 1
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        lines -= (docstring.end_lineno or 0) - docstring.lineno + 1
    return lines


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Find the texts of a module that aren't docstrings, each with its line."""
    tree = ast.parse(path.read_text())
    docstrings = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str() as text) if id(node) not in docstrings:
                yield node.lineno, text
