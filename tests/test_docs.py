"""
The pages keep their word: their Python runs, and what they point to exists.

The examples in docstrings are run by pytest itself (`--doctest-modules`).
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
# A sentence that ends in a file's name says where a reader puts the block.
BLOCK = re.compile(
    r"(?:`(?P<file>\w+\.(?:py|toml))`:\n\n)?"
    r"^```(?:python|toml)\n(?P<program>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
COMMAND = re.compile(r"^    ((?:python|rowlock) .+?)(?:  +#.*)?$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)")
WITH_PYTHON = [page for page in PAGES if BLOCK.search(page.read_text())]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name)
def test_the_python_of_a_page_runs_block_by_block(page: Path, tmp_path: Path) -> None:
    for number, block in enumerate(BLOCK.finditer(page.read_text()), start=1):
        file = tmp_path / (block["file"] or f"block_{number}.py")
        file.write_text(block["program"])

        if file.suffix == ".py":
            run([sys.executable, *runner(file.name), file.name], tmp_path)


def runner(file: str) -> list[str]:
    """A file of tests is run as its reader would, by pytest."""
    return ["-m", "pytest", "-q"] if file.startswith("test_") else []


def test_the_commands_of_the_readme_run_a_job(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    block = next(BLOCK.finditer(readme))
    (tmp_path / "shop.py").write_text(block["program"])
    enqueue, work, look = map(shlex.split, COMMAND.findall(readme))

    run(enqueue, tmp_path)
    worker = subprocess.Popen(
        work, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    )
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "receipt for order 42\n"
        worker.send_signal(signal.SIGINT)
        assert worker.wait(timeout=60) == 0
    finally:
        worker.kill()
        worker.communicate()

    assert "succeeded" in run(look, tmp_path)


def environment() -> dict[str, str]:
    """Find `python` and `rowlock` where this test runs, and see prints as they come."""
    here = str(Path(sys.executable).parent)
    return os.environ | {
        "PATH": os.pathsep.join((here, os.environ["PATH"])),
        "PYTHONUNBUFFERED": "1",
    }


def run(command: list[str], folder: Path) -> str:
    ran = subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_points_to_what_exists(page: Path) -> None:
    targets = {page.parent / link for link in LINK.findall(page.read_text())}

    assert not {target for target in targets if not target.exists()}
