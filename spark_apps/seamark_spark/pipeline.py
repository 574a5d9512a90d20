"""The whole way of the records of some slices, as one Spark job: read, decode, partition, write parts.

It commits nothing: what comes back is the parts that the driver may append, or the reason why it must not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from seamark.errors import Refused, SourceChanged
from seamark.persist import PartRef
from seamark_spark import lines, write
from seamark_spark.decode import decode
from seamark_spark.faults import data_error
from seamark_spark.lines import Piece
from seamark_spark.locate import locate
from seamark_spark.rows import BUCKET
from seamark_spark.sharding import bucket
from seamark_spark.workers import light
from seamark_spark.write import Job, Target

if TYPE_CHECKING:
    from seamark.storage import Definition, Slice

SMALL_BYTES = 1 << 20
"""Up to this many source bytes, one task does everything: moving rows between tasks would only take time."""

TASK_BYTES = 64 << 20
"""Source bytes whose rows one writing task holds in memory."""


@dataclass(frozen=True, slots=True)
class Written:
    """What the tasks made for each shard, in the order of the targets."""

    parts: tuple[tuple[PartRef, ...], ...]
    """Stored already, invisible until they are appended."""
    inline: tuple[Any | None, ...]
    """Records that were too few for a part, as a table."""
    lines: int
    """Source records that were read."""

    @classmethod
    def nothing(cls, shards: int) -> Written:
        return cls(parts=((),) * shards, inline=(None,) * shards, lines=0)

    @property
    def stored(self) -> list[PartRef]:
        return [part for some in self.parts for part in some]

    @property
    def rows(self) -> int:
        carried = sum(int(some.num_rows) for some in self.inline if some is not None)
        return carried + sum(part.rows for part in self.stored)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that cannot be taken."""

    ordinal: int
    offset: int
    reason: str
    line: str


class RecordsRefused(Refused):
    """Nothing of these slices may be committed; `written` is what other tasks stored in vain."""

    def __init__(self, message: str, written: Written) -> None:
        super().__init__(message)
        self.written = written


class SlicesChanged(SourceChanged):
    """The source no longer has the bytes that were bound; `written` is what other tasks stored in vain."""

    def __init__(self, message: str, written: Written) -> None:
        super().__init__(message)
        self.written = written


def order(slices: Sequence[Slice]) -> list[Slice]:
    """Slices by time, then path: the order in which records of one key overtake each other."""
    return sorted(slices, key=lambda s: (s.time, s.path, s.start))


def run(
    session: SparkSession,
    definition: Definition,
    slices: Sequence[Slice],
    targets: Sequence[Target],
    *,
    url: str,
    checkpoints: str | None,
) -> Written:
    """Write the parts of `slices` for the shards `targets`, or raise what the source did wrong."""
    ordered = order(slices)
    total = sum(one.end - one.start for one in ordered)
    parallel = session.sparkContext.defaultParallelism
    slots = max(1, -(-total // (TASK_BYTES * len(targets))))
    job = Job(
        url=url,
        checkpoints=checkpoints,
        schema=definition.schema(),
        envelope=definition.envelope,
        targets=tuple(targets),
        slots=slots,
        times=tuple(one.time for one in ordered),
    )
    pieces = [Piece(number, one.path, one.start, one.end, one.digest) for number, one in enumerate(ordered)]
    readers = 1 if total <= SMALL_BYTES else max(parallel, total // lines.PIECE)
    source = read(session, cut_large(session, pieces), readers)
    key = definition.key or job.schema.names
    rows = decode(source, definition).withColumn(BUCKET, bucket(key, len(targets), slots))
    if readers > 1:
        writers = min(len(targets) * slots, max(parallel, -(-total // TASK_BYTES)))
        rows = rows.repartitionById(writers, (fn.col(BUCKET) % writers).cast("int"))
    try:
        results = rows.mapInArrow(partial(write.write_rows, job), write.SPARK_SCHEMA).collect()
    except PySparkException as error:
        stated = data_error(str(error))
        found = locate(session, definition, pieces, read) if stated else None
        if found is None:
            raise
        refusal = Refusal(found[0], found[1], str(stated), found[2])
        raise _refusal([refusal], ordered, Written.nothing(len(targets))) from error
    return settle(results, ordered, len(targets))


def read(session: SparkSession, pieces: Sequence[Piece], tasks: int) -> DataFrame:
    """The lines of the pieces, read by about `tasks` tasks."""
    shares = lines.share_out(pieces, tasks)

    @light
    def read_shares(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from lines.read_pieces(shares[number])

    numbers = session.range(0, len(shares), 1, len(shares))
    return numbers.mapInArrow(read_shares, lines.SPARK_SCHEMA)


def cut_large(session: SparkSession, pieces: Sequence[Piece]) -> list[Piece]:
    """The same bytes with large pieces cut, so that one large file is decoded by every core."""
    large = [piece for piece in pieces if piece.end - piece.start > 2 * lines.PIECE]
    if not large:
        return list(pieces)
    cut = session.sparkContext.parallelize(large, len(large)).flatMap(lines.cut_piece).collect()
    return [*(piece for piece in pieces if piece.end - piece.start <= 2 * lines.PIECE), *cut]


def settle(results: Sequence[Any], slices: Sequence[Slice], shards: int) -> Written:
    """The tasks' rows as one value, or the first refusal in the order of the source."""
    parts: list[list[PartRef]] = [[] for _ in range(shards)]
    inline: list[list[Any]] = [[] for _ in range(shards)]
    refused: list[Refusal] = []
    count = 0
    for row in results:
        if row.reason is not None:
            refused.append(Refusal(row.ordinal, row.offset, row.reason, row.line or ""))
            continue
        count += row.lines
        if row.part is not None:
            parts[row.shard].append(msgspec.json.decode(bytes(row.part), type=PartRef))
        if row.inline is not None:
            inline[row.shard].append(write.from_ipc(bytes(row.inline)))
    written = Written(
        parts=tuple(tuple(sorted(some, key=lambda part: part.key)) for some in parts),
        inline=tuple(pa.concat_tables(some) if some else None for some in inline),
        lines=count,
    )
    if refused:
        raise _refusal(refused, slices, written)
    return written


def _refusal(refused: list[Refusal], slices: Sequence[Slice], written: Written) -> Refused | SourceChanged:
    # Damage to the source comes first: what else is wrong may follow from it.
    first = min(refused, key=lambda r: (not r.reason.startswith(lines.CHANGED), r.ordinal, r.offset))
    path = slices[first.ordinal].path
    if first.reason.startswith(lines.CHANGED):
        return SlicesChanged(
            f"{path}: {first.reason}; restore the file as it was, or rebuild the collection from the new one",
            written,
        )
    more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    return RecordsRefused(
        f"{path}, byte {first.offset}: {first.reason}: {first.line!r}{more}; "
        "nothing of this binding was committed: change the definition so that it takes the record, or point the "
        "source at a corrected copy",
        written,
    )
