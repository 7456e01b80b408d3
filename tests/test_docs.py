"""
The pages keep their word: their Python and their commands run, and what they point
to exists.

The examples in docstrings are run by pytest itself (`--doctest-modules`).
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

import rowlock
from rowlock import events, testing
from tests import transcripts

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
# A sentence that ends in a file's name says where a reader puts the block.
BLOCK = re.compile(
    r"(?:`(?P<file>\w+\.(?:py|toml))`:\n\n)?"
    r"^```(?P<kind>python|toml|console)\n(?P<program>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
COMMAND = re.compile(r"^    ((?:python|rowlock) .+?)(?:  +#.*)?$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)")
WITH_BLOCKS = [page for page in PAGES if BLOCK.search(page.read_text())]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=name)
def test_a_page_runs_block_by_block(page: Path, tmp_path: Path) -> None:
    follow(page, tmp_path, environment())


@pytest.mark.timeout(600)
def test_a_newcomer_gets_through_the_tutorial(tmp_path: Path, scale: int) -> None:
    if scale == 1:
        pytest.skip("installs Rowlock from the package index: --slow")
    programs = tmp_path / ".venv" / "bin"
    run([sys.executable, "-m", "venv", ".venv"], tmp_path)
    run([str(programs / "pip"), "install", "-q", str(ROOT), "pytest"], tmp_path)

    follow(ROOT / "docs" / "tutorial.md", tmp_path, environment(programs))


def follow(page: Path, folder: Path, environment: Mapping[str, str]) -> None:
    """Do in a folder what a page shows, from its first block to its last."""
    blocks = list(BLOCK.finditer(page.read_text()))
    # A page that shows its commands says itself when a file is run.
    has_commands = any(block["kind"] == "console" for block in blocks)
    for number, block in enumerate(blocks, start=1):
        if block["kind"] == "console":
            for command in transcripts.commands(block["program"]):
                transcripts.check(command, folder, environment)
            continue
        file = folder / (block["file"] or f"block_{number}.py")
        file.write_text(block["program"])

        if file.suffix == ".py" and not (has_commands and block["file"]):
            run([sys.executable, *runner(file.name), file.name], folder)


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


def environment(programs: Path = Path(sys.executable).parent) -> dict[str, str]:
    """Find `python` and `rowlock` there, and see prints as they come."""
    return os.environ | {
        "PATH": os.pathsep.join((str(programs), os.environ["PATH"])),
        "PYTHONUNBUFFERED": "1",
    }


def run(command: list[str], folder: Path) -> str:
    ran = subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_points_to_what_exists(page: Path) -> None:
    targets = {page.parent / link for link in LINK.findall(page.read_text())}

    assert not {target for target in targets if not target.exists()}


def test_the_reference_has_every_public_name() -> None:
    shown = [
        name
        for page in (ROOT / "docs" / "reference").glob("*.md")
        for name in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.MULTILINE)
    ]

    assert sorted(shown) == sorted(
        f"{module.__name__}.{name}"
        for module in (rowlock, events, testing)
        for name in module.__all__
    )


def test_every_page_is_in_the_menu() -> None:
    settings = tomllib.loads((ROOT / "zensical.toml").read_text())
    listed = set(re.findall(r"[\w/-]+\.md", str(settings["project"]["nav"])))
    docs = ROOT / "docs"
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}

    # Decisions are found by the search: a list would be one more place to keep.
    assert listed == {page for page in pages if not re.match(r"decisions/\d", page)}


@pytest.mark.parametrize(
    ("shown", "seen"),
    [
        ("job 1\n", "job 2\n"),
        ("a\n...\nb\n", "a\nc\n"),
        ("due 3 s ago\n", "due 3 h ago\n"),
        ("a\n", "a\nb\n"),
    ],
)
def test_a_transcript_that_differs_is_noticed(shown: str, seen: str) -> None:
    assert not transcripts.pattern(shown).fullmatch(transcripts.steady(seen))
