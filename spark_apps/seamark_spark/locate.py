"""Which record an expression could not take: Spark says what went wrong, but not in which record.

Only a run that has failed comes here. The record is found by halving: the slices, the pieces of one, its lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from seamark_spark.decode import BEGINNING, decode
from seamark_spark.lines import SCHEMA, Piece, cut_piece, read_piece

if TYPE_CHECKING:
    from seamark.storage import Definition

Read = Callable[[SparkSession, Sequence[Piece], int], DataFrame]


def locate(
    session: SparkSession, definition: Definition, pieces: Sequence[Piece], read: Read
) -> tuple[int, int, str] | None:
    """Ordinal, byte offset and beginning of the first line on which decoding raises; None when none does."""
    tasks = session.sparkContext.defaultParallelism

    def fails(lines: DataFrame) -> bool:
        try:
            decode(lines, definition).write.format("noop").mode("overwrite").save()
        except PySparkException:
            return True
        return False

    def first_piece(some: Sequence[Piece]) -> Piece:
        return some[_smallest(len(some), lambda count: fails(read(session, some[:count], tasks))) - 1]

    if not fails(read(session, pieces, tasks)):
        return None
    piece = first_piece(cut_piece(first_piece(pieces)))
    lines: Any = pa.Table.from_batches(read_piece(piece), schema=SCHEMA)
    count = _smallest(lines.num_rows, lambda number: fails(session.createDataFrame(lines.slice(0, number))))
    line = lines.slice(count - 1, 1).to_pylist()[0]
    return line["ordinal"], line["offset"], line["line"][:BEGINNING]


def _smallest(most: int, holds: Callable[[int], bool]) -> int:
    """The smallest number from 1 to `most` for which `holds`, which holds for `most` and from some number on."""
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
