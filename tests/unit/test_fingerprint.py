"""Which errors are the same one, by messages as libraries write them."""

from __future__ import annotations

import time

import pytest

from rowlock._fingerprint import LENGTH, fingerprint, same_words
from rowlock._job import JSON

# Each list is one error however often it happens, and no two lists are the same one.
SAME: dict[str, list[tuple[str, str]]] = {
    "a key of Postgres": [
        (
            "psycopg.errors.UniqueViolation",
            (
                'duplicate key value violates unique constraint "orders_pkey"\n'
                "DETAIL:  Key (id)=(42) already exists."
            ),
        ),
        (
            "psycopg.errors.UniqueViolation",
            (
                'duplicate key value violates unique constraint "orders_pkey"\n'
                "DETAIL:  Key (id)=(97001) already exists."
            ),
        ),
    ],
    "a foreign key": [
        (
            "psycopg.errors.ForeignKeyViolation",
            (
                'insert or update on table "lines" violates foreign key constraint'
                f' "lines_order_fkey"\nDETAIL:  Key (order_id)=({n}) is not present.'
            ),
        )
        for n in (1, 22)
    ],
    "a connection to Postgres": [
        (
            "psycopg.OperationalError",
            (
                f'connection failed: connection to server at "{address}", port {port}'
                " failed: Connection refused\n\tIs the server running on that host?"
            ),
        )
        for address, port in [("127.0.0.1", 5432), ("10.2.0.17", 6432), ("::1", 5432)]
    ],
    "a deadlock": [
        (
            "psycopg.errors.DeadlockDetected",
            (
                "deadlock detected\nDETAIL:  Process 4711 waits for ShareLock on"
                " transaction 99; blocked by process 4712."
            ),
        ),
        (
            "psycopg.errors.DeadlockDetected",
            (
                "deadlock detected\nDETAIL:  Process 1 waits for ShareLock on"
                " transaction 2; blocked by process 3."
            ),
        ),
    ],
    "SQLAlchemy around it": [
        (
            "sqlalchemy.exc.IntegrityError",
            (
                "(psycopg.errors.NotNullViolation) null value in column"
                f' "email" of relation "users"\n[SQL: EXECUTE add_user ({n})]\n'
                "(Background on this error at: https://sqlalche.me/e/20/gkpj)"
            ),
        )
        for n in (1, 2)
    ],
    "a lock of SQLite": [("sqlite3.OperationalError", "database is locked")],
    "not found": [
        (
            "httpx.HTTPStatusError",
            (
                f"Client error '404 Not Found' for url 'https://api.example.com/o/{n}'\n"
                "For more information check: https://developer.mozilla.org/404"
            ),
        )
        for n in (1, "7f3a")
    ],
    "too many": [
        (
            "httpx.HTTPStatusError",
            f"Client error '429 Too Many Requests' for url '{url}'",
        )
        for url in ("https://a.example/x?page=2", "http://b.example:8080/")
    ],
    "their failure": [
        (
            "httpx.HTTPStatusError",
            "Server error '503 Service Unavailable' for url 'https://a.example/'",
        ),
    ],
    "requests' not found": [
        (
            "requests.exceptions.HTTPError",
            f"404 Client Error: Not Found for url: {url}",
        )
        for url in ("https://a.example/users/17", "https://b.example/?q=a+b#c")
    ],
    "requests' failure": [
        (
            "requests.exceptions.HTTPError",
            "500 Server Error: Internal Server Error for url: https://a.example/",
        )
    ],
    "urllib3's retries": [
        (
            "requests.exceptions.ConnectionError",
            (
                f"HTTPSConnectionPool(host='{host}', port=443): Max retries exceeded"
                f" with url: /v1/{n} (Caused by NewConnectionError("
                f"'<urllib3.connection.HTTPSConnection object at 0x7f{n}0e>: Failed'))"
            ),
        )
        for host, n in [("api.example.com", 5512), ("cdn.example.com", 88)]
    ],
    "a read that took too long": [
        ("httpx.ReadTimeout", ""),
    ],
    "a connect that took too long": [
        ("httpx.ConnectTimeout", ""),
    ],
    "no name of a host": [
        ("socket.gaierror", "[Errno -2] Name or service not known"),
    ],
    "refused": [
        ("ConnectionRefusedError", "[Errno 111] Connect call failed ('10.0.0.1', 443)"),
        (
            "ConnectionRefusedError",
            "[Errno 111] Connect call failed ('10.0.0.22', 5432)",
        ),
    ],
    "a key of a dict": [
        ("KeyError", "'order_id'"),
        ("KeyError", "'customer'"),
        ("KeyError", '"it\'s"'),
    ],
    "a number as key": [("KeyError", "42"), ("KeyError", "-7")],
    "a tuple as key": [("KeyError", "(1, 'a')"), ("KeyError", "(22, 'bc')")],
    "an attribute": [
        ("AttributeError", "'NoneType' object has no attribute 'id'"),
        ("AttributeError", "'Order' object has no attribute 'total'"),
    ],
    "an index": [("IndexError", "list index out of range")],
    "a number that is none": [
        ("ValueError", "invalid literal for int() with base 10: 'abc'"),
        ("ValueError", "invalid literal for int() with base 16: ''"),
    ],
    "an instant that is none": [
        ("ValueError", "Invalid isoformat string: '2026-13-01'"),
        ("ValueError", "Invalid isoformat string: 'yesterday'"),
    ],
    "JSON that is none": [
        ("json.decoder.JSONDecodeError", "Expecting value: line 1 column 1 (char 0)"),
        ("json.decoder.JSONDecodeError", "Expecting value: line 7 column 12 (char 99)"),
    ],
    "JSON without a delimiter": [
        (
            "json.decoder.JSONDecodeError",
            "Expecting ',' delimiter: line 1 column 20 (char 19)",
        ),
    ],
    "JSON with more": [
        ("json.decoder.JSONDecodeError", "Extra data: line 2 column 1 (char 5)"),
    ],
    "an encoding": [
        (
            "UnicodeDecodeError",
            (
                f"'utf-8' codec can't decode byte 0x{byte} in position {n}: invalid"
                " start byte"
            ),
        )
        for byte, n in [("ff", 0), ("93", 1044)]
    ],
    "no such object in S3": [
        (
            "botocore.exceptions.ClientError",
            (
                "An error occurred (NoSuchKey) when calling the GetObject operation:"
                " The specified key does not exist."
            ),
        ),
    ],
    "no right in S3": [
        (
            "botocore.exceptions.ClientError",
            (
                "An error occurred (AccessDenied) when calling the GetObject operation:"
                f" User: arn:aws:iam::{n}:user/app is not authorized"
            ),
        )
        for n in ("123456789012", "999999999999")
    ],
    "S3 is busy": [
        (
            "botocore.exceptions.ClientError",
            (
                "An error occurred (SlowDown) when calling the PutObject operation"
                f" (reached max retries: {n}): Please reduce your request rate."
            ),
        )
        for n in (2, 4)
    ],
    "an address that is refused": [
        ("smtplib.SMTPRecipientsRefused", f"{address}: mailbox unavailable")
        for address in ("ada@example.com", "bo.b+x@mail.example.co.uk")
    ],
    "a UUID": [
        ("LookupError", f"no customer {uuid} in the ledger")
        for uuid in (
            "0b9c1f2e-9d3a-4a57-8f0e-2f4f5f6a7b8c",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "deadbeefdeadbeefdeadbeefdeadbeef",
        )
    ],
    "an object at an address": [
        ("TypeError", f"<Order object at 0x{at}> is not JSON serializable")
        for at in ("7f8a1c2d3e4f", "10")
    ],
    "several at once": [
        ("ValueError", f"unknown orders: [{orders}]")
        for orders in ("1", "2, 3", "44,55, 66, 777")
    ],
    "a file": [
        ("FileNotFoundError", "[Errno 2] No such file or directory: '/tmp/a.pdf'"),
        ("FileNotFoundError", "[Errno 2] No such file or directory: 'b'"),
    ],
    "no right to a file": [
        ("PermissionError", "[Errno 13] Permission denied: '/srv/x'"),
    ],
    "a process": [
        ("subprocess.CalledProcessError", "Command 'convert' died with <Signals.KILL>"),
    ],
    "a card": [
        ("stripe.error.CardError", f"Request {request}: Your card was declined.")
        for request in ("req_8sK2jsd", "req_1aB9zz")
    ],
    "a form": [
        (
            "pydantic_core._pydantic_core.ValidationError",
            f"2 validation errors for Order\ntotal\n  Input should be {what}",
        )
        for what in ("a valid number", "less than 3")
    ],
    "an instant": [
        ("RuntimeError", f"nothing was sent at {at}, try later")
        for at in ("2026-11-30 02:00:00", "2026-11-30T02:00:00.123456+01:00", "7:15")
    ],
    "an apostrophe": [
        ("RuntimeError", f"can't send the customer's order {n}, it isn't paid")
        for n in (1, 2)
    ],
    "a task's timeout": [
        ("TimeoutError", f"the attempt ran longer than its timeout of {n} s")
        for n in ("30", "0.5", "1e+06")
    ],
    "a lost worker": [
        ("WorkerLost", f"worker {worker} was lost: its process died")
        for worker in ("w-0123456789abcdef", "w-ffffffffffffffff", "w-a1b2c3d4e5f60718")
    ],
    "no words": [("ValueError", ""), ("ValueError", "\n \n")],
    "quotes of other kinds": [
        ("RuntimeError", "no `a` in \u201cb\u201d nor \u00abc\u00bb"),
        ("RuntimeError", "no `dd` in \u201cee e\u201d nor \u00abff\u00bb"),
    ],
}


def of(kind: str, message: str) -> dict[str, JSON]:
    return {"type": kind, "message": message}


def test_there_are_many_messages() -> None:
    assert sum(map(len, SAME.values())) > 60
    assert len(SAME) > 40


@pytest.mark.parametrize("name", SAME)
def test_one_error_is_one_however_often_it_happens(name: str) -> None:
    assert len({same_words(of(*each)) for each in SAME[name]}) == 1
    assert len({fingerprint(of(*each)) for each in SAME[name]}) == 1


def test_no_two_errors_are_the_same_one() -> None:
    words = [same_words(of(*each[0])) for each in SAME.values()]

    assert len(set(words)) == len(words)
    assert len({fingerprint(of(*each[0])) for each in SAME.values()}) == len(words)


def test_a_fingerprint_is_short_and_stays_what_it_is() -> None:
    # It stands in rows: another one for the same error would split its group.
    found = fingerprint(of("ValueError", "no order 42"))

    assert len(found) == LENGTH
    assert found == "162aed7b"
    assert same_words(of("ValueError", "no order 42")) == "ValueError: no order #"


@pytest.mark.parametrize(
    "message",
    [
        "'" * 2**20,
        "\\'" * 2**19,
        "'a" * 2**19,
        '"a\\' * 2**18,
        "a" * 2**20,
        "1" * 2**20,
        "1." * 2**19,
        "a:" * 2**19,
        ":" * 2**20,
        "a@" * 2**19,
        "a.@" * 2**18,
        "http://" * 2**17,
        "a+.-" * 2**18,
        "0x" * 2**19,
        "-" * 2**20,
        "\n" * 2**20,
        " " * 2**20,
        "# " * 2**19,
        "\u201c" * 2**20,
        "\ud800" * 2**20,
    ],
    ids=lambda message: repr(message[:6]),
)
def test_no_message_takes_long(message: str) -> None:
    began = time.perf_counter()
    fingerprint(of("ValueError", message))

    assert time.perf_counter() - began < 0.1


def test_what_a_cut_has_left_open_is_taken_out_to_the_end() -> None:
    one, other = "x" * 5000, "y" * 5000

    assert same_words(of("ValueError", f"no order '{one}'")) == same_words(
        of("ValueError", f"no order '{other}'")
    )


def test_an_error_without_a_type_has_one_too() -> None:
    assert fingerprint({}) == fingerprint({"type": None, "message": None})
    assert same_words({}) == "Error"
