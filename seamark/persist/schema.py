"""The columns of a shard: typed, fixed when the shard is made, checked at every write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from seamark.errors import InvalidDefinition, SchemaMismatch

if TYPE_CHECKING:
    import pyarrow as pa

TIME = "_time"
DIFF = "_diff"
TYPES = ("bool", "int32", "int64", "float64", "string", "binary", "date", "timestamp")


class Column(msgspec.Struct, frozen=True, array_like=True):
    """One user column."""

    name: str
    type: str


class Schema(msgspec.Struct, frozen=True, array_like=True):
    """User columns in order, and which of them are the key (none: the whole row is the key)."""

    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if not names:
            raise InvalidDefinition("a schema needs at least one column; found none: name the columns")
        for column in self.columns:
            if column.type not in TYPES:
                raise InvalidDefinition(
                    f"column {column.name!r} has the unknown type {column.type!r}; use one of {', '.join(TYPES)}"
                )
            if column.name.startswith("_") or not column.name.isidentifier():
                raise InvalidDefinition(
                    f"column name {column.name!r} is not allowed: use letters, digits and _, not beginning with _"
                )
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InvalidDefinition(f"column {twice[0]!r} is defined twice; rename one of them")
        missing = [name for name in self.key if name not in names]
        if missing:
            raise InvalidDefinition(f"key column {missing[0]!r} is not among the columns {', '.join(names)}")

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def arrow(self) -> pa.Schema:
        """User columns, then time and diff."""
        import pyarrow as pa

        fields = [
            pa.field(column.name, arrow_type(column.type), nullable=column.name not in self.key)
            for column in self.columns
        ]
        return pa.schema([*fields, pa.field(TIME, pa.int64(), False), pa.field(DIFF, pa.int64(), False)])

    def user_arrow(self) -> pa.Schema:
        """User columns alone."""
        import pyarrow as pa

        return pa.schema(list(self.arrow())[:-2])

    def fit(self, records: pa.Table) -> pa.Table:
        """`records` with exactly these columns and types, or `SchemaMismatch` that names the column."""
        want = self.arrow()
        table = records if records.schema.equals(want) else self._cast(records, want)
        for name in (*self.key, TIME, DIFF):
            if table.column(name).null_count:
                raise SchemaMismatch(
                    f"column {name!r} must not be null, found {table.column(name).null_count} nulls; "
                    "drop or fill those records"
                )
        return table

    def _cast(self, records: pa.Table, want: pa.Schema) -> pa.Table:
        import pyarrow as pa

        found = set(records.column_names)
        extra = sorted(found - set(want.names))
        if extra:
            raise SchemaMismatch(f"column {extra[0]!r} is not in the shard; it has {', '.join(want.names)}")
        arrays = []
        for field in want:
            if field.name not in found:
                raise SchemaMismatch(f"column {field.name!r} is missing; the records have {', '.join(sorted(found))}")
            column = records.column(field.name)
            try:
                arrays.append(column.cast(field.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise SchemaMismatch(
                    f"column {field.name!r} is {field.type} in the shard, found {column.type} "
                    f"that does not fit: {error}"
                ) from error
        return pa.Table.from_arrays(arrays, schema=want.remove_metadata())


def arrow_type(name: str) -> Any:
    """The Arrow type behind a column type of ours."""
    import pyarrow as pa

    return {
        "bool": pa.bool_(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }[name]
