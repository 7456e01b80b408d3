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
# A sentence that ends in a file's name says where a reader puts the block.
BLOCK = re.compile(
    r"(?:`(?P<file>\w+\.py)`:\n\n)?^```python\n(?P<program>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)")
WITH_PYTHON = [page for page in PAGES if BLOCK.search(page.read_text())]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name)
def test_the_python_of_a_page_runs_block_by_block(page: Path, tmp_path: Path) -> None:
    for number, block in enumerate(BLOCK.finditer(page.read_text()), start=1):
        file = tmp_path / (block["file"] or f"block_{number}.py")
        file.write_text(block["program"])

        ran = subprocess.run(
            [sys.executable, file.name],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

        assert ran.returncode == 0, f"{block[0]}\n{ran.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_points_to_what_exists(page: Path) -> None:
    targets = {page.parent / link for link in LINK.findall(page.read_text())}

    assert not {target for target in targets if not target.exists()}
