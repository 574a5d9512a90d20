"""Lines to rows: the JVM parses JSON and evaluates the definition's expressions; what does not fit gets a reason.

A definition must be a pure function of the record: what depends on the clock, on chance or on other rows is refused
before anything runs, because two drivers would compute different rows from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql import types as ty

from seamark.errors import InvalidDefinition
from seamark_spark.rows import DELETE, LINE, OFFSET, ORDINAL, REASON

if TYPE_CHECKING:
    from seamark.storage import Definition

BEGINNING = 120
"""How much of a refused line is shown."""

_AT = "_seamark"
_END = "_seamark_end"

_TYPES: dict[str, ty.DataType] = {
    "bool": ty.BooleanType(),
    "int32": ty.IntegerType(),
    "int64": ty.LongType(),
    "float64": ty.DoubleType(),
    "string": ty.StringType(),
    "binary": ty.BinaryType(),
    "date": ty.DateType(),
    "timestamp": ty.TimestampType(),
}

_STRICT = {"mode": "PERMISSIVE", "allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}

_IMPURE = ("Current", "Now", "LocalTimestamp", "InputFile", "SparkVersion")
"""Beginnings of the names of Spark's expressions whose value is not in the record."""


def spark_type(name: str) -> ty.DataType:
    """The Spark type behind a column type of ours."""
    return _TYPES[name]


def record_type(definition: Definition) -> ty.StructType:
    """The fields of one source record."""
    return ty.StructType([ty.StructField(field.name, spark_type(field.type)) for field in definition.source.fields])


def decode(lines: DataFrame, definition: Definition) -> DataFrame:
    """Rows of the definition's columns, with where each came from, whether it deletes, and why it is refused."""
    parsed = _parse(lines, definition)
    reason = fn.col(f"{_AT}.reason")
    values = {
        column.name: fn.when(reason.isNull(), fn.expr(column.expression or _quoted(column.name)))
        for column in definition.columns
    }
    delete = fn.lit(False)
    if definition.delete_when is not None:
        delete = fn.coalesce(fn.when(reason.isNull(), fn.expr(definition.delete_when)), fn.lit(False))
    staged = parsed.select(
        fn.col(_AT),
        delete.alias(DELETE),
        fn.struct(*(value.alias(name) for name, value in values.items())).alias("value"),
    )
    typed = staged.select(
        fn.col(_AT),
        fn.col(DELETE),
        fn.col("value"),
        *(
            fn.col("value")[column.name].try_cast(spark_type(column.type)).alias(column.name)
            for column in definition.columns
        ),
    )
    names = [fn.col(column.name) for column in definition.columns]
    why = fn.coalesce(reason, *_unfit(definition), *_null_keys(definition))
    judged = typed.select(*names, fn.col(_AT), fn.col(DELETE), why.alias(REASON))
    return judged.select(
        *names,
        fn.col(f"{_AT}.ordinal").alias(ORDINAL),
        fn.col(f"{_AT}.offset").alias(OFFSET),
        fn.col(DELETE),
        fn.col(REASON),
        fn.when(fn.col(REASON).isNotNull(), fn.substring(fn.col(f"{_AT}.line"), 1, BEGINNING)).alias(LINE),
    )


def _parse(lines: DataFrame, definition: Definition) -> DataFrame:
    """One struct of where the line came from and one column per source field.

    Spark's parser stops at the end of the first value and ignores what follows it on the line. Putting the line
    in front of a sentinel in an array makes it read on: only a line of exactly one object leaves two elements.
    """
    element = record_type(definition).add(_END, ty.IntegerType())
    framed = fn.concat(fn.lit("["), fn.col("line"), fn.lit(f',{{"{_END}":1}}]'))
    parsed = lines.select(
        fn.col("ordinal"),
        fn.col("offset"),
        fn.col("line"),
        fn.col("reason"),
        fn.from_json(framed, ty.ArrayType(element), _STRICT).alias("json"),
    )
    whole = (fn.size("json") == 2) & fn.get("json", fn.lit(0)).isNotNull() & fn.get("json", fn.lit(1))[_END].isNotNull()
    reason = fn.coalesce(
        fn.col("reason"),
        fn.when(
            ~fn.coalesce(whole, fn.lit(False)),
            fn.lit("not one JSON object whose fields have the types of source.fields"),
        ),
    )
    record = fn.get("json", fn.lit(0))
    return parsed.select(
        fn.struct("ordinal", "offset", "line", reason.alias("reason")).alias(_AT),
        *(record[field.name].alias(field.name) for field in definition.source.fields),
    )


def _unfit(definition: Definition) -> Iterator[Column]:
    for column in definition.columns:
        name, kind = column.name, column.type
        value = fn.col("value")[name]
        shown = fn.coalesce(fn.substring(value.cast("string"), 1, 60), fn.lit("?"))
        message = fn.concat(fn.lit(f"column {name}: value "), shown, fn.lit(f" does not fit {kind}"))
        yield fn.when(value.isNotNull() & fn.col(_quoted(name)).isNull(), message)


def _null_keys(definition: Definition) -> Iterator[Column]:
    for name in definition.key:
        yield fn.when(fn.col(_quoted(name)).isNull(), fn.lit(f"key column {name} is null"))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def check_definition(session: SparkSession, definition: Definition) -> None:
    """Refuse, before any data is read, what Spark cannot evaluate or could evaluate to two different things."""
    fields = [field.name for field in definition.source.fields]
    if _AT in fields or _END in fields:
        raise InvalidDefinition(f"source.fields has the name {_AT!r} or {_END!r}, which the pipeline uses: rename it")
    empty = session.createDataFrame([], record_type(definition))
    for index, column in enumerate(definition.columns):
        text = column.expression or _quoted(column.name)
        _check(empty, f"columns[{index}] ({column.name})", text, column.type)
    if definition.delete_when is not None:
        _check(empty, "deleteWhen", definition.delete_when, "bool")


def _check(empty: DataFrame, where: str, text: str, kind: str) -> None:
    try:
        parsed = empty.sparkSession._jsparkSession.sessionState().sqlParser().parseExpression(text)
        if parsed.getClass().getSimpleName() == "Alias":
            # `a = 1 or` parses as `a = 1` under the name `or`.
            raise InvalidDefinition(f"{where}: {text!r} ends with a name for its value ({parsed.name()!r}); remove it")
        found = empty.select(fn.expr(text).alias("it"))
        if kind == "bool" and where == "deleteWhen" and found.schema["it"].dataType != ty.BooleanType():
            raise InvalidDefinition(
                f"{where}: {text!r} gives {found.schema['it'].dataType.simpleString()}; write a condition"
            )
        cast = found.select(fn.col("it").try_cast(spark_type(kind)))
        cast.schema  # noqa: B018 (asking for the schema makes Spark analyse the cast)
    except (AnalysisException, ParseException) as error:
        message = str(error).strip().splitlines()[0].rstrip(";")
        raise InvalidDefinition(
            f"{where}: Spark cannot evaluate {text!r} to {kind}: {message}; the source has the fields "
            f"{', '.join(empty.columns)}"
        ) from error
    plan = found._jdf.queryExecution().analyzed()
    if plan.getClass().getSimpleName() != "Project" or not plan.child().children().isEmpty():
        raise InvalidDefinition(
            f"{where}: {text!r} looks at more than one record or makes several of one; use functions of one record"
        )
    impure = sorted(set(_impurities(plan.projectList().head())))
    if impure:
        raise InvalidDefinition(
            f"{where}: {text!r} does not depend on the record alone (found {', '.join(impure)}), so that two runs "
            "would differ; take such values from the source"
        )


def _impurities(expression: Any) -> Iterator[str]:
    """Names of the nodes whose value is not a function of the record."""
    kind = expression.getClass().getSimpleName()
    children = expression.children()
    below = [children.apply(index) for index in range(children.size())]
    foreign = kind.startswith(_IMPURE) or "Subquery" in kind or kind in ("Exists", "ListQuery")
    chance = not expression.deterministic() and all(child.deterministic() for child in below)
    if foreign or chance:
        yield kind
    for child in below:
        yield from _impurities(child)
