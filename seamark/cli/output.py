"""How results are shown: a table for people, JSON lines for machines."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

LocationOption = Annotated[
    str,
    typer.Option(
        "--location",
        "-l",
        envvar="SEAMARK_LOCATION",
        help="Where the data is, for example disk:./data or s3://bucket/x",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON lines for machines instead of a table.")]


def show(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    """Print rows, one JSON object a line or one table."""
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row, default=_plain, ensure_ascii=False))
        return
    table = Table(*columns, box=None, header_style="bold")
    for row in rows:
        table.add_row(*("" if row.get(name) is None else str(row.get(name)) for name in columns))
    Console().print(table)


def moment(millis: int) -> str:
    """A time as people write it, where it can be one."""
    if millis < 10**11:
        return str(millis)
    return datetime.datetime.fromtimestamp(millis / 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.hex()
    return str(value)
