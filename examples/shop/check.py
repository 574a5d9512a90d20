"""The independent computation: what the collection must hold at a time, from the raw files alone, by duckdb.

It shares no code with the pipeline. Of the system it takes only the recorded bindings (which bytes became part
of the collection when), because those are a decision and not a computation.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb

Contents = dict[str, tuple[str, int, str]]

WRONG, RIGHT = "round(amount)", "round(amount * 100)"


def expected(slices: Iterable[Any], as_of: int, amount: str) -> Contents:
    """Order id -> (customer, amount_cents, status) at `as_of`, with the given arithmetic for the amount."""
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "raw.jsonl"
        count = 0
        with raw.open("w", encoding="utf-8") as out:
            for piece in sorted(slices, key=lambda s: (s.time, s.path, s.start)):
                if piece.time > as_of:
                    continue
                data = Path(piece.path).read_bytes()[piece.start : piece.end]
                for line in data.decode().splitlines():
                    if line.strip():
                        out.write(json.dumps({"seq": count, "line": line}) + "\n")
                        count += 1
        if not count:
            return {}
        rows = duckdb.sql(f"""
            with raw as (
                select seq,
                       line ->> '$.order_id' as order_id,
                       line ->> '$.customer' as customer,
                       cast(line ->> '$.amount' as double) as amount,
                       line ->> '$.status' as status
                from read_json('{raw}', format = 'newline_delimited', columns = {{seq: 'bigint', line: 'varchar'}})
            ), newest as (
                select * from raw qualify row_number() over (partition by order_id order by seq desc) = 1
            )
            select order_id, customer, cast({amount} as bigint), status from newest where status <> 'cancelled'
        """).fetchall()
    return {order_id: (customer, cents, status) for order_id, customer, cents, status in rows}


def found(table: Any) -> Contents:
    """A snapshot as a plain mapping; a key that is there twice would be a lie of the collection."""
    contents: Contents = {}
    for row in table.to_pylist():
        assert row["_diff"] == 1, f"{row['order_id']} is there {row['_diff']} times"
        assert row["order_id"] not in contents, f"{row['order_id']} has two values"
        contents[row["order_id"]] = (row["customer"], row["amount_cents"], row["status"])
    return contents
