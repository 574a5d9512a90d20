"""A live reader in a process of its own: it adds up every change it hears of, and survives being killed.

Its whole memory is one SQLite file: what it has accumulated, up to which time, and how much that was at each step.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sqlite3
import time
from pathlib import Path

import seamark
from seamark.errors import NotFound
from seamark.storage import Collection


def fingerprint(rows: list[tuple[str, str, int, str, int]]) -> str:
    """A short name for exact contents: equal rows, equal name."""
    text = json.dumps(sorted([list(row) for row in rows]), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def prepare(memory: sqlite3.Connection) -> None:
    memory.executescript("""
        create table if not exists accumulated (
            order_id text, customer text, amount_cents integer, status text, n integer,
            primary key (order_id, customer, amount_cents, status)
        );
        create table if not exists progress (frontier integer primary key, rows integer, fingerprint text);
    """)


def follow(location: str, name: str, memory: sqlite3.Connection) -> None:
    """Consume changes for ever; each step is one transaction with the frontier it reaches."""
    prepare(memory)
    with seamark.open(location) as place:
        while True:
            try:
                collection = Collection.open(place, name)
                break
            except NotFound:
                time.sleep(0.3)
        (frontier,) = memory.execute("select max(frontier) from progress").fetchone()
        changes = collection.subscribe(0) if frontier is None else collection.subscribe(frontier=frontier)
        for step in changes:
            with memory:
                memory.executemany(
                    "insert into accumulated values (?, ?, ?, ?, ?) "
                    "on conflict (order_id, customer, amount_cents, status) do update set n = n + excluded.n",
                    [
                        (row["order_id"], row["customer"], row["amount_cents"], row["status"], row["_diff"])
                        for row in step.records.to_pylist()
                    ],
                )
                memory.execute("delete from accumulated where n = 0")
                rows = memory.execute("select * from accumulated").fetchall()
                memory.execute("insert into progress values (?, ?, ?)", (step.upper, len(rows), fingerprint(rows)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--location", required=True)
    parser.add_argument("--collection", default="orders")
    parser.add_argument("--memory", type=Path, required=True)
    options = parser.parse_args()
    memory = sqlite3.connect(options.memory)
    follow(options.location, options.collection, memory)


if __name__ == "__main__":
    main()
