"""The page on transactions keeps its word on Postgres, too."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from rowlock import App

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "transactions.md"
# What the test of all pages leaves, since it has no server.
BLOCK = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_what_the_page_shows_of_postgres_runs(tmp_path: Path, url: str) -> None:
    (program,) = BLOCK.findall(PAGE.read_text())
    file = tmp_path / "orders.py"
    file.write_text(program.replace("postgresql:///shop", url))
    subprocess.run([sys.executable, "-W", "error", file], timeout=60, check=True)

    app = App(url)
    assert {job.payload["order_id"] for job in app.list_sync().jobs} == {42, 43, 44}
    app.close_sync()
