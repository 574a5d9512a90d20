"""What may differ between two renditions' columns: readers cross a handover with both in one table."""

from __future__ import annotations

from seamark.errors import Refused
from seamark.persist import Column, Schema

WIDER = {("int32", "int64"): "int64", ("int32", "float64"): "float64"}
"""Types that hold every value of another one exactly; what a reader adds and takes away must cancel to the bit."""


def joined(old: Schema, new: Schema, where: str) -> Schema:
    """The columns of both, the new ones first; a column that one of them lacks is null there.

    `Refused` when a column has two types that no table can hold exactly.
    """
    before = {column.name: column.type for column in old.columns}
    columns = [Column(column.name, _wide(column, before, where)) for column in new.columns]
    names = set(new.names)
    columns += [column for column in old.columns if column.name not in names]
    return Schema(columns=tuple(columns))


def _wide(column: Column, before: dict[str, str], where: str) -> str:
    old = before.get(column.name, column.type)
    if old == column.type:
        return old
    wide = WIDER.get((old, column.type)) or WIDER.get((column.type, old))
    if wide is None:
        raise Refused(
            f"{where}: column {column.name!r} would change its type from {old} to {column.type}, which readers that "
            "cross the handover cannot hold in one column; give the column of the new type another name"
        )
    return wide
