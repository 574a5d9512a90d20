"""A definition is a value with a canonical hash; one that cannot mean anything is refused with its path."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.errors import InvalidDefinition
from seamark.storage import Definition, parse_definition
from tests.storage.shop import definition, spec


def shuffled(value: Any, chance: st.DataObject) -> Any:
    if isinstance(value, dict):
        return {name: shuffled(value[name], chance) for name in chance.draw(st.permutations(sorted(value)))}
    return [shuffled(item, chance) for item in value] if isinstance(value, list) else value


@given(st.data())
def test_the_order_of_keys_does_not_matter(chance: st.DataObject) -> None:
    assert parse_definition(shuffled(spec(), chance)).hash == parse_definition(spec()).hash


def test_the_hash_is_pinned() -> None:
    found = parse_definition(spec())
    assert (found.hash, found.source_hash) == ("646e0865f36d", "2241fe434efc")


def test_defaults_may_be_said_or_left_out() -> None:
    bare = {name: value for name, value in spec().items() if name in ("source", "columns")}
    said = {**bare, "key": [], "envelope": "none", "shards": 1, "deleteWhen": None}
    assert parse_definition(bare) == parse_definition(said)


def test_how_a_collection_is_run_is_not_what_it_is() -> None:
    run = spec(
        locationRef={"name": "a"},
        checkpointStoreRef={"name": "b"},
        tickSeconds=1,
        retainSeconds=2,
        handover={"mode": "Manual"},
        hydrationDeadlineSeconds=3,
        deletionPolicy="Delete",
    )
    assert parse_definition(run).hash == parse_definition(spec()).hash


@pytest.mark.parametrize(
    "change",
    [
        {"shards": 3},
        {"envelope": "none"},
        {"key": ["id", "cents"]},
        {"deleteWhen": "amount < 0"},
        {"columns": [{"name": "id", "type": "string"}]},
    ],
)
def test_everything_that_decides_contents_decides_the_hash(change: dict[str, Any]) -> None:
    changed = parse_definition(spec(**change))
    assert changed.hash != parse_definition(spec()).hash
    assert changed.source_hash == parse_definition(spec()).source_hash


def test_bindings_depend_on_where_the_files_are_and_not_on_how_they_are_decoded() -> None:
    elsewhere, otherwise = spec(), spec()
    elsewhere["source"]["files"]["path"] = "/data/other"
    otherwise["source"]["fields"][1]["type"] = "int64"
    assert parse_definition(elsewhere).source_hash != parse_definition(spec()).source_hash
    assert parse_definition(otherwise).source_hash == parse_definition(spec()).source_hash


def test_a_definition_survives_being_written_down() -> None:
    found = definition(3, deleteWhen="amount is null")
    assert Definition.from_json(found.to_json()) == found
    assert Definition.from_json(found.to_json()).to_json() == found.to_json()


def at(path: str, value: Any) -> dict[str, Any]:
    """The spec with one value changed; a path ends in `-` to take the value away."""
    changed = spec()
    *steps, last = path.split(".")
    inner: Any = changed
    for step in steps:
        inner = inner[int(step)] if step.isdigit() else inner[step]
    inner[int(last) if last.isdigit() else last] = value
    return changed


TYPES = "bool, int32, int64, float64, string, binary, date, timestamp"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            at("columns.1.type", "decimal"),
            f"spec.columns[1].type is 'decimal', which is unknown; use one of {TYPES}",
        ),
        (
            at("source.fields.0.type", None),
            f"spec.source.fields[0].type is None, which is unknown; use one of {TYPES}",
        ),
        (at("source.files.format", "csv"), "spec.source.files.format is 'csv', which is unknown; use one of jsonl"),
        (at("envelope", "debezium"), "spec.envelope is 'debezium', which is unknown; use one of none, upsert"),
        (at("source", None), "spec.source must be a mapping, found None"),
        (at("source.files", []), "spec.source.files must be a mapping, found []"),
        (at("source.files.path", ""), "spec.source.files.path must be a text, found ''"),
        (at("source.fields", []), "spec.source.fields must be a list of at least one {name, type}, found []"),
        (at("columns", "id"), "spec.columns must be a list of at least one {name, type}, found 'id'"),
        (at("columns.0.name", 7), "spec.columns[0].name must be a text, found 7"),
        (at("columns.0.expression", 7), "spec.columns[0].expression must be a text, found 7"),
        (at("columns.0.name", "_id"), "column name '_id' is not allowed"),
        (at("columns.0.name", "cents"), "column 'cents' is defined twice; rename one of them"),
        (
            at("columns.0.expresion", "id"),
            "spec.columns[0].expresion is unknown; known are name, type, expression",
        ),
        (at("source.files.glob", "*"), "spec.source.files.glob is unknown; known are path, format"),
        (at("source.kafka", {}), "spec.source.kafka is unknown; known are files, fields"),
        (at("source.fields.1.name", "id"), "spec.source.fields has two fields of one name"),
        (
            at("columns.1", {"name": "total", "type": "int64"}),
            "column 'total' has no expression and is no field of the source; give it an expression over amount, id",
        ),
        (at("key", "id"), "spec.key must be a list of column names, found 'id'"),
        (at("key", ["id", "id"]), "spec.key names a column twice: id, id; name each once"),
        (at("key", ["order"]), "key column 'order' is not among the columns id, cents"),
        (at("key", []), "spec.envelope is upsert, which replaces rows by key, but spec.key is empty; name it"),
        (
            {**at("deleteWhen", "amount < 0"), "envelope": "none"},
            "spec.deleteWhen needs spec.envelope: upsert; set it or leave deleteWhen out",
        ),
        (at("shards", 0), "spec.shards is 0; use a whole number from 1 to 1024"),
        (at("shards", 1025), "spec.shards is 1025; use a whole number from 1 to 1024"),
        (at("shards", True), "spec.shards is True; use a whole number from 1 to 1024"),
        (at("sharsd", 2), "spec.sharsd is unknown; known are source, columns, key, envelope, deleteWhen, shards"),
    ],
)
def test_a_definition_that_cannot_mean_anything_is_refused_with_its_path(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidDefinition, match="^" + re.escape(message)):
        parse_definition(changed)
