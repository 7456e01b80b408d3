"""The examples do what they say, each as a process of its own in an empty folder."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import on_postgres

EXAMPLES = Path(__file__).parent.parent / "examples"
PROGRAMS = sorted(path.name for path in EXAMPLES.glob("*.py"))


def run(name: str, folder: Path, *arguments: str) -> list[str]:
    ran = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.splitlines()


def test_each_example_is_listed_and_proved() -> None:
    readme = (EXAMPLES / "README.md").read_text()
    tests = Path(__file__).read_text()

    assert re.findall(r"\]\((\w+\.py)\)", readme)
    assert set(re.findall(r"\]\((\w+\.py)\)", readme)) == set(PROGRAMS)
    assert not [name for name in PROGRAMS if f'"{name}"' not in tests]


def test_an_order_and_its_job_are_one_in_sqlite(tmp_path: Path) -> None:
    assert run("orders_sqlite.py", tmp_path) == [
        "order 1",
        "order None",
        "jobs [{'order_id': 1}]",
    ]


@pytest.mark.usefixtures("postgres_server")
def test_an_order_and_its_job_are_one_in_postgres(tmp_path: Path) -> None:
    with on_postgres.database(tmp_path) as url:
        lines = run("orders_postgres.py", tmp_path, url)

    assert lines == ["order 1", "order None", "jobs [{'order_id': 1}]"]


def test_an_import_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    assert run("import_rows.py", tmp_path, "10000") == [
        "attempt 1 begins after row 0",
        "attempt 2 begins after row 5000",
        "succeeded after 2 attempts, the last of 5000 rows",
        "customers: 10000",
    ]


def test_a_flaky_service_costs_retries_and_what_it_refuses_none(tmp_path: Path) -> None:
    first, *dead = run("flaky.py", tmp_path, "50")

    rate = re.fullmatch(r"50 jobs, \d+ attempts: (\d\.\d) a job", first)
    assert rate
    assert 1 < float(rate[1]) < 3
    refused = [line for line in dead if line.startswith("dead after 1: Unrecoverable")]
    assert len(refused) == 1
    others = [line for line in dead if line not in refused]
    assert all(line.startswith("dead after 6: ") for line in others)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """Where the web server listens; it stops by Ctrl-C without an error."""
    server = subprocess.Popen(
        [sys.executable, EXAMPLES / "web.py", "0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{server.stdout.readline().split()[-1]}"
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=60) == 0
    finally:
        server.kill()
        server.communicate()


def ask(url: str, method: str = "GET") -> dict[str, Any]:
    request = urllib.request.Request(url, method=method)  # noqa: S310 - our own server
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 - the same
        told: dict[str, Any] = json.load(response)
    return told


def test_a_web_server_hands_work_to_the_worker_beside_it(site: str) -> None:
    job = ask(f"{site}/reports/2026", "POST")["job"]

    for _ in range(300):
        if (told := ask(site + job))["status"] == "succeeded":
            break
        time.sleep(0.1)  # another process works
    assert told == {"status": "succeeded", "result": {"year": 2026, "orders": 42}}
    with pytest.raises(urllib.error.HTTPError, match="404"):
        ask(f"{site}/jobs/17")
