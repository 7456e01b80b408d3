"""Every error that SQLite can give has its place among Rowlock's."""

from __future__ import annotations

import sqlite3

import pytest

from rowlock._errors import (
    ConfigError,
    OutcomeUnknown,
    RowlockError,
    StoreError,
    StoreUnavailable,
)
from rowlock.stores.sqlite import errors

# SQLite's primary result codes, those that sqlite.org/rescode.html lists as errors.
NAMES = """
    ERROR INTERNAL PERM ABORT BUSY LOCKED NOMEM READONLY INTERRUPT IOERR CORRUPT
    NOTFOUND FULL CANTOPEN PROTOCOL EMPTY SCHEMA TOOBIG CONSTRAINT MISMATCH MISUSE
    NOLFS AUTH FORMAT RANGE NOTADB
"""
CODES = {f"SQLITE_{name}": getattr(sqlite3, f"SQLITE_{name}") for name in NAMES.split()}

PASSING = {
    "SQLITE_BUSY",
    "SQLITE_CANTOPEN",
    "SQLITE_FULL",
    "SQLITE_INTERRUPT",
    "SQLITE_IOERR",
    "SQLITE_LOCKED",
    "SQLITE_NOMEM",
    "SQLITE_PERM",
    "SQLITE_PROTOCOL",
    "SQLITE_READONLY",
    "SQLITE_SCHEMA",
}
TO_CORRECT = {
    "SQLITE_AUTH",
    "SQLITE_CANTOPEN",
    "SQLITE_CORRUPT",
    "SQLITE_NOTADB",
    "SQLITE_PERM",
    "SQLITE_READONLY",
}


def error(
    code: int, kind: type[sqlite3.Error] = sqlite3.OperationalError
) -> sqlite3.Error:
    made = kind("what SQLite says")
    made.sqlite_errorcode = code
    return made


def test_the_codes_are_all_there() -> None:
    assert sorted(CODES.values()) == list(range(1, 27))


@pytest.mark.parametrize("name", CODES)
def test_while_running_an_error_is_passing_or_not(name: str) -> None:
    translated = errors.translate(error(CODES[name]), "/srv/jobs.db")

    assert type(translated) is (StoreUnavailable if name in PASSING else StoreError)
    assert "/srv/jobs.db" in str(translated)
    assert "what SQLite says" in str(translated)
    assert "\n" not in str(translated)


@pytest.mark.parametrize("name", CODES)
def test_while_opening_what_must_be_corrected_says_so(name: str) -> None:
    translated = errors.translate(error(CODES[name]), "/srv/jobs.db", opening=True)

    if name in TO_CORRECT:
        assert type(translated) is ConfigError
    else:
        assert type(translated) is (StoreUnavailable if name in PASSING else StoreError)


@pytest.mark.parametrize("name", CODES)
def test_a_commit_that_failed_may_stand_unless_it_cannot(name: str) -> None:
    translated = errors.translate_commit(error(CODES[name]), "/srv/jobs.db")

    cannot = name in ("SQLITE_FULL", "SQLITE_BUSY")
    assert type(translated) is (StoreUnavailable if cannot else OutcomeUnknown)
    assert "/srv/jobs.db" in str(translated)


def test_an_extended_code_counts_as_its_primary_one() -> None:
    assert isinstance(
        errors.translate(error(sqlite3.SQLITE_BUSY_SNAPSHOT), "x"), StoreUnavailable
    )
    assert isinstance(
        errors.translate(error(sqlite3.SQLITE_READONLY_DIRECTORY), "x", opening=True),
        ConfigError,
    )


def classes(root: type[Exception]) -> set[type[Exception]]:
    return {root}.union(*(classes(each) for each in root.__subclasses__()))


@pytest.mark.parametrize("kind", sorted(classes(sqlite3.Error), key=str))
def test_an_error_of_any_class_without_a_code_is_an_error_of_ours(
    kind: type[sqlite3.Error],
) -> None:
    translated = errors.translate(kind("Cannot operate on a closed database."), "x")

    assert type(translated) is StoreError
    assert isinstance(translated, RowlockError)
