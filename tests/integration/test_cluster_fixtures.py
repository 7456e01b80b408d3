"""What a run of the tests sees of Postgres: one server, or a skip, or a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.binaries import NoPostgres, find

from .sessions import environment

CASES = """
import pytest

@pytest.fixture(scope="session")
def prepare_template():
    import psycopg
    def prepare(url):
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE prepared (n int)")
    return prepare

@pytest.mark.parametrize("n", range(6))
def test_database(postgres_url, databases, n):
    import psycopg
    with psycopg.connect(postgres_url) as connection:
        connection.execute("SELECT * FROM prepared")
    print("used", databases.cluster.directory, postgres_url)
"""


def run(folder: Path, *arguments: str, **variables: str) -> str:
    cases = folder / "test_cases.py"
    cases.write_text(CASES)
    # Nobody's settings further up are meant for it.
    (folder / "pytest.ini").write_text("[pytest]\n")
    plugins = ["-p", "tests.cluster_fixtures", "-p", "xdist"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", cases, *plugins, "-rsP", *arguments],
        cwd=folder,
        env=environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", **variables),
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stdout + ran.stderr


def test_the_workers_of_xdist_share_a_server_and_no_database(tmp_path: Path) -> None:
    try:
        find()
    except NoPostgres as error:
        pytest.skip(str(error))

    told = run(tmp_path, "-n2")

    assert "6 passed" in told, told
    used = {tuple(line.split()[1:]) for line in told.splitlines() if "used" in line}
    directories, urls = ({pair[part] for pair in used} for part in (0, 1))
    assert len(directories) == 1
    assert len(urls) == 2
    assert not Path(directories.pop()).exists()


def test_without_postgres_the_tests_are_skipped_in_one_line(tmp_path: Path) -> None:
    told = run(tmp_path, ROWLOCK_TEST_POSTGRES="7")

    assert "6 skipped" in told, told
    lines = [line for line in told.splitlines() if line.startswith("SKIPPED")]
    assert len(lines) == 1
    assert "This machine has no Postgres (7): pip install" in lines[0]
    # Where nobody asks for the reasons it is told too, and once for all files.
    assert "\n6 skipped: This machine has no Postgres (7): pip install" in told


def test_without_postgres_ci_fails(tmp_path: Path) -> None:
    told = run(tmp_path, ROWLOCK_TEST_POSTGRES="7", CI="true")

    assert "6 errors" in told, told
    assert "This machine has no Postgres (7): pip install" in told


def test_a_choice_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="say embedded, system or a major version"):
        find("newest")
