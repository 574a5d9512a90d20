"""What all kinds share: metadata, references and conditions, and the way from plain JSON to typed values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from seamark.errors import InvalidDefinition
from seamark_operator.api.constants import FINALIZER

T = TypeVar("T")


class Ref(msgspec.Struct, frozen=True, rename="camel"):
    """A reference by name to an object of the same namespace."""

    name: str


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The part of Kubernetes' metadata that decisions rest on."""

    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 1
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}

    @property
    def deleting(self) -> bool:
        return self.deletion_timestamp is not None

    @property
    def finalized_by_us(self) -> bool:
        return FINALIZER in self.finalizers

    @property
    def created_at(self) -> float:
        return parse_time(self.creation_timestamp) if self.creation_timestamp else 0.0


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    """metav1.Condition."""

    type: str
    status: str
    reason: str
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0


def format_time(seconds: float) -> str:
    """The form Kubernetes writes times in."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def set_conditions(
    old: Iterable[Condition],
    wanted: Iterable[tuple[str, bool, str, str]],
    now: float,
    generation: int,
) -> tuple[Condition, ...]:
    """The conditions that should stand: `(type, true?, reason, message)` each, in the order given.

    The time of the last transition moves only when the status does.
    """
    before = {condition.type: condition for condition in old}
    result = []
    for type_, true, reason, message in wanted:
        status = "True" if true else "False"
        previous = before.get(type_)
        kept = previous is not None and previous.status == status and previous.last_transition_time
        since = previous.last_transition_time if previous is not None and kept else format_time(now)
        result.append(Condition(type_, status, reason, message, since, generation))
    return tuple(result)


def find_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    return next((condition for condition in conditions if condition.type == type_), None)


def decode(obj: Mapping[str, Any], type_: type[T]) -> T:
    """A plain object as its typed resource; fields that this version does not know are left alone."""
    try:
        return msgspec.convert(dict(obj), type_)
    except msgspec.ValidationError as error:
        metadata = obj.get("metadata", {})
        name = f"{metadata.get('namespace', 'default')}/{metadata.get('name')}"
        raise InvalidDefinition(
            f"{obj.get('kind')} {name} does not fit its schema: {error}; correct the manifest and apply it again"
        ) from error


def encode(status: msgspec.Struct) -> dict[str, Any]:
    """A status as plain JSON, without the fields that say nothing."""
    plain: dict[str, Any] = msgspec.to_builtins(status)
    return {key: value for key, value in plain.items() if value is not None}
