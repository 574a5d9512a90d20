"""Checks a manifest against the CRDs, as the API server would: structure, defaults, and what may not change.

CEL is not run here. The rule `self == oldSelf` is understood, with its message, because it protects data;
what the other rules refuse, the parser of definitions refuses too.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from seamark.errors import Immutable, InvalidDefinition
from seamark_operator.api import constants as k

Schema = Mapping[str, Any]

BUILT_IN_IMMUTABLE: dict[str, tuple[tuple[str, str], ...]] = {
    k.COLLECTION: (("locationRef", "locationRef is immutable"),),
    k.READ_HOLD: (("collectionRef", "collectionRef is immutable"),),
    k.RENDITION: (("", "the spec of a Rendition is immutable"),),
    k.SHARD: (("", "the spec of a Shard is immutable"),),
}


class Schemas:
    """The schemas of the six kinds, from the CRDs' files; without them only immutability is checked."""

    def __init__(self, folder: Path | None) -> None:
        self.resources: dict[str, Mapping[str, Any]] = {}
        """The CRD's spec by kind."""
        for path in sorted(folder.glob("*.yaml")) if folder is not None else ():
            for document in yaml.safe_load_all(path.read_text()):
                if document and document.get("kind") == "CustomResourceDefinition":
                    self.resources[document["spec"]["names"]["kind"]] = document["spec"]

    def admit(self, new: Mapping[str, Any], old: Mapping[str, Any] | None) -> dict[str, Any]:
        """The object with its defaults; `InvalidDefinition` or `Immutable` says what is wrong and where."""
        kind, name = str(new.get("kind")), new["metadata"].get("name")
        schema = self._schema(kind)
        admitted: dict[str, Any] = copy.deepcopy(dict(new))
        if schema is not None:
            problems: list[str] = []
            for field in ("spec", "status"):
                if field in admitted or field in schema.get("required", ()):
                    inner = schema["properties"].get(field, {})
                    admitted[field] = _check(inner, admitted.get(field), field, problems)
            problems += [f"{field}: unknown field" for field in admitted if field not in schema["properties"]]
            if problems:
                raise InvalidDefinition(f"{kind} {name} is not valid: " + "; ".join(problems))
        if old is not None:
            self._check_immutable(kind, name, admitted.get("spec", {}), old.get("spec", {}))
        return admitted

    def columns(self, kind: str) -> list[tuple[str, str]]:
        """The printer columns that `get` shows: name and JSONPath."""
        if kind not in self.resources:
            return [("Phase", ".status.phase"), ("Age", ".metadata.creationTimestamp")]
        columns = self.resources[kind]["versions"][0].get("additionalPrinterColumns", [])
        return [(c["name"], c["jsonPath"]) for c in columns if not c.get("priority")]

    def _schema(self, kind: str) -> Schema | None:
        spec = self.resources.get(kind)
        found: Schema | None = spec["versions"][0]["schema"]["openAPIV3Schema"] if spec else None
        return found

    def _check_immutable(self, kind: str, name: Any, new: Any, old: Any) -> None:
        schema = self._schema(kind)
        if schema is None:
            for field, message in BUILT_IN_IMMUTABLE.get(kind, ()):
                before, after = (old.get(field), new.get(field)) if field else (old, new)
                if before != after:
                    raise Immutable(f"{kind} {name}: {message}")
            return
        broken: list[str] = []
        _immutable(schema["properties"]["spec"], new, old, broken)
        if broken:
            raise Immutable(f"{kind} {name}: " + "; ".join(broken))


def _immutable(schema: Schema, new: Any, old: Any, broken: list[str]) -> None:
    for rule in schema.get("x-kubernetes-validations", ()):
        if rule["rule"].strip() == "self == oldSelf" and new != old:
            broken.append(rule["message"])
    if isinstance(new, Mapping) and isinstance(old, Mapping):
        for field, inner in schema.get("properties", {}).items():
            if field in new and field in old:
                _immutable(inner, new[field], old[field], broken)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}
_BOUNDS: tuple[tuple[str, str, Callable[[Any, Any], bool]], ...] = (
    ("minimum", "must be at least", lambda value, bound: value >= bound),
    ("maximum", "must be at most", lambda value, bound: value <= bound),
    ("minLength", "must have at least this many characters:", lambda value, bound: len(value) >= bound),
    ("maxLength", "must have at most this many characters:", lambda value, bound: len(value) <= bound),
    ("minItems", "must have at least this many items:", lambda value, bound: len(value) >= bound),
    ("maxItems", "must have at most this many items:", lambda value, bound: len(value) <= bound),
    ("pattern", "must match", lambda value, bound: re.search(bound, value) is not None),
)


def _check(schema: Schema, value: Any, path: str, problems: list[str]) -> Any:
    """The value with defaults filled in; what is wrong is added to `problems`."""
    expected = schema.get("type")
    if expected is not None and not _TYPES[expected](value):
        if not (value is None and schema.get("nullable")):
            problems.append(f"{path}: expected {_article(expected)}, found {value!r}")
        return value
    if "enum" in schema and value not in schema["enum"]:
        known = ", ".join(map(str, schema["enum"]))
        problems.append(f"{path}: {value!r} is not one of {known}")
    problems.extend(
        f"{path}: {words} {schema[bound]}, found {value!r}"
        for bound, words, holds in _BOUNDS
        if bound in schema and not holds(value, schema[bound])
    )
    if isinstance(value, Mapping):
        return _check_object(schema, value, path, problems)
    if isinstance(value, list) and "items" in schema:
        return [_check(schema["items"], item, f"{path}[{n}]", problems) for n, item in enumerate(value)]
    return value


def _check_object(schema: Schema, value: Mapping[str, Any], path: str, problems: list[str]) -> dict[str, Any]:
    properties: Schema = schema.get("properties", {})
    checked: dict[str, Any] = {}
    for field, item in value.items():
        if field in properties:
            checked[field] = _check(properties[field], item, f"{path}.{field}", problems)
        elif isinstance(schema.get("additionalProperties"), Mapping):
            checked[field] = _check(schema["additionalProperties"], item, f"{path}.{field}", problems)
        elif schema.get("x-kubernetes-preserve-unknown-fields") or not properties:
            checked[field] = item
        else:
            known = ", ".join(sorted(properties))
            problems.append(f"{path}.{field}: unknown field; known are {known}")
    for field, inner in properties.items():
        if field not in checked and field not in value and "default" in inner:
            checked[field] = _check(inner, copy.deepcopy(inner["default"]), f"{path}.{field}", problems)
    problems.extend(f"{path}.{field}: is required" for field in schema.get("required", ()) if field not in checked)
    return checked


def _article(type_: str) -> str:
    return f"an {type_}" if type_[0] in "aio" else f"a {type_}"
