"""A process that appends one row after another and says each time that it was acknowledged, until it is killed."""

from __future__ import annotations

import sys

import pyarrow as pa

from seamark.persist import Column, Location, Schema, machine, shard

if __name__ == "__main__":
    url, who = sys.argv[1], sys.argv[2]
    machine.CHECKPOINT_EVERY = 8
    shard.INLINE_WRITE = 16_384 if int(who) % 2 else 0
    place = Location.open(url)
    schema = Schema(columns=(Column("id", "string"), Column("n", "int64")), key=("id",))
    target = place.create_shard("s", schema)
    epoch = target.acquire("writer", who)
    while True:
        time = target.upper
        row = pa.table([[who], [time], [time], [1]], schema=schema.arrow())
        target.compare_and_append(row, time, time + 1, epoch=epoch)
        print(time, flush=True)
