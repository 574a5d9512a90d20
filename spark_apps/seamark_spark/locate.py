"""Which record an expression could not take: Spark says what went wrong, but not in which record.

Only a run that has failed comes here. The record is found by halving: first the slices, then the bytes of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from seamark_spark.decode import BEGINNING, decode
from seamark_spark.lines import Piece

if TYPE_CHECKING:
    from seamark.storage import Definition

Read = Callable[[SparkSession, Sequence[Piece], int], DataFrame]


def locate(
    session: SparkSession, definition: Definition, pieces: Sequence[Piece], read: Read
) -> tuple[int, int, str] | None:
    """Ordinal, byte offset and beginning of the first line on which decoding raises; None when none does."""
    tasks = session.sparkContext.defaultParallelism

    def raises(some: Sequence[Piece], before: int | None = None) -> bool:
        lines = read(session, some, tasks)
        if before is not None:
            lines = lines.filter(fn.col("offset") < before)
        try:
            decode(lines, definition).write.format("noop").mode("overwrite").save()
        except PySparkException:
            return True
        return False

    if not raises(pieces):
        return None
    count = _smallest(1, len(pieces), lambda number: raises(pieces[:number]))
    piece = pieces[count - 1]
    offset = _smallest(piece.start + 1, piece.end, lambda before: raises([piece], before)) - 1
    with Path(piece.path).open("rb") as file:
        file.seek(offset)
        line = file.readline(4 * BEGINNING).decode(errors="replace").strip()
    return piece.ordinal, offset, line[:BEGINNING]


def _smallest(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The smallest number in [low, high] for which `holds`, which holds for `high` and from some number on."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
