"""
SQL as files of its store: a statement a file, migrations in numbered files.

Each is read once. A statement comes without its header comment, so that what a trace
shows is the statement alone.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from rowlock._store import Migration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Not importlib.resources, which takes longer to import than all of them to read.
_HERE = Path(__file__).parent
_MIGRATION = re.compile(r"(\d{4})_(\w+)\.sql")


@cache
def statements(package: str) -> Mapping[str, str]:
    """Read the package's `sql/<operation>.sql`, by operation."""
    return MappingProxyType(
        {
            file.name.removesuffix(".sql"): _without_header(file.read_text("utf-8"))
            for file in _files(package, "sql")
            if file.name.endswith(".sql")
        }
    )


@cache
def migrations(package: str) -> tuple[Migration, ...]:
    """Read the package's `migrations/NNNN_name.sql`, oldest first."""
    found = [
        Migration(version=int(match[1]), name=match[2], sql=file.read_text("utf-8"))
        for file in _files(package, "migrations")
        if (match := _MIGRATION.fullmatch(file.name))
    ]
    return tuple(sorted(found, key=lambda migration: migration.version))


def checksum(migration: Migration) -> str:
    """Tell a released migration from one that was changed since."""
    return hashlib.sha256(migration.sql.encode()).hexdigest()


def _files(package: str, folder: str) -> Iterator[Path]:
    return (_HERE / package.rpartition(".")[2] / folder).iterdir()


def _without_header(text: str) -> str:
    lines = text.splitlines()
    while lines and (not lines[0].strip() or lines[0].startswith("--")):
        del lines[0]
    return "\n".join(lines)
