"""The page on Postgres keeps its word: its SQL runs in psql, by its roles."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

from . import psql
from .command_line import run
from .roles import cast

PAGE = Path(__file__).parents[2] / "docs" / "postgres.md"
BLOCK = re.compile(r"^```sql\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^    rowlock (migrate .*--\w+-role .+)$", re.MULTILINE)


@pytest.mark.usefixtures("folder")
def test_the_sql_of_the_page_runs_block_by_block(each_empty_url: str) -> None:
    page = PAGE.read_text()
    roles, *blocks = BLOCK.findall(page)
    (migrate,) = COMMAND.findall(page)
    with cast(each_empty_url) as them:
        named = {
            "shop_owner": them.owner.name,
            "shop_worker": them.worker.name,
            "shop_producer": them.producer.name,
        }
        # The roles of this test stand for those that the page makes.
        assert set(re.findall(r"CREATE ROLE (\w+) LOGIN;", roles)) == set(named)
        arguments = [named.get(word, word) for word in migrate.split()]
        assert run(*arguments, "--database", them.owner.url).exit_code == 0

        ran = psql.run(
            them.owner.url,
            "\n".join(
                (
                    "CREATE SCHEMA shop; SET search_path = shop;",
                    *blocks,
                    "INSERT INTO orders VALUES (7); UPDATE orders SET paid = true;",
                )
            ),
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        with psycopg.connect(them.owner.url, autocommit=True) as own:
            jobs = own.execute(
                "SELECT status, payload->>'order_id', idempotency_key, run_at > now()"
                " FROM rowlock.jobs ORDER BY id"
            ).fetchall()
            own.execute("DROP SCHEMA shop CASCADE")
    assert jobs == [
        ("cancelled", "42", None, False),
        ("cancelled", "43", "receipt:43", True),
        ("pending", "7", "receipt:7", False),
    ]
