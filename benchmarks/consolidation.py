"""Sums of diffs on three loads: which library to consolidate with is decided by these figures.

The loads are those of a shard: a sorted base with a number of change batches behind it, as a snapshot reads them;
one change batch, as a writer consolidates it before it becomes a part; and one row, as a small commit has it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.harness import Figure, Report, Settings, Turn, alone, beside, interleave
from seamark.persist import Column, Schema
from seamark.persist.consolidate import consolidate, contents

SCHEMA = Schema(
    columns=(
        Column("order_id", "string"),
        Column("customer", "int64"),
        Column("amount", "int64"),
        Column("status", "string"),
    ),
    key=("order_id",),
)
BATCHES = 10
SEED = 20


def measure(settings: Settings) -> Report:
    rows, rounds = (2_000_000, 7) if settings.full else (200_000, 3)
    base, changes = load(rows)
    everything = pa.concat_tables([base, *changes])
    small, single = changes[0], changes[0].slice(0, 1)
    figures: list[Figure] = []
    for name, records, run, repeat in (
        ("snapshot, all rows", everything, contents, 1),
        ("snapshot, changed keys only", everything, None, 1),
        ("one change batch", small, consolidate, 20),
        ("one row", single, consolidate, 200),
    ):
        ours = changed_keys(base, changes) if run is None else _bound(run, records)
        theirs = duckdb_changed(base, changes) if run is None else duckdb_sum(records, timed=run is consolidate)
        assert ours().num_rows == theirs().num_rows
        taken = interleave(rounds, {"ours": timed(ours, repeat), "duckdb": timed(theirs, repeat)})
        figures.append(alone("consolidation", f"{name}: duckdb (the reference)", "s", taken["duckdb"]))
        figures.append(beside("consolidation", f"{name}: pyarrow", "s", taken["ours"], taken["duckdb"]))
    note = f"base of {rows:,} rows, {BATCHES} change batches of {small.num_rows:,} records; seed {SEED}"
    return Report(tuple(figures), (note,))


def load(rows: int) -> tuple[pa.Table, list[pa.Table]]:
    """A sorted base, and batches that each replace 0.5 % of its rows and delete 0.05 %: +new -old, and -old."""
    random = np.random.default_rng(SEED)
    ids = pa.array([f"order-{number:010d}" for number in range(rows)])
    customer = random.integers(0, rows // 10 + 1, rows)
    amount = random.integers(1, 100_000, rows)
    status = np.array(["paid", "sent", "open", "returned"])[random.integers(0, 4, rows)]
    base = _table(ids, customer, amount, status, 0, np.ones(rows, dtype=np.int64))
    upserts, deletes = rows // 200, rows // 2000
    order, batches = random.permutation(rows), []
    for number in range(BATCHES):
        picked = np.sort(order[number * (upserts + deletes) : (number + 1) * (upserts + deletes)])
        replaced = picked[:upserts]
        kept = ids.take(pa.array(replaced))
        gone = base.take(pa.array(picked)).select(SCHEMA.names)
        new = pa.table(
            [kept, pa.array(customer[replaced]), pa.array(amount[replaced] + 1), pa.array(status[replaced])],
            names=SCHEMA.names,
        )
        both = pa.concat_tables([gone, new.cast(gone.schema)])
        diffs = np.concatenate([-np.ones(gone.num_rows, dtype=np.int64), np.ones(new.num_rows, dtype=np.int64)])
        columns = [both.column(name).combine_chunks() for name in SCHEMA.names]
        key, buyer, price, state = columns
        batches.append(consolidate(_table(key, buyer, price, state, number + 1, diffs), SCHEMA))
    return base, batches


def _table(ids: pa.Array, customer: object, amount: object, status: object, stamp: int, diff: object) -> pa.Table:
    times = np.full(len(ids), stamp, dtype=np.int64)
    arrays = [ids, pa.array(customer), pa.array(amount), pa.array(status), pa.array(times), pa.array(diff)]
    return pa.Table.from_arrays(
        [array.cast(field.type) for array, field in zip(arrays, SCHEMA.arrow(), strict=True)], schema=SCHEMA.arrow()
    )


def changed_keys(base: pa.Table, changes: Sequence[pa.Table]) -> Callable[[], pa.Table]:
    """A base that is consolidated already needs sums only for the keys that changed."""

    def run() -> pa.Table:
        news = pa.concat_tables(changes)
        touched = pc.is_in(base.column("order_id"), pc.unique(news.column("order_id")))
        moved = contents(pa.concat_tables([base.filter(touched), news]), SCHEMA)
        kept = base.filter(pc.invert(touched)).drop_columns(["_time"])
        return pa.concat_tables([kept, moved]).sort_by("order_id")

    return run


def duckdb_sum(records: pa.Table, *, timed: bool, threads: int = 1) -> Callable[[], pa.Table]:
    """The same sum in SQL, Arrow in and Arrow out, on one thread as ours."""
    by = ", ".join([*SCHEMA.names, "_time"] if timed else SCHEMA.names)
    connection = duckdb.connect(config={"threads": threads})
    connection.register("records", records)
    return lambda: connection.sql(f"{_sum('records', by)} ORDER BY {by}").to_arrow_table()


def duckdb_changed(base: pa.Table, changes: Sequence[pa.Table], threads: int = 1) -> Callable[[], pa.Table]:
    """Sums only for the keys that changed, in SQL."""
    by = ", ".join(SCHEMA.names)
    connection = duckdb.connect(config={"threads": threads})
    connection.register("base", base)
    connection.register("news", pa.concat_tables(changes))
    touched = "SELECT DISTINCT order_id FROM news"
    query = f"""
        SELECT {by}, _diff FROM base WHERE order_id NOT IN ({touched})
        UNION ALL
        ({_sum(f"(SELECT * FROM base WHERE order_id IN ({touched}) UNION ALL SELECT * FROM news)", by)})
        ORDER BY order_id
    """
    return lambda: connection.sql(query).to_arrow_table()


def _sum(source: str, by: str) -> str:
    return f"SELECT {by}, sum(_diff)::BIGINT AS _diff FROM {source} GROUP BY {by} HAVING sum(_diff) <> 0"


def timed(run: Callable[[], object], repeat: int) -> Turn:
    def turn() -> float:
        begun = time.perf_counter()
        for _ in range(repeat):
            run()
        return (time.perf_counter() - begun) / repeat

    return turn


def _bound(run: Callable[[pa.Table, Schema], pa.Table], records: pa.Table) -> Callable[[], pa.Table]:
    return lambda: run(records, SCHEMA)
