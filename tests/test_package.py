"""What is installed: every file of the package, and what it says about itself."""

from __future__ import annotations

import email
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

import rowlock

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d"]
    subprocess.run([*build, str(folder)], cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return ZipFile(built)


def test_the_wheel_holds_every_file_of_the_package(wheel: ZipFile) -> None:
    written = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == written
    assert "rowlock/py.typed" in packed


def test_the_wheel_carries_its_licence_and_the_one_of_the_example_data(
    wheel: ZipFile,
) -> None:
    licences = {
        name.partition("/licenses/")[2]
        for name in wheel.namelist()
        if "/licenses/" in name
    }

    assert licences == {"LICENSE", "src/rowlock/cli/data/NOTICE"}


def test_an_installation_without_extras_needs_two_packages(wheel: ZipFile) -> None:
    (metadata,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    about = email.message_from_bytes(wheel.read(metadata))

    required = [line for line in about.get_all("Requires-Dist", []) if ";" not in line]
    assert about["Version"] == rowlock.__version__
    assert [line.partition(">=")[0] for line in required] == ["click", "msgspec"]
    assert "all" in about.get_all("Provides-Extra", [])
