"""Parts: immutable Parquet files of sorted, consolidated records, whose bytes are checked on every read.

Two checksums guard a part: a digest of the whole file, kept in the shard's state and verified by this library,
and Parquet's page checksums inside, for readers that open the file natively.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import xxhash

from seamark.engines.ports import Blob
from seamark.errors import Corrupt
from seamark.persist.commands import KeyBound, PartRef
from seamark.persist.consolidate import consolidate
from seamark.persist.schema import TIME, Schema

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = b"1"


def prefix_of(shard_id: str) -> str:
    """Where a shard's parts live, directly under it."""
    return f"parts/{shard_id}/"


def epoch_of(key: str, shard_id: str) -> int | None:
    """The epoch under which a part of that shard was written; None for every other key.

    Shard ids may nest (`a` and `a/b`), so a key with more words after the prefix is another shard's.
    """
    name = key.removeprefix(prefix_of(shard_id))
    epoch = name.split("-", 1)[0]
    return int(epoch) if name != key and "/" not in name and epoch.isdecimal() else None


def write_part(blobs: Blob, shard_id: str, schema: Schema, records: pa.Table, *, epoch: int = 0) -> PartRef | None:
    """Sort, consolidate and store `records`; durable on return. None when nothing remains.

    The epoch in the key tells the orphan sweep which writer a part came from: a part of an older epoch that no
    batch refers to can never be committed.
    """
    return store_part(blobs, shard_id, schema, consolidate(schema.fit(records), schema), epoch=epoch)


def store_part(blobs: Blob, shard_id: str, schema: Schema, records: pa.Table, *, epoch: int) -> PartRef | None:
    """Like `write_part`, for records that are consolidated already."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    if records.num_rows == 0:
        return None
    sink = pa.BufferOutputStream()
    named = records.replace_schema_metadata({b"seamark.format": FORMAT, b"seamark.shard": shard_id.encode()})
    pq.write_table(named, sink, compression="zstd", write_page_checksum=True)
    data = memoryview(sink.getvalue())
    times = pc.min_max(records.column(TIME)).as_py()
    low, high = _key_bounds(schema, records)
    part = PartRef(
        key=f"{prefix_of(shard_id)}{epoch:010d}-{uuid.uuid4().hex}.parquet",
        size=len(data),
        rows=records.num_rows,
        digest=xxhash.xxh3_128_hexdigest(data),
        first=times["min"],
        last=times["max"],
        low=low,
        high=high,
    )
    blobs.put(part.key, data)
    return part


def read_part(blobs: Blob, part: PartRef, schema: Schema) -> pa.Table:
    """The records of a part, or `Corrupt` naming it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = blobs.get(part.key)
    if len(data) != part.size or xxhash.xxh3_128_hexdigest(data) != part.digest:
        raise Corrupt(
            f"part {part.key} is damaged: {len(data)} bytes with digest {xxhash.xxh3_128_hexdigest(data)}, "
            f"written as {part.size} bytes with digest {part.digest}; "
            "restore the object from a copy, or rebuild the rendition"
        )
    table = pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
    return table.replace_schema_metadata(None).cast(schema.arrow())


def _key_bounds(schema: Schema, records: pa.Table) -> tuple[KeyBound, KeyBound]:
    import pyarrow.compute as pc

    if not schema.key:
        return None, None
    bounds = pc.min_max(records.column(schema.key[0])).as_py()
    if isinstance(bounds["min"], (int, float, str)):
        return bounds["min"], bounds["max"]
    return None, None
