"""Which shard a record belongs to: a function of its key that stays the same for as long as data lives.

The hash is XXH64 (a frozen, published algorithm) chained over the key columns in order: the hash of one column is
the seed of the next, the first seed is 42, and a null leaves the seed as it is. Columns are hashed as the bytes of

    string, binary        the UTF-8 text, the bytes
    int64, timestamp      8 bytes, little endian (timestamp: microseconds since the epoch)
    int32, date, bool     4 bytes, little endian (date: days since the epoch; bool: 0 or 1)
    float64               8 bytes of IEEE 754, little endian; -0.0 counts as 0.0

The shard is the hash, read as a signed number, modulo the number of shards (never negative). Spark's own `xxhash64`
computes exactly this, so that no row crosses into Python for it; the tests hold both to fixed vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

import xxhash
from pyspark.sql import Column
from pyspark.sql import functions as fn

SEED = 42


def bucket(key: Sequence[str], shards: int, slots: int) -> Column:
    """`shard * slots + slot`: the slot divides the keys of one shard among several tasks, and means nothing later."""
    hashed = fn.xxhash64(*(fn.col(name) for name in key))
    shard = fn.pmod(hashed, fn.lit(shards))
    if slots == 1:
        return shard.cast("int")
    # The bits that chose the shard are divided out, else a shard's keys would share few slots.
    slot = fn.pmod(fn.shiftright(hashed, 17), fn.lit(slots))
    return (shard * slots + slot).cast("int")


def shard_of(key: Sequence[bytes | None], shards: int) -> int:
    """The same for one key whose columns were turned to bytes as above: what other writers must compute."""
    seed = SEED
    for value in key:
        if value is not None:
            seed = xxhash.xxh64_intdigest(value, seed)
    return (seed - (1 << 64) if seed >= 1 << 63 else seed) % shards
