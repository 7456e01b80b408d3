"""`rowlock migrate`: what it applies, what it prints, what it refuses and how."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from rowlock.stores import _sql
from rowlock.stores.postgres import sessions
from rowlock.stores.postgres.migrate import all_migrations
from tests.catalogue import dump
from tests.cluster.databases import Databases, with_database

from . import psql
from .command_line import fails, run, run_json
from .roles import Cast, cast

NEWEST = all_migrations()[-1].version
NAMES = [f"{each.version:04} {each.name}" for each in all_migrations()]

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def empty(each_empty_url: str) -> str:
    """The URL of a database with nothing in it, on the oldest server and the newest."""
    return each_empty_url


@pytest.fixture
def them(empty: str) -> Iterator[Cast]:
    """The roles on it."""
    with cast(empty) as them:
        yield them


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as own:
        return own.execute(query.encode()).fetchall()


def applied(url: str, schema: str = "rowlock") -> list[tuple[Any, ...]]:
    query = sql.SQL("SELECT version, name, checksum FROM {}.migrations ORDER BY 1")
    return rows(url, query.format(sql.Identifier(schema)).as_string())


def test_it_applies_what_is_pending_and_then_nothing(empty: str) -> None:
    first = run("migrate", "--database", empty)
    second = run("migrate", "--database", empty)

    assert (first.exit_code, first.stderr) == (0, "")
    assert first.stdout.splitlines() == [f"{name}: applied" for name in NAMES]
    assert (second.exit_code, second.stdout) == (0, "")
    assert second.stderr.endswith("is up to date.\n")
    assert run_json("stats", "--database", empty)["queues"] == []


def test_a_dry_run_names_what_would_be_applied_and_applies_nothing(empty: str) -> None:
    dry = run("migrate", "--database", empty, "--dry-run")

    assert dry.exit_code == 0
    assert dry.stdout.splitlines() == [f"{name}: would be applied" for name in NAMES]
    assert rows(empty, "SELECT 1 FROM pg_namespace WHERE nspname = 'rowlock'") == []


def test_as_json_it_lists_versions_and_names(empty: str) -> None:
    listed = [{"version": each.version, "name": each.name} for each in all_migrations()]
    to = ("migrate", "--database", empty)

    assert run_json(*to, "--dry-run")["pending"] == listed
    assert run_json(*to)["applied"] == listed
    told = run_json(*to)
    assert told["applied"] == []
    assert told["database"].startswith("postgresql://postgres@")
    assert run_json(*to, "--sql")["sql"] == ""


@pytest.mark.parametrize("schema", ["rowlock", 'My "Schema" 100%\'s'])
def test_the_script_leaves_in_psql_what_migrate_leaves(
    each_postgres: Databases, empty: str, schema: str
) -> None:
    other = each_postgres.empty()
    asked = f"?schema={schema.replace('%', '%25')}"
    script = run("migrate", "--database", empty + asked, "--sql").stdout

    ran = psql.run(empty, script)
    run("migrate", "--database", other + asked)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert dump(empty, schema) == dump(other, schema)
    assert applied(empty, schema) == applied(other, schema)
    assert [checksum for *_, checksum in applied(empty, schema)] == [
        _sql.checksum(each) for each in all_migrations()
    ]
    nothing = run("migrate", "--database", empty + asked, "--sql")
    assert nothing.stdout == "-- There is nothing to do.\n"
    assert psql.run(empty, nothing.stdout).returncode == 0
    each_postgres.drop(other)


def test_the_script_means_the_same_whatever_is_set_there(empty: str) -> None:
    script = run("migrate", "--database", empty, "--sql").stdout
    with psycopg.connect(empty, autocommit=True) as own:
        own.execute("SET default_transaction_read_only = on")
        own.execute("SET default_transaction_isolation = serializable")
        own.execute("SET search_path = nowhere")

        own.execute(script.encode())

    assert len(applied(empty)) == NEWEST


def test_the_script_once_more_changes_nothing(empty: str) -> None:
    script = run("migrate", "--database", empty, "--sql").stdout
    psql.run(empty, script)
    before = dump(empty)

    again = psql.run(empty, script)

    assert again.returncode != 0
    assert dump(empty) == before
    assert len(applied(empty)) == NEWEST


def test_a_script_needs_no_database_where_the_version_is_said(empty: str) -> None:
    unreachable = "postgresql://nobody@127.0.0.1:1/shop"
    to = ("migrate", "--database", unreachable, "--sql", "--since")

    whole = run(*to, 0)
    last = run(*to, NEWEST - 1)

    assert whole.stdout == run("migrate", "--database", empty, "--sql").stdout
    assert last.stdout.count(".migrations (version") == 1
    assert f"-- {NAMES[-1]}" in last.stdout
    assert run(*to, NEWEST).stdout == "-- There is nothing to do.\n"


@pytest.mark.parametrize("way", ["run", "script"])
def test_roles_are_granted_with_it(them: Cast, way: str) -> None:
    worker, producer = them.worker.name, them.producer.name
    named = ("--worker-role", worker, "--producer-role", producer)

    if way == "script":
        # By one who may connect and no more.
        to = ("migrate", "--database", them.stranger.url, "--sql")
        assert psql.run(them.owner.url, run(*to, *named).stdout).returncode == 0
        assert psql.run(them.owner.url, run(*to, *named).stdout).returncode == 0
    else:
        told = run("migrate", "--database", them.owner.url, *named)
        assert told.stdout.splitlines()[-2:] == [
            f"role {worker}: granted",
            f"role {producer}: granted",
        ]
        assert told.stderr == ""

    assert run("stats", "--database", them.worker.url).exit_code == 0
    assert rows(them.producer.url, "SELECT rowlock.enqueue('mail')") == [(1,)]
    # A worker sees that nothing is pending, and changes nothing.
    assert run("migrate", "--database", them.worker.url).exit_code == 0


def test_a_user_without_rights_is_told_what_the_owner_runs(them: Cast) -> None:
    to = ("migrate", "--database", them.stranger.url)
    said = fails(2, *to)
    allowed = (
        f'CREATE SCHEMA IF NOT EXISTS "rowlock" AUTHORIZATION "{them.stranger.name}";'
    )
    assert allowed in said
    assert "rowlock migrate --sql" in said

    run("migrate", "--database", them.owner.url)
    assert f"migrate as {them.owner.name}" in fails(2, *to)
    assert "grant_worker" in fails(2, "stats", "--database", them.stranger.url)


def test_a_schema_that_is_not_served_ends_with_4(empty: str) -> None:
    to = ("--database", empty)
    for command in (("stats",), ("jobs", "list"), ("jobs", "cancel", 1)):
        said = fails(4, *command, *to)
        assert "no schema of Rowlock's yet" in said
        assert "`rowlock migrate`" in said

    run("migrate", *to)
    with psycopg.connect(empty, autocommit=True) as own:
        own.execute("DELETE FROM rowlock.migrations WHERE version = %s", [NEWEST])
        said = fails(4, "stats", *to)
        assert (
            f"has schema version {NEWEST - 1}, and this Rowlock needs {NEWEST}" in said
        )
        assert "`rowlock migrate`" in said
        own.execute("UPDATE rowlock.migrations SET version = 9000 WHERE version = 1")
        assert "upgrade Rowlock" in fails(4, "stats", *to)
        assert "upgrade Rowlock" in fails(4, "migrate", *to)


def test_a_server_out_of_reach_ends_with_4() -> None:
    said = fails(4, "migrate", "--database", "postgresql://ada:pw@127.0.0.1:1/shop")

    assert "postgresql://ada@127.0.0.1:1/shop is out of reach" in said
    assert "check that it runs" in said
    assert "pw" not in said


def test_a_wrong_password_is_told_without_it(them: Cast) -> None:
    wrong = them.owner.url.replace("its%20own", "hidden")

    said = fails(2, "migrate", "--database", wrong)

    assert "refuses the user or the password" in said
    assert "hidden" not in said


def test_a_database_that_is_not_there_is_told(empty: str) -> None:
    said = fails(2, "migrate", "--database", with_database(empty, "nowhere"))

    assert "createdb" in said


def test_an_older_server_is_told(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # There is none here: the newest plays one, of before a version to come.
    monkeypatch.setattr(sessions, "OLDEST_SERVER", 990000)

    said = fails(2, "migrate", "--database", empty)

    assert "and Rowlock needs 99 or later: upgrade the server" in said


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.startswith(("rowlock.stores.postgres", "psycopg")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("rowlock.stores.postgres", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)

    said = fails(2, "migrate", "--database", "postgresql:///shop")

    assert "pip install 'rowlock[postgres]'" in said


def warned(url: str, role: str, *options: str) -> str:
    to = ("migrate", "--database", url, "--worker-role", role)
    result = run(*to, *options)
    assert result.exit_code == 0, result.stderr
    return result.stderr


@pytest.mark.parametrize("options", [("--dry-run",), ("--sql",), (), ("--json",)])
def test_a_workers_role_that_nothing_binds_is_warned_of(
    them: Cast, options: tuple[str, ...]
) -> None:
    owner, worker = them.owner, them.worker
    admin = urlsplit(them.admin).username or ""

    said = warned(them.admin, worker.name, *options)
    assert said.startswith(f"Warning: The schema's owner {admin} is a superuser, as")
    assert said.endswith("let a role that is none own the schema.\n")
    assert warned(them.admin, admin, *options).startswith(
        f"Warning: The role {admin} is a superuser, whom no grant binds"
    )
    with psycopg.connect(them.admin, autocommit=True) as own:
        own.execute("DROP SCHEMA IF EXISTS rowlock CASCADE")
    assert warned(owner.url, worker.name, *options) == ""
    assert warned(owner.url, owner.name, *options).startswith(
        f"Warning: The role {owner.name} is the schema's owner, and may do everything"
    )


def test_so_is_a_member_of_the_owner(them: Cast) -> None:
    with psycopg.connect(them.admin, autocommit=True) as own:
        own.execute(
            sql.SQL("GRANT {} TO {}").format(
                sql.Identifier(them.owner.name), sql.Identifier(them.stranger.name)
            )
        )

    said = warned(them.owner.url, them.stranger.name, "--dry-run")
    assert "is a member of the schema's owner, and may do everything in it" in said


def test_a_role_that_is_not_there_is_told(empty: str) -> None:
    said = fails(2, "migrate", "--database", empty, "--producer-role", "nobody at all")

    assert 'There is no role "nobody at all"' in said


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--since", "1"), "--since goes with --sql"),
        (("--since", "-1", "--sql"), "range"),
        (("--sql", "--dry-run"), "either --sql or --dry-run"),
        (("--worker-role", ""), "--worker-role takes a text that isn't empty"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    options: tuple[str, ...], says: str
) -> None:
    assert says in fails(2, "migrate", "--database", "postgresql:///shop", *options)


def test_a_file_of_sqlite_migrates_itself(shop: Path) -> None:
    run("enqueue", "-A", "shop:app", "die")
    to = ("migrate", "-A", "shop:app")

    assert run(*to).stderr == f"sqlite:///{shop}/shop.db is up to date.\n"
    for option in (("--sql",), ("--worker-role", "ada")):
        assert "migrated when it is opened" in fails(2, *to, *option)
