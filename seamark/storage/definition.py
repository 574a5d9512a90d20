"""What a collection is, as a typed value with a canonical hash: source, columns, key, envelope, shards.

A change of the hash means other contents, hence a new rendition; what only says how a collection is run (tick,
retention, handover mode) is not part of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from seamark.errors import InvalidDefinition
from seamark.persist import Column, Schema
from seamark.persist.schema import TYPES

ENVELOPES = ("none", "upsert")
FORMATS = ("jsonl",)
MAX_SHARDS = 1024
FIELDS = ("source", "columns", "key", "envelope", "deleteWhen", "shards")
OPERATIONAL = (
    "locationRef",
    "checkpointStoreRef",
    "tickSeconds",
    "retainSeconds",
    "handover",
    "hydrationDeadlineSeconds",
    "deletionPolicy",
)


class Field(msgspec.Struct, frozen=True):
    """One field of the raw records."""

    name: str
    type: str


class Output(msgspec.Struct, frozen=True, omit_defaults=True):
    """One column of the collection; without an expression it is the raw field of the same name."""

    name: str
    type: str
    expression: str | None = None


class FileSource(msgspec.Struct, frozen=True):
    """Files of JSON lines in a folder."""

    path: str
    format: str
    fields: tuple[Field, ...]


class Definition(msgspec.Struct, frozen=True, rename="camel"):
    """Everything that decides a collection's contents."""

    source: FileSource
    columns: tuple[Output, ...]
    key: tuple[str, ...]
    envelope: str
    delete_when: str | None
    shards: int

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:12]

    @property
    def source_hash(self) -> str:
        """What the bindings of addresses to times depend on: where the files are, not how they are decoded."""
        text = msgspec.json.encode({"path": self.source.path, "format": self.source.format}, order="sorted")
        return hashlib.sha256(text).hexdigest()[:12]

    def schema(self) -> Schema:
        return Schema(columns=tuple(Column(column.name, column.type) for column in self.columns), key=self.key)

    def to_json(self) -> str:
        """Canonical: equal definitions give equal text."""
        return msgspec.json.encode(self, order="sorted").decode()

    @classmethod
    def from_json(cls, text: str) -> Definition:
        return msgspec.json.decode(text, type=cls)


def parse_definition(spec: Mapping[str, Any]) -> Definition:
    """The definition inside a Collection's spec, or `InvalidDefinition` that names path, value and what is known."""
    for name in spec:
        if name not in FIELDS and name not in OPERATIONAL:
            raise InvalidDefinition(f"spec.{name} is unknown; known are {', '.join((*FIELDS, *OPERATIONAL))}")
    source = _mapping(spec, "source", "spec")
    _known(source, ("files", "fields"), "spec.source")
    files = _mapping(source, "files", "spec.source")
    _known(files, ("path", "format"), "spec.source.files")
    definition = Definition(
        source=FileSource(
            path=_text(files, "path", "spec.source.files"),
            format=_one_of(files.get("format", "jsonl"), FORMATS, "spec.source.files.format"),
            fields=tuple(
                Field(_text(item, "name", where), _one_of(item.get("type"), TYPES, f"{where}.type"))
                for where, item in _items(source, "fields", "spec.source", ("name", "type"))
            ),
        ),
        columns=tuple(
            Output(
                _text(item, "name", where),
                _one_of(item.get("type"), TYPES, f"{where}.type"),
                _optional_text(item, "expression", where),
            )
            for where, item in _items(spec, "columns", "spec", ("name", "type", "expression"))
        ),
        key=_key(spec.get("key") or ()),
        envelope=_one_of(spec.get("envelope", "none"), ENVELOPES, "spec.envelope"),
        delete_when=_optional_text(spec, "deleteWhen", "spec"),
        shards=_shards(spec.get("shards", 1)),
    )
    _check(definition)
    return definition


def _check(definition: Definition) -> None:
    definition.schema()
    fields = {field.name for field in definition.source.fields}
    if len(fields) < len(definition.source.fields):
        raise InvalidDefinition("spec.source.fields has two fields of one name; rename or remove one of them")
    for column in definition.columns:
        if column.expression is None and column.name not in fields:
            raise InvalidDefinition(
                f"column {column.name!r} has no expression and is no field of the source; "
                f"give it an expression over {', '.join(sorted(fields))}"
            )
    if definition.envelope == "upsert" and not definition.key:
        raise InvalidDefinition("spec.envelope is upsert, which replaces rows by key, but spec.key is empty; name it")
    if definition.delete_when is not None and definition.envelope != "upsert":
        raise InvalidDefinition("spec.deleteWhen needs spec.envelope: upsert; set it or leave deleteWhen out")


def _mapping(parent: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    value = parent.get(name)
    if not isinstance(value, Mapping):
        raise InvalidDefinition(f"{where}.{name} must be a mapping, found {value!r}")
    return value


def _known(parent: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for name in parent:
        if name not in known:
            raise InvalidDefinition(f"{where}.{name} is unknown; known are {', '.join(known)}")


def _items(
    parent: Mapping[str, Any], name: str, where: str, known: tuple[str, ...]
) -> list[tuple[str, Mapping[str, Any]]]:
    value = parent.get(name)
    if not isinstance(value, list | tuple) or not value or not all(isinstance(item, Mapping) for item in value):
        raise InvalidDefinition(f"{where}.{name} must be a list of at least one {{name, type}}, found {value!r}")
    for index, item in enumerate(value):
        _known(item, known, f"{where}.{name}[{index}]")
    return [(f"{where}.{name}[{index}]", item) for index, item in enumerate(value)]


def _key(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise InvalidDefinition(f"spec.key must be a list of column names, found {value!r}")
    if len(set(value)) < len(value):
        raise InvalidDefinition(f"spec.key names a column twice: {', '.join(value)}; name each once")
    return tuple(value)


def _text(parent: Mapping[str, Any], name: str, where: str) -> str:
    value = parent.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidDefinition(f"{where}.{name} must be a text, found {value!r}")
    return value


def _optional_text(parent: Mapping[str, Any], name: str, where: str) -> str | None:
    return None if parent.get(name) is None else _text(parent, name, where)


def _one_of(value: object, known: tuple[str, ...], where: str) -> str:
    if not isinstance(value, str) or value not in known:
        raise InvalidDefinition(f"{where} is {value!r}, which is unknown; use one of {', '.join(known)}")
    return value


def _shards(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_SHARDS:
        raise InvalidDefinition(f"spec.shards is {value!r}; use a whole number from 1 to {MAX_SHARDS}")
    return value
