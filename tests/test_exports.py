"""The public names: listed once, in `rowlock.__all__`, and nothing beside them."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import typing
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

import rowlock

PACKAGE = Path(rowlock.__file__).parent
PUBLIC_MODULES = {"cli", "events", "stores", "testing"}
# What costs time to load and isn't needed to enqueue from a web request.
LOADED_ON_USE = {
    "click",
    "importlib.metadata",
    "rowlock._worker",
    "rowlock.cli",
    "rowlock.testing",
    "sqlite3",
}


def test_what_is_public_is_listed() -> None:
    public = {
        name
        for name, value in vars(rowlock).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and name != "annotations"  # what `from __future__` leaves behind
    }

    assert public == set(rowlock.__all__)


def test_the_list_is_sorted_and_names_each_once() -> None:
    assert list(rowlock.__all__) == sorted(set(rowlock.__all__))


def test_every_other_module_is_private() -> None:
    modules = {path.stem for path in PACKAGE.iterdir() if path.suffix in ("", ".py")}

    public = {name for name in modules if not name.startswith("_")}
    assert public == PUBLIC_MODULES


@pytest.mark.parametrize("name", rowlock.__all__)
def test_every_public_name_has_a_docstring_of_its_own(name: str) -> None:
    docstring = vars(getattr(rowlock, name)).get("__doc__") or getattr(
        getattr(rowlock, name), "__doc__", None
    )

    assert docstring
    # What a dataclass writes for itself says nothing.
    assert not docstring.startswith(f"{name}(")


@pytest.mark.parametrize("name", rowlock.__all__)
def test_the_fields_of_public_values_can_be_resolved(name: str) -> None:
    """Serializers and web frameworks read the annotations of what they are given."""
    value = getattr(rowlock, name)
    if not dataclasses.is_dataclass(value):
        return

    hints = typing.get_type_hints(value)

    assert hints.keys() >= {field.name for field in dataclasses.fields(value)}


def test_importing_rowlock_loads_no_store_and_no_command_line() -> None:
    program = "import sys, rowlock; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    assert not LOADED_ON_USE & set(loaded.stdout.split())


def test_the_version_is_said_once() -> None:
    assert rowlock.__version__ == version("rowlock")
