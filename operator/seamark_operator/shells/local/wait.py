"""What `seamark local wait --for` understands: a condition, a field, or that the object is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from seamark.errors import InvalidDefinition
from seamark_operator.ports import Object
from seamark_operator.shells.local.show import lookup


class Found(NamedTuple):
    """Whether the goal is reached, and in words what was seen."""

    holds: bool
    seen: str


Goal = Callable[[Object | None], Found]


def parse_goal(text: str) -> Goal:
    """`deleted`, `TYPE` or `TYPE=STATUS` of a condition, `path.of.field=VALUE`."""
    left, equals, value = text.partition("=")
    if text == "deleted":
        return _deleted
    if "." in left and equals and all(left.split(".")):
        return _current(lambda obj: _field(obj, left, value))
    if left.isalnum() and (value or not equals):
        return _current(lambda obj: _condition(obj, left, value or "True"))
    raise InvalidDefinition(
        f"cannot wait for {text!r}; known are a condition (Ready, Rebuilding=False), "
        "a field (status.activeRendition=r2) and deleted"
    )


def _deleted(obj: Object | None) -> Found:
    return Found(True, "deleted") if obj is None else Found(False, "it is there")


def _current(goal: Callable[[Object], Found]) -> Goal:
    def checked(obj: Object | None) -> Found:
        if obj is None:
            return Found(False, "it is not there")
        observed = (obj.get("status") or {}).get("observedGeneration")
        if observed is not None and observed < obj["metadata"].get("generation", 0):
            return Found(False, "its status is older than its spec")
        return goal(obj)

    return checked


def _condition(obj: Object, type_: str, wanted: str) -> Found:
    conditions = {c["type"]: c for c in (obj.get("status") or {}).get("conditions", [])}
    condition = conditions.get(type_)
    if condition is None:
        return Found(False, f"it has no condition {type_} (conditions: {', '.join(conditions) or 'none'})")
    if condition["status"] == wanted:
        return Found(True, f"{type_}={wanted}")
    words = [condition.get("reason", ""), condition.get("message", "")]
    why = ", ".join(word for word in words if word)
    return Found(False, f"{type_} is {condition['status']}" + (f" ({why})" if why else ""))


def _field(obj: Object, path: str, wanted: str) -> Found:
    value = lookup(obj, path)
    holds = value is not None and str(value) == wanted
    return Found(holds, f"{path}={wanted}" if holds else f"{path} is {'not set' if value is None else value}")
