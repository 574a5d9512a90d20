"""StorageLocations and CheckpointStores: whether they answer. And objects that cannot be understood."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from seamark_operator.api.constants import Conditions, Reasons
from seamark_operator.api.meta import Condition, encode, set_conditions
from seamark_operator.api.resources import Store, StoreStatus
from seamark_operator.core.observed import Problem
from seamark_operator.core.plan import About, PatchStatus, Plan
from seamark_operator.core.say import about
from seamark_operator.core.status import patch


def store(kind: str, observed: Store, problem: Problem | None, now: float) -> Plan:
    generation = observed.metadata.generation
    message = problem.message if problem else f"{observed.spec.url} answers"
    reason = problem.reason if problem else Reasons.AVAILABLE
    conditions = set_conditions(
        observed.status.conditions, [(Conditions.READY, problem is None, reason, message)], now, generation
    )
    told = StoreStatus("Available" if problem is None else "Unavailable", message, conditions, generation)
    return Plan(patch(about(kind, observed.metadata), observed.status, told))


def not_understood(obj: Mapping[str, Any], message: str, now: float) -> Plan:
    """An object that does not fit its schema: it is told so and otherwise left alone."""
    metadata = obj.get("metadata", {})
    target = About(
        str(obj.get("kind")), metadata.get("namespace", "default"), metadata["name"], metadata.get("uid", "")
    )
    status = obj.get("status") or {}
    try:
        old = msgspec.convert(status.get("conditions") or [], tuple[Condition, ...])
    except msgspec.ValidationError:
        old = ()
    wanted = [(Conditions.READY, False, Reasons.INVALID_SPEC, message)]
    conditions = set_conditions(old, wanted, now, metadata.get("generation", 1))
    if conditions == old:
        return Plan()
    return Plan((PatchStatus(target, {"conditions": [encode(c) for c in conditions]}),))
