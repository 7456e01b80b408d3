"""
The one place where an error becomes a sentence and an exit code.

0 done, 1 failed, 2 usage, 3 not found, 4 store out of reach or schema not served, 130
interrupted.
"""

from __future__ import annotations

import re

import click

from rowlock._errors import (
    ConfigError,
    JobNotFound,
    PayloadError,
    RowlockError,
    StoreError,
    TaskNotFound,
    UsageError,
)
from rowlock.cli.table import printable

# Click's words where an argument is too much, and it looks like an app's name.
_APP = re.compile(r"unexpected extra argument \(([\w.]+:[\w.]+)\)")

_PASSWORD = re.compile(r"(://[^\s/:@]*):[^\s/@]*@")

DONE, FAILED, USAGE, NOT_FOUND, STORE, INTERRUPTED = 0, 1, 2, 3, 4, 130

# The first that fits counts: TaskNotFound is a ConfigError too.
_CODES: tuple[tuple[tuple[type[Exception], ...], int], ...] = (
    ((JobNotFound, TaskNotFound), NOT_FOUND),
    ((StoreError,), STORE),
    ((ConfigError, UsageError, PayloadError, click.UsageError), USAGE),
)


def exit_code(error: BaseException) -> int:
    """
    Tell the exit code of an error.

        >>> exit_code(JobNotFound(17))
        3
    """
    error = leaf(error)
    return next((code for kinds, code in _CODES if isinstance(error, kinds)), FAILED)


def sentence(error: BaseException) -> str:
    """
    Say an error in one sentence, with what to do.

        >>> sentence(JobNotFound(17))
        'There is no job 17.'
    """
    # What was typed is quoted in many of them, and may hold anything.
    return printable(_PASSWORD.sub(r"\1@", _said(leaf(error))))


def _said(error: BaseException) -> str:
    if isinstance(error, click.UsageError) and error.ctx is not None:
        message = error.format_message().rstrip()
        return f"{message}{_other_form(error)} (See {error.ctx.command_path} --help.)"
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, RowlockError):
        return str(error)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}."
    return (
        f"Rowlock met what it didn't expect, {type(error).__name__}: {error};"
        " `rowlock --debug ...` shows where."
    )


def _other_form(error: click.UsageError) -> str:
    """Name the form that was meant, where an app is named in the wrong place."""
    if isinstance(error, click.NoSuchOption):
        misplaced = error.option_name in ("-A", "--app", "--database")
        is_early = error.ctx is not None and error.ctx.parent is None
        return " It goes behind the command." if misplaced and is_early else ""
    named = _APP.search(error.message)
    return f". An app is named by -A {named[1]}." if named else ""


def leaf(error: BaseException) -> BaseException:
    """Find the error inside groups of them, if there is one that Rowlock explains."""
    while isinstance(error, BaseExceptionGroup):
        inside = error.exceptions
        known = (one for one in inside if isinstance(leaf(one), RowlockError))
        error = next(known, inside[0])
    return error
