"""
SQL as files of its store: a statement a file, migrations in numbered files.

Each is read once. A statement comes without its header comment, so that what a trace
shows is the statement alone. What several have in common word for word is a part, a
file in `parts/`, whose name in braces is a slot in each of them; it is filled here, the
same whatever is asked.
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
_SLOT = re.compile(r"\{(\w+)\}")


@cache
def statements(package: str) -> Mapping[str, str]:
    """Read the package's `sql/<operation>.sql`, by operation, with parts filled in."""
    parts = _read(package, "parts")

    def fill(slot: re.Match[str]) -> str:
        return parts.get(slot[1], slot[0])

    return MappingProxyType(
        {
            operation: _SLOT.sub(fill, text)
            for operation, text in _read(package, "sql").items()
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


def _read(package: str, folder: str) -> dict[str, str]:
    return {
        file.name.removesuffix(".sql"): _without_header(file.read_text("utf-8"))
        for file in _files(package, folder)
        if file.name.endswith(".sql")
    }


def _files(package: str, folder: str) -> Iterator[Path]:
    return (_HERE / package.rpartition(".")[2] / folder).iterdir()


def _without_header(text: str) -> str:
    lines = text.splitlines()
    while lines and (not lines[0].strip() or lines[0].startswith("--")):
        del lines[0]
    return "\n".join(lines)
