"""Cases of the kind *fork safety*: what a child has of its parent's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from rowlock import App
from tests.cluster_fixtures import OwnCluster
from tests.conformance import on_postgres
from tests.tls import certified, wrapped

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


def run_forking(url: str, count: int, *more: str) -> None:
    program = [sys.executable, "-m", "tests.programs.forked_children", url]
    done = subprocess.run(
        [*program, str(count), *more],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def notes(url: str) -> Counter[object]:
    app = App(url)
    try:
        page = app.list_sync(limit=1000)
        rows = [*page.jobs]
        while page.after is not None:
            page = app.list_sync(limit=1000, after=page.after)
            rows += page.jobs
    finally:
        app.close_sync()
    return Counter(job.payload["who"] for job in rows if job.task == "note")


@pytest.fixture
def tls_url(own_cluster: OwnCluster, tmp_path: Path) -> Iterator[str]:
    """
    A server that is spoken to by TLS.

    What ends it stands before the server, as the tests' own build has none: what a
    fork may break is the client's side.
    """
    cluster = own_cluster()
    on_postgres.migrate(cluster.url)
    with wrapped(cluster.port, certified(tmp_path)) as port:
        url = cluster.url.replace(f":{cluster.port}/", f":{port}/")
        url += "?sslmode=require"
        with psycopg.connect(url) as own:
            assert own.pgconn.ssl_in_use
        yield url


def test_b87_four_children_enqueue_beside_their_parent(
    database_url: str, scale: int
) -> None:
    count = 200 if scale > 1 else 50

    run_forking(database_url, count)

    children = {f"child {number}": count for number in range(4)}
    assert notes(database_url) == {"parent": count + 1, **children}


def test_b87_four_children_enqueue_beside_their_parent_over_tls(tls_url: str) -> None:
    run_forking(tls_url, 200)

    children = {f"child {number}": 200 for number in range(4)}
    assert notes(tls_url) == {"parent": 201, **children}


def test_b87_a_handler_that_forks_leaves_the_worker_as_it_was(
    database_url: str,
) -> None:
    """The child renews nothing and finishes nothing, and the parent still listens."""
    run_forking(database_url, 20, "worker")

    assert notes(database_url) == {"child": 20}
