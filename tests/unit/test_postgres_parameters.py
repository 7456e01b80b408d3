"""What travels to Postgres: arrays as text, JSON it can store, news, and its slots."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowlock._errors import StoreError
from rowlock._store import Migration
from rowlock.stores.postgres import notify, rows
from rowlock.stores.postgres.bounds import Arrival, Line
from rowlock.stores.postgres.enqueue import portions
from rowlock.stores.postgres.statements import (
    GIVEN_NOW,
    SERVERS_NOW,
    channel,
    statements,
    text_of,
)
from tests.cluster.databases import Databases

TEXTS = st.lists(
    st.none()
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    max_size=6,
)
INSTANTS = st.lists(
    st.none() | st.datetimes(timezones=st.just(UTC), min_value=datetime(1, 1, 2)),  # noqa: DTZ001 - a bound
    max_size=6,
)
NUMBERS = st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=6)


@pytest.fixture(scope="module")
def server(databases: Databases) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A server to read what is written."""
    with psycopg.connect(databases.admin_url, autocommit=True) as server:
        yield server


def read(
    server: psycopg.Connection[tuple[object, ...]], text: str | None, kind: str
) -> object:
    (found,) = server.execute(f"SELECT %s::{kind}[]", (text,)).fetchone() or (None,)
    return found


@given(values=TEXTS)
def test_texts_come_through(
    server: psycopg.Connection[tuple[object, ...]], values: list[str | None]
) -> None:
    written = rows.texts(values)

    if written is None:
        assert set(values) == {None}
    else:
        assert read(server, written, "text") == values


@given(values=NUMBERS)
def test_numbers_come_through(
    server: psycopg.Connection[tuple[object, ...]], values: list[int | None]
) -> None:
    written = rows.numbers(values)

    assert (written is None) == (values != [] and set(values) == {None})
    if written is not None:
        assert read(server, written, "bigint") == values


@given(values=INSTANTS)
def test_instants_come_through(
    server: psycopg.Connection[tuple[object, ...]], values: list[datetime | None]
) -> None:
    written = rows.instants(values)

    if written is None:
        assert set(values) <= {None}
    else:
        assert read(server, written, "timestamptz") == values


def test_an_instant_elsewhere_is_the_same_instant(
    server: psycopg.Connection[tuple[object, ...]],
) -> None:
    elsewhere = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=5, minutes=30)))

    assert read(server, rows.instants([elsewhere]), "timestamptz") == [elsewhere]


def test_a_nul_is_refused_before_it_shifts_what_follows() -> None:
    with pytest.raises(StoreError, match="NUL"):
        rows.texts(["a", "b\0c"])


@given(value=st.text())
def test_json_of_any_text_can_be_stored(
    server: psycopg.Connection[tuple[object, ...]], value: str
) -> None:
    written = rows.to_json({"message": value})

    (found,) = server.execute("SELECT %s::jsonb", (written,)).fetchone() or (None,)

    if not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in value):
        assert found == {"message": value}


ARRIVALS = st.lists(
    st.builds(
        Arrival,
        st.builds(Line, st.text(max_size=30), st.integers(-100, 100)),
        st.datetimes(timezones=st.just(UTC)),
        st.none() | st.datetimes(timezones=st.just(UTC)),
    ),
    max_size=300,
)


@given(arrivals=ARRIVALS)
def test_news_come_through_or_are_a_call_to_look_everywhere(
    arrivals: list[Arrival],
) -> None:
    clean = [each for each in arrivals if each.line.queue.isprintable()]

    text = notify.write(clean)

    assert len(text.encode()) < 8000
    assert notify.read(text) == (None if text == notify.EVERYTHING else clean)


@given(text=st.text())
def test_any_message_is_news_or_a_call_to_look_everywhere(text: str) -> None:
    found = notify.read(text)

    assert found is None or all(isinstance(each, Arrival) for each in found)


@pytest.mark.parametrize("payload", ['[["q", 0]]', '[[1, "x", {}, []]]', "[[]]", "{}"])
def test_json_that_is_no_news_is_a_call_to_look_everywhere(payload: str) -> None:
    assert notify.read(payload) in (None, [])


def test_no_slot_is_left_open() -> None:
    for now in (SERVERS_NOW, GIVEN_NOW):
        for operation, text in statements("rowlock", now=now).items():
            # These three are filled where they are run or shown.
            left = re.sub(rb"'\{\}'|\{user\}|\{partition\}|\{first\}", b"", text)
            assert b"{" not in left, operation


def test_a_channel_is_a_name_that_postgres_does_not_cut() -> None:
    assert channel("rowlock") == "rowlock:rowlock"
    names = {channel("é" * 31), channel("é" * 30 + "e"), channel("x" * 63)}
    assert len(names) == 3
    assert all(len(name.encode()) <= 63 for name in names)


def test_slots_of_a_migration_are_quoted() -> None:
    jobs = Migration(
        version=1, name="jobs", sql="SELECT {schema_name} FROM {schema}.jobs"
    )

    text = text_of(jobs, 'it\'s "mine"')

    assert text == 'SELECT \'it\'\'s "mine"\' FROM "it\'s ""mine""".jobs'


def test_a_batch_is_parted_by_size_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowlock.stores.postgres.enqueue.LARGEST", 10)
    monkeypatch.setattr("rowlock.stores.postgres.enqueue.MOST", 3)

    assert [list(part) for part in portions([1, 2, 3, 4, 5], lambda size: size)] == [
        [1, 2, 3],
        [4, 5],
    ]
    assert [list(part) for part in portions([99, 1, 10, 1], lambda size: size)] == [
        [99],
        [1],
        [10],
        [1],
    ]
    assert list(portions([], lambda size: size)) == []
    assert json.dumps([list(part) for part in portions([5], lambda s: s)]) == "[[5]]"
