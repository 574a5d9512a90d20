"""Claims about what is refused: the message names file, byte and beginning of the line, and nothing is committed."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
import xxhash

from seamark.errors import InvalidDefinition, Refused
from seamark.storage import parse_definition
from seamark_spark import pipeline
from seamark_spark.decode import check_definition, decode
from seamark_spark.lines import Piece
from seamark_spark.rows import OFFSET, REASON
from tests.spark.shop import Shop, some_orders, spec

pytestmark = pytest.mark.slow

NOT_ONE = "not one JSON object whose fields have the types of source.fields"
GOOD = b'{"order_id":"1","amount":1}\n'

CASES = {
    "not JSON": (b"order 7\n", NOT_ONE),
    "cut off": (b'{"order_id":"7"\n', NOT_ONE),
    "text after the object": (b'{"order_id":"7"} and more\n', NOT_ONE),
    "two objects": (b'{"order_id":"7"}{"order_id":"8"}\n', NOT_ONE),
    "an array": (b'[{"order_id":"7"}]\n', NOT_ONE),
    "a brace too many": (b'{"order_id":"7"}}\n', NOT_ONE),
    "null": (b"null\n", NOT_ONE),
    "wrong type": (b'{"order_id":"7","amount":"lots"}\n', NOT_ONE),
    "not a number": (b'{"order_id":"7","amount":NaN}\n', NOT_ONE),
    "not UTF-8": (b'{"order_id":"\xff"}\n', "byte 13 of the line is not UTF-8"),
    "null key": (b'{"amount":1}\n', "key column order_id is null"),
}


def test_every_bad_line_gets_its_reason_and_good_ones_none(tmp_path: Path, spark: Any) -> None:
    file = tmp_path / "b.jsonl"
    file.write_bytes(b"".join(GOOD + line for line, _ in CASES.values()))
    data = file.read_bytes()
    piece = Piece(0, str(file), 0, len(data), xxhash.xxh3_128_hexdigest(data))
    decoded = decode(pipeline.read(spark, [piece], 1), parse_definition(spec(tmp_path)))
    found = [row[REASON] for row in decoded.orderBy(OFFSET).collect()]
    assert found == [reason for _, expected in CASES.values() for reason in (None, expected)]


END_TO_END = {
    "not JSON": (b"order 7\n", NOT_ONE),
    "null key": (b'{"amount":1}\n', "key column order_id is null"),
    "an expression that fails": (b'{"order_id":"7","amount":1e300}\n', r"\[CAST_OVERFLOW\] .*"),
}


@pytest.mark.parametrize("case", END_TO_END)
def test_a_bad_line_is_named_and_nothing_is_committed(case: str, tmp_path: Path, spark: Any) -> None:
    line, reason = END_TO_END[case]
    shop = Shop(tmp_path)
    shop.arrive("a.jsonl", {"order_id": "0"})
    (shop.source / "b.jsonl").write_bytes(GOOD + line + GOOD)
    driver = shop.driver(spark)
    shown = re.escape(repr(line.decode().strip()))
    message = rf"{shop.source}/b\.jsonl, byte {len(GOOD)}: {reason}: {shown}; nothing of this binding was committed"
    with pytest.raises(Refused, match=message):
        shop.ingest(driver)
    assert [shard.refresh().upper for shard in driver.shards] == [0, 0]
    assert shop.parts() == []


def test_a_number_that_does_not_fit_its_column_is_refused(tmp_path: Path, spark: Any) -> None:
    columns = [{"name": "order_id", "type": "string"}, {"name": "cents", "type": "int32", "expression": "amount"}]
    shop = Shop(tmp_path, {"columns": columns})
    shop.arrive("a.jsonl", {"order_id": "1", "amount": 1.0}, {"order_id": "2", "amount": 3e9})
    with pytest.raises(Refused, match=r"a\.jsonl, byte 33: column cents: value 3.0E9 does not fit int32"):
        shop.ingest(shop.driver(spark))


def test_the_first_of_many_refusals_is_named_and_good_shards_keep_no_files(tmp_path: Path, spark: Any) -> None:
    shop = Shop(tmp_path)
    shop.arrive("a.jsonl", *some_orders(random.Random(1), 5000, 5000))
    (shop.source / "b.jsonl").write_bytes(b"bad 1\nbad 2\n")
    with pytest.raises(Refused, match=r"b\.jsonl, byte 0: .*'bad 1' \(and 1 more\)"):
        shop.ingest(shop.driver(spark))
    assert shop.parts() == []


DEFINITIONS = {
    "rand()": r"columns\[1\] \(cents\): 'rand\(\)' does not depend on the record alone \(found Rand\)",
    "unix_millis(now())": r"does not depend on the record alone \(found Now\)",
    "sum(amount)": r"looks at more than one record",
    "explode(array(1, 2))": r"looks at more than one record or makes several of one",
    "row_number() over (order by amount)": r"looks at more than one record",
    "(select 1)": r"found ScalarSubquery",
    "nosuch + 1": r"cannot evaluate 'nosuch \+ 1' to int64: .*`nosuch` cannot be resolved.* has the fields order_id",
    "amount +": r"Spark cannot evaluate 'amount \+' to int64: .*Syntax error",
    "amount plus": r"ends with a name for its value \('plus'\)",
    "array(1)": r"cannot cast",
}


@pytest.mark.parametrize("expression", DEFINITIONS)
def test_an_expression_that_is_no_function_of_the_record_is_refused(
    expression: str, tmp_path: Path, spark: Any
) -> None:
    columns = [{"name": "order_id", "type": "string"}, {"name": "cents", "type": "int64", "expression": expression}]
    with pytest.raises(InvalidDefinition, match=DEFINITIONS[expression]):
        check_definition(spark, parse_definition(spec(tmp_path, columns=columns)))


def test_delete_when_must_be_a_condition(tmp_path: Path, spark: Any) -> None:
    with pytest.raises(InvalidDefinition, match=r"deleteWhen: 'amount' gives double; write a condition"):
        check_definition(spark, parse_definition(spec(tmp_path, deleteWhen="amount")))


def test_the_shop_is_a_good_definition(tmp_path: Path, spark: Any) -> None:
    check_definition(spark, parse_definition(spec(tmp_path)))
