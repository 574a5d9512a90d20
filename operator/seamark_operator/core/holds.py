"""ReadHolds and retention: the durable holds that keep times readable."""

from __future__ import annotations

from seamark_operator.api import constants as k
from seamark_operator.api.constants import Conditions, Reasons
from seamark_operator.api.meta import set_conditions
from seamark_operator.api.resources import ReadHold, ReadHoldStatus
from seamark_operator.core.observed import Observed, Policy
from seamark_operator.core.plan import Action, MoveRetention, Plan, ReleaseHold, SetHold
from seamark_operator.core.say import about, ensure_finalizer, remove_finalizer, warn
from seamark_operator.core.status import patch
from seamark_operator.ports import CollectionFacts
from seamark_operator.specs import names


def read_holds(observed: Observed) -> list[Action]:
    actions: list[Action] = []
    for hold in observed.holds:
        if hold.metadata.deleting:
            actions += _release(observed, hold)
        else:
            actions += ensure_finalizer(k.READ_HOLD, hold.metadata)
            actions += _place(observed, hold)
    return [*actions, *_release_stale(observed)]


def released_holds(observed: Observed) -> list[Action]:
    """Only those that are being deleted, for a collection that is paused."""
    return [action for hold in observed.holds if hold.metadata.deleting for action in _release(observed, hold)]


def orphan(hold: ReadHold, now: float) -> Plan:
    """A ReadHold whose collection does not exist: it waits, and it can be deleted."""
    if hold.metadata.deleting:
        return Plan(remove_finalizer(k.READ_HOLD, hold.metadata))
    wanted = hold.spec.collection_ref.name
    message = (
        f"Collection {wanted} does not exist in namespace {hold.metadata.namespace}; create it or correct collectionRef"
    )
    return Plan(tuple(_tell(hold, "Pending", None, Reasons.COLLECTION_NOT_FOUND, message, now)))


def retention(observed: Observed, facts: CollectionFacts, policy: Policy) -> list[Action]:
    """Moves when it lags by a step, or at once when a retired rendition only waits for it."""
    if facts.upper is None:
        return []
    millis = int(observed.collection.spec.retain_seconds * 1000)
    goal = facts.upper - 1 - millis
    held = facts.holds.get(k.RETENTION_HOLD)
    if held is None:
        return [MoveRetention(millis)]
    waits = any(
        r.role == "retired" and r.handed_over_at is not None and held <= r.handed_over_at < goal
        for r in facts.renditions.values()
    )
    return [MoveRetention(millis)] if goal - held >= policy.retention_step_millis or waits else []


def _place(observed: Observed, hold: ReadHold) -> list[Action]:
    facts, wanted = observed.facts, hold.spec.as_of
    if facts is None:
        message = f"collection {observed.collection.metadata.name} is not readable in storage yet"
        return _tell(hold, "Pending", None, Reasons.NOT_CREATED, message, observed.now)
    name = names.hold(hold.metadata.namespace, hold.metadata.name)
    held = facts.holds.get(name)
    if held == wanted:
        return _tell(hold, "Held", held, Reasons.HELD, f"times from {held} on stay readable", observed.now)
    if held is not None and wanted < held:
        message = (
            f"the hold is at {held} and moves only forward, asOf {wanted} was asked for; "
            "delete this ReadHold and create another to ask for an earlier time"
        )
        return _tell(hold, "Refused", held, Reasons.NOT_READABLE, message, observed.now)
    if wanted < facts.since:
        kept = f"; the hold stays at {held}" if held is not None else ""
        message = (
            f"asOf {wanted} is before since ({facts.since}): history before {facts.since} may have been "
            f"compacted{kept}; ask for {facts.since} or later"
        )
        return _tell(hold, "Refused", held, Reasons.NOT_READABLE, message, observed.now)
    done = _tell(hold, "Held", wanted, Reasons.HELD, f"times from {wanted} on stay readable", observed.now)
    return [SetHold(name, wanted), *done]


def _release(observed: Observed, hold: ReadHold) -> list[Action]:
    """The finalizer goes only after the hold; while storage does not answer it stays."""
    if observed.storage_problem is not None:
        return []
    name = names.hold(hold.metadata.namespace, hold.metadata.name)
    present = observed.facts is not None and name in observed.facts.holds
    released: list[Action] = [ReleaseHold(name)] if present else []
    return [*released, *remove_finalizer(k.READ_HOLD, hold.metadata)]


def _release_stale(observed: Observed) -> list[Action]:
    """Holds in storage whose ReadHold is gone without having been asked for it."""
    if observed.facts is None:
        return []
    meta = observed.collection.metadata
    declared = {names.hold(hold.metadata.namespace, hold.metadata.name) for hold in observed.holds}
    prefix = names.hold_prefix(meta.namespace)
    actions: list[Action] = []
    for name in observed.facts.holds:
        if name.startswith(prefix) and name not in declared:
            gone = name.removeprefix(prefix)
            actions += [
                warn(meta, Reasons.STALE_HOLD, f"ReadHold {gone} is gone: its hold in storage is released"),
                ReleaseHold(name),
            ]
    return actions


def _tell(hold: ReadHold, phase: str, as_of: int | None, reason: str, message: str, now: float) -> list[Action]:
    generation = hold.metadata.generation
    conditions = set_conditions(
        hold.status.conditions, [(Conditions.READY, phase == "Held", reason, message)], now, generation
    )
    told = ReadHoldStatus(phase, as_of, conditions, generation)  # type: ignore[arg-type]
    return [*patch(about(k.READ_HOLD, hold.metadata), hold.status, told)]
