"""Schemas of other versions than this one's, and a migration to come."""

from __future__ import annotations

from collections.abc import Sequence

from rowlock._store import Migration
from rowlock.stores.postgres import PostgresStore
from rowlock.stores.postgres.migrate import all_migrations, migrate

NEWEST = all_migrations()[-1].version

# What a release may bring while workers of the one before go on.
ADDITIVE = """
ALTER TABLE {schema}.live ADD COLUMN tenant text NOT NULL DEFAULT 'all';
ALTER TABLE {schema}.history ADD COLUMN tenant text NOT NULL DEFAULT 'all';
CREATE INDEX live_tenant ON {schema}.live (tenant) WHERE status = 'failed';
CREATE TABLE {schema}.tenants (name text PRIMARY KEY, since timestamptz NOT NULL);
CREATE OR REPLACE VIEW {schema}.jobs AS
SELECT
    id, queue, task, payload, status, priority, run_at, expires_at, claims, attempts,
    failures, losses, max_attempts, timeout, backoff, idempotency_key, leased_until,
    worker, cancel_requested_at, last_error, errors, result, state, progress, meta,
    created_at, started_at, finished_at, updated_at, alone, abandoned, suspect,
    fingerprint, auto_replays, key_until, tenant
FROM {schema}.live
UNION ALL
SELECT
    id, queue, task, payload, status, priority, run_at, expires_at, claims, attempts,
    failures, losses, max_attempts, timeout, backoff, idempotency_key, leased_until,
    worker, cancel_requested_at, last_error, errors, result, state, progress, meta,
    created_at, started_at, finished_at, updated_at, alone, abandoned, suspect,
    fingerprint, auto_replays, key_until, tenant
FROM {schema}.history;
"""


def later(sql: str = ADDITIVE, *, ahead: int = 1) -> Migration:
    """Make a migration of a version to come."""
    return Migration(version=NEWEST + ahead, name=f"later_{ahead}", sql=sql)


def with_later(*migrations: Migration) -> Sequence[Migration]:
    """Name all migrations, as a release to come knows them."""
    return [*all_migrations(), *(migrations or [later()])]


async def bring(
    url: str, known: Sequence[Migration], *, tries: int = 30
) -> Sequence[Migration]:
    """Migrate as a release that knows these migrations would."""
    store = PostgresStore.from_url(url)
    schema = store._database.schema
    async with store._apart() as session:
        return await migrate(session, schema, store.url, known, tries=tries)
