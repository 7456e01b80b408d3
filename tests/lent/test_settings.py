"""What the caller has set is no matter, and is as it was afterwards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import psycopg2.extras
import pytest
from psycopg.rows import dict_row
from psycopg.types.string import StrDumper, TextLoader
from sqlalchemy import create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from rowlock import App, KeyedTask, WrongConnection
from tests.cluster_fixtures import Pooler

from .callers import Caller, mail_to
from .kinds import ON_POSTGRES

Mail = KeyedTask[..., Any]

on_postgres = pytest.mark.parametrize("kind", ON_POSTGRES, ids=lambda kind: kind.name)


@contextmanager
def mailing(url: str) -> Iterator[Mail]:
    app = App(url)
    yield app.task(name="mail")(mail_to)
    app.close_sync()


class Shouting(TextLoader):
    """Reads texts as nobody wrote them."""

    def load(self, data: Any) -> str:
        return str(super().load(data)).upper()


class Shouted(StrDumper):
    """Writes texts as nobody gave them."""

    def dump(self, obj: str) -> bytes:
        return obj.upper().encode()


async def test_of_psycopg_no_loader_dumper_or_factory(url: str) -> None:
    app = App(url)
    mail = app.task(name="mail")(mail_to)
    async with (
        app,
        await psycopg.AsyncConnection.connect(
            url,
            row_factory=dict_row,
            cursor_factory=psycopg.AsyncRawCursor,
            prepare_threshold=0,
            options="-c datestyle=SQL,DMY -c timezone=Asia/Tokyo",
        ) as own,
    ):
        own.adapters.register_dumper(str, Shouted)
        for name in ("text", "int8", "timestamptz", "json"):
            own.adapters.register_loader(name, Shouting)
        task = mail.options(connection=own, idempotency_key="k", delay=60)
        job_id = await task.enqueue(to="Ada")
        assert await task.enqueue(to="Ada") is None
        await own.commit()
        await own.execute("SELECT 'lower' AS said")
        job = await app.get(job_id or 0)

    assert job is not None
    assert (job.payload, job.idempotency_key) == ({"to": "Ada"}, "k")
    assert job.run_at - job.created_at == timedelta(seconds=60)


class Odd(asyncpg.Record):  # type: ignore[misc]  # it ships no types
    """A user's class of rows."""

    def __iter__(self) -> Any:
        raise NotImplementedError


async def test_of_asyncpg_no_codec_or_record_class(url: str) -> None:
    app = App(url)
    mail = app.task(name="mail")(mail_to)
    own = await asyncpg.connect(
        url, record_class=Odd, statement_cache_size=0, server_settings={"jit": "off"}
    )
    for name in ("json", "jsonb", "timestamptz", "int8"):
        await own.set_type_codec(
            name, schema="pg_catalog", encoder=json.dumps, decoder=lambda text: {text}
        )
    async with app:
        task = mail.options(connection=own, idempotency_key="k", delay=60)
        job_id = await task.enqueue(to="Ada")
        assert await task.enqueue(to="Ada") is None
        job = await app.get(job_id or 0)
    assert await own.fetchval("SELECT 1::int8") == {"1"}
    await own.close()

    assert job is not None
    assert (job.payload, job.idempotency_key) == ({"to": "Ada"}, "k")
    assert job.run_at - job.created_at == timedelta(seconds=60)


async def test_asyncpgs_cache_of_statements_is_named_behind_a_pooler(
    url: str, pooler: Pooler
) -> None:
    app = App(url)
    mail = app.task(name="mail")(mail_to)
    pooled = pooler(url, size=2)
    own, other = await asyncpg.connect(pooled), await asyncpg.connect(pooled)
    uncached = await asyncpg.connect(pooled, statement_cache_size=0)
    async with app:
        await mail.options(connection=own).enqueue(to="Ada")
        async with other.transaction():
            await other.execute("SELECT 'it is in the session that has them'")
            with pytest.raises(WrongConnection, match="statement_cache_size=0"):
                await mail.options(connection=own).enqueue(to="Bo")
            await mail.options(connection=uncached).enqueue(to="Cy")
        names = [str(job.payload["to"]) for job in (await app.list()).jobs]
    for connection in (own, other, uncached):
        await connection.close()

    assert sorted(names) == ["Ada", "Cy"]


async def test_asyncpgs_patience_with_a_statement_is_kept_to(url: str) -> None:
    app = App(url)
    mail = app.task(name="mail")(mail_to)
    holds = await asyncpg.connect(url)
    own = await asyncpg.connect(url, command_timeout=0.2)
    async with app:
        async with holds.transaction():
            task = mail.options(idempotency_key="k")
            await task.options(connection=holds).enqueue(to="Ada")
            with pytest.raises(Exception, match=r"nothing was|perhaps"):
                await task.options(connection=own).enqueue(to="Bo")
        assert len((await app.list()).jobs) == 1
    await own.close()
    await holds.close()


def test_of_sqlalchemy_no_listener_and_nothing_is_echoed(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = create_engine(
        make_url(url).set(drivername="postgresql+psycopg"), echo=True
    )

    @event.listens_for(engine, "before_cursor_execute", retval=True)
    def spoil(*args: Any) -> Any:
        return args[2].replace("rowlock", "nowhere"), args[3]

    with mailing(url) as mail, engine.begin() as own:
        mail.options(connection=own).enqueue_sync(to="secret")
    engine.dispose()

    told = capsys.readouterr()
    assert "secret" not in told.out + told.err


@pytest.mark.parametrize("isolation", ["AUTOCOMMIT", "REPEATABLE READ", "SERIALIZABLE"])
def test_of_sqlalchemy_the_isolation_stays(url: str, isolation: str) -> None:
    async def run() -> int:
        engine = create_async_engine(
            make_url(url).set(drivername="postgresql+asyncpg"),
            isolation_level=isolation,
        )
        async with App(url) as app, engine.connect() as own:
            mail = app.task(name="mail")(mail_to)
            await mail.options(connection=own).enqueue(to="Ada")
            # Of autocommit the server doesn't know.
            level = await own.get_isolation_level()
            assert isolation in {level, "AUTOCOMMIT"}
            found = len((await app.list()).jobs)
            await own.rollback()
        await engine.dispose()
        return found

    assert asyncio.run(run()) == (1 if isolation == "AUTOCOMMIT" else 0)


@on_postgres
def test_the_search_path_leads_nowhere_and_the_store_is_in_another_schema(
    address: str, caller: Caller
) -> None:
    app = App(f"{address}?schema=Jobs%20%22of%22%20ours")
    mail = app.task(name="mail")(mail_to)
    asyncio.run(_migrated(app))
    caller.run("SET search_path TO nowhere")
    job_id = caller.enqueue(mail, to="Ada")
    caller.commit()

    assert [job.id for job in app.list_sync().jobs] == [job_id]
    if caller.is_awaited:
        caller.wait(app.close())  # type: ignore[attr-defined]  # those have it
    app.close_sync()


async def _migrated(app: App) -> None:
    await app._store.migrate()
    await app.close()


async def test_a_character_that_its_encoding_lacks_is_named_as_the_reason(
    url: str,
) -> None:
    awaited = await psycopg.AsyncConnection.connect(url, client_encoding="latin1")
    own = await asyncpg.connect(url, server_settings={"client_encoding": "latin1"})
    async with App(url) as app:
        mail = app.task(name="mail")(mail_to)
        for lent in (awaited, own):
            task = mail.options(connection=lent, queue="é")
            with pytest.raises(WrongConnection, match="client_encoding") as refused:
                await task.enqueue(to="\U0001f4e7")
            assert "\U0001f4e7" not in str(refused.value)
            await task.enqueue(to="é")
        await awaited.commit()
        assert [job.queue for job in (await app.list()).jobs] == ["é", "é"]
    await awaited.close()
    await own.close()


async def test_an_encoding_that_is_none_is_no_matter(url: str) -> None:
    """Which psycopg reads as bytes."""
    awaited = await psycopg.AsyncConnection.connect(url, client_encoding="SQL_ASCII")
    async with App(url) as app:
        keyed = app.task(name="mail")(mail_to).options(idempotency_key="k")
        task = keyed.options(connection=awaited)
        job_id = await task.enqueue(to="Ada")
        assert await task.enqueue(to="Ada") is None
        await awaited.commit()
        assert [job.id for job in (await app.list()).jobs] == [job_id]
    await awaited.close()


async def test_in_a_pipeline_of_psycopgs_it_waits_for_its_answer(url: str) -> None:
    async with App(url) as app, await psycopg.AsyncConnection.connect(url) as own:
        mail = app.task(name="mail")(mail_to)
        async with own.pipeline():
            await own.execute("SELECT 1")
            job_id = await mail.options(connection=own).enqueue(to="Ada")
        await own.commit()
        assert [job.id for job in (await app.list()).jobs] == [job_id]


@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize("begin", ["BEGIN", "BEGIN IMMEDIATE"])
def test_of_sqlalchemy_on_sqlite_it_joins_what_a_listener_begins(
    tmp_path: Path, begin: str, ends: str
) -> None:
    """As SQLAlchemy advises for savepoints; the driver itself is in autocommit."""
    engine = create_engine(f"sqlite:///{tmp_path / 'shop.db'}")

    @event.listens_for(engine, "connect")
    def stop_beginning(own: Any, _: Any) -> None:
        own.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin_ourselves(own: Any) -> None:
        own.exec_driver_sql(begin)

    app = App(f"sqlite:///{tmp_path / 'shop.db'}")
    mail = app.task(name="mail")(mail_to)
    app.open_sync()
    with Session(engine) as session:
        mail.options(connection=session).enqueue_sync(to="Ada")
        assert app.list_sync().jobs == ()
        session.commit() if ends == "commit" else session.rollback()
    engine.dispose()

    assert len(app.list_sync().jobs) == (1 if ends == "commit" else 0)
    app.close_sync()


def test_of_psycopg2_no_cursor_type_or_encoding(url: str) -> None:
    with mailing(url) as mail, closing(psycopg2.connect(url)) as own:
        own.cursor_factory = psycopg2.extras.RealDictCursor
        own.set_client_encoding("LATIN1")
        shout = psycopg2.extensions.new_type((25,), "SHOUT", lambda text, _: f"{text}!")
        psycopg2.extensions.register_type(shout, own)
        task = mail.options(connection=own, idempotency_key="é")
        assert task.enqueue_sync(to="é") is not None
        assert task.enqueue_sync(to="é") is None
        with pytest.raises(WrongConnection, match="client_encoding"):
            task.options(idempotency_key="k").enqueue_sync(to="\U0001f4e7")
        own.commit()
        with own.cursor() as cursor:
            cursor.execute("SELECT idempotency_key AS key FROM rowlock.jobs")
            assert cursor.fetchall() == [{"key": "é!"}]


BETTER_FITS = """
CREATE FUNCTION times(bigint, interval) RETURNS interval
    LANGUAGE sql AS $$ SELECT interval '9 years' $$;
CREATE OPERATOR * (LEFTARG = bigint, RIGHTARG = interval, FUNCTION = times);
CREATE FUNCTION unnest(text[]) RETURNS SETOF text LANGUAGE sql AS $$ SELECT 'x' $$;
CREATE FUNCTION jsonb_build_object(text, text, text, text) RETURNS jsonb
    LANGUAGE sql AS $$ SELECT '{}'::jsonb $$;
CREATE FUNCTION seventh(bigint[], bigint) RETURNS bigint[]
    LANGUAGE sql AS $$ SELECT ARRAY[7]::bigint[] $$;
CREATE AGGREGATE array_agg(bigint) (SFUNC = seventh, STYPE = bigint[]);
"""


@pytest.mark.parametrize(
    "kind",
    [kind for kind in ON_POSTGRES if kind.name in {"psycopg", "asyncpg"}],
    ids=lambda kind: kind.name,
)
@pytest.mark.parametrize("options", [{}, {"idempotency_key": "k"}])
def test_of_a_search_path_no_function_or_operator_that_fits_better(
    app: App, mail: Mail, caller: Caller, address: str, options: dict[str, Any]
) -> None:
    late = mail.options(**options, expires_at=datetime.now(UTC) + timedelta(hours=1))
    first = late.enqueue_sync(to="Ada")
    with psycopg.connect(address, autocommit=True) as own:
        own.execute(BETTER_FITS)
        own.execute("UPDATE rowlock.live SET expires_at = statement_timestamp()")
    job_id = caller.enqueue(mail.options(**options, delay=60), to="Bo")
    caller.commit()

    job = app.get_sync(job_id or 0)
    assert (job.payload, job.run_at - job.created_at) == (
        {"to": "Bo"},
        timedelta(seconds=60),
    )
    if options:
        assert app.get_sync(first or 0).errors[0]["event"] == "expired"
