"""`rowlock health`: asks a worker how it is, as a probe does."""

from __future__ import annotations

import json
from typing import Any

import click

from rowlock._errors import UsageError
from rowlock.cli.documents import Output
from rowlock.cli.errors import DONE, FAILED
from rowlock.cli.parameters import Address, output_options, read_address
from rowlock.cli.table import printable

TIMEOUT_S = 5.0
# Where a worker answers on every address of the machine, this is one of them.
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - none is bound here


@click.command(
    epilog="Example: rowlock health 127.0.0.1:8080",
    short_help="Ask a worker how it is.",
)
@click.argument(
    "address",
    metavar="[HOST:PORT]",
    required=False,
    default=None,
    envvar="ROWLOCK_HEALTH",
    callback=read_address,
)
@click.option(
    "--ready",
    is_flag=True,
    default=False,
    help="Ask whether it claims jobs now; else whether it should be replaced.",
)
@output_options
def health(output: Output, *, address: Address | None, ready: bool) -> int:
    """
    Ask the worker that answers probes at an address how it is.

    The address is that of its --health, else ROWLOCK_HEALTH. Ends with 0 where it is
    well and with 1 where it isn't, or doesn't answer; so it can be the health check of
    a container.
    """
    if address is None:
        msg = (
            "Which worker? Name the address of its --health, as in `rowlock health"
            " 127.0.0.1:8080`, or set ROWLOCK_HEALTH."
        )
        raise UsageError(msg)
    address = address._replace(host=EVERYWHERE.get(address.host, address.host))
    told = _ask(address, "/ready" if ready else "/health")
    is_well = bool(told["ready" if ready else "healthy"])
    if not output.prints(told):
        click.echo(_in_words(told, is_well=is_well, ready=ready))
    return DONE if is_well else FAILED


def _ask(address: Address, path: str) -> dict[str, Any]:
    # Here, as it is a fifth of what `rowlock --help` takes.
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection(*address, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        told = json.loads(connection.getresponse().read())
        worker, reasons = told["worker"], told["reasons"]
    except (OSError, HTTPException) as error:
        msg = f"No worker answers at {address}: {error}."
        raise click.ClickException(msg) from error
    except (ValueError, TypeError, KeyError) as error:
        msg = f"What answers at {address} is no worker of Rowlock's."
        raise click.ClickException(msg) from error
    finally:
        connection.close()
    return {**told, "worker": str(worker), "reasons": [str(each) for each in reasons]}


def _in_words(told: dict[str, Any], *, is_well: bool, ready: bool) -> str:
    word = "ready" if ready else "healthy"
    said = f"Worker {told['worker']} is {'' if is_well else 'not '}{word}"
    if reasons := told["reasons"]:
        said += f": {'; '.join(reasons)}"
    return printable(f"{said}.")
