"""The doctor as a worker, a producer or a stranger on Postgres: what it can see."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import psycopg
import pytest

from rowlock.stores.postgres import PostgresStore

from .ills import MANY_TRANSACTIONS, cure, cures, examine, ill, only
from .roles import Cast, cast


@pytest.fixture
async def them(each_empty_url: str) -> AsyncIterator[Cast]:
    """Roles on a database that the owner has migrated, and granted to the others."""
    with cast(each_empty_url) as them:
        await PostgresStore.from_url(them.owner.url).migrate(
            worker_role=them.worker.name, producer_roles=[them.producer.name]
        )
        yield them


async def test_a_worker_examines_all_but_what_others_do_and_says_so(
    them: Cast,
) -> None:
    findings = ill(await examine(them.worker.url))

    assert {each.about for each in findings} == {"sight", "settings"}
    assert not any("couldn't be seen" in each.what for each in findings)
    (finding,) = [each for each in findings if each.about == "sight"]
    assert finding.severity == "warning"
    with psycopg.connect(them.admin, autocommit=True) as admin:
        cure(admin, finding)
    assert (await only(them.worker.url, "sight")).severity == "ok"


async def test_a_worker_is_told_which_session_pins_the_horizon_if_not_what_it_runs(
    them: Cast,
) -> None:
    with (
        psycopg.connect(them.owner.url, autocommit=True) as owner,
        psycopg.connect(them.admin) as user,
    ):
        user.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        user.execute("SELECT 'a secret'")
        owner.execute(MANY_TRANSACTIONS)

        finding = await only(them.worker.url, "horizon")

        assert f"Session {user.info.backend_pid} (user postgres" in finding.what
        assert "secret" not in finding.what


async def test_it_names_the_rights_that_a_worker_lacks(them: Cast) -> None:
    with psycopg.connect(them.owner.url, autocommit=True) as owner:
        owner.execute(
            f'REVOKE UPDATE, DELETE ON rowlock.live FROM "{them.worker.name}"'.encode()
        )
        owner.execute(
            f'REVOKE USAGE ON SEQUENCE rowlock.ids FROM "{them.worker.name}"'.encode()
        )

    finding = await only(them.worker.url, "rights")

    assert finding.severity == "wrong"
    assert "lacks DELETE, UPDATE on live; USAGE on the sequence ids," in finding.what
    assert cures(finding) == [f"rowlock migrate --worker-role '{them.worker.name}'"]
    await PostgresStore.from_url(them.owner.url).migrate(worker_role=them.worker.name)
    assert (await only(them.worker.url, "rights")).severity == "ok"


GRANTED = """
SELECT proname FROM pg_proc, aclexplode(proacl)
WHERE pronamespace = 'rowlock'::regnamespace
    AND grantee = quote_ident(%(role)s)::regrole
UNION ALL
SELECT relname FROM pg_class, aclexplode(relacl)
WHERE relnamespace = 'rowlock'::regnamespace AND relkind IN ('r', 'p', 'v')
    AND NOT relispartition AND grantee = quote_ident(%(role)s)::regrole
"""


async def test_it_names_all_that_a_worker_was_granted_where_it_lacks_it(
    them: Cast,
) -> None:
    worker = them.worker.name
    with psycopg.connect(them.owner.url, autocommit=True) as owner:
        granted, others = (
            {name for (name,) in owner.execute(GRANTED, {"role": role.name})}
            for role in (them.worker, them.producer)
        )
        for kind in ("TABLES", "FUNCTIONS"):
            revoked = f'REVOKE ALL ON ALL {kind} IN SCHEMA rowlock FROM "{worker}"'
            owner.execute(revoked.encode())
        # Or the doctor can't tell of which version the schema is.
        seen = f'GRANT SELECT ON rowlock.migrations TO "{worker}"'
        owner.execute(seen.encode())

    finding = await only(them.worker.url, "rights")

    told = set(re.findall(r"\w+(?=[;,])", finding.what))
    assert {"hold", "once_keys"} <= granted
    # What producers call, no worker does.
    assert granted - others - {"migrations"} <= told


async def test_who_may_not_use_the_schema_is_told_who_can_let_him_in(
    them: Cast,
) -> None:
    finding = await only(them.stranger.url, "schema")

    assert finding.severity == "wrong"
    assert f"The user {them.stranger.name} may not use the schema" in finding.what
    assert f"--worker-role {them.stranger.name}" in (finding.cure or "")


async def test_a_setting_of_a_role_that_has_nothing_to_do_with_jobs_is_its_own_affair(
    them: Cast,
) -> None:
    with psycopg.connect(them.admin, autocommit=True) as admin:
        for role in (them.stranger, them.producer):
            setting = "default_transaction_read_only = on"
            admin.execute(f'ALTER ROLE "{role.name}" SET {setting}'.encode())

    found = await examine(them.owner.url, "settings")

    (finding,) = [each for each in found if "read_only" in each.what]
    assert f'for the role "{them.producer.name}":' in finding.what
