"""
The pages keep their word: their Python runs, and what they point to exists.

The examples in docstrings are run by pytest itself (`--doctest-modules`).
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WITH_PYTHON = [page for page in PAGES if BLOCK.search(page.read_text())]
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name)
def test_the_python_of_a_page_runs_in_an_empty_folder(
    page: Path, tmp_path: Path
) -> None:
    """Blocks build on each other, as a reader would type them into one file."""
    program = "\n".join(BLOCK.findall(page.read_text()))

    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_points_to_what_exists(page: Path) -> None:
    targets = {page.parent / link for link in LINK.findall(page.read_text())}

    assert not {target for target in targets if not target.exists()}
