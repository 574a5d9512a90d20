"""What is told about a collection and its children: a projection of storage, written when it says news."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from seamark_operator.api import constants as k
from seamark_operator.api.constants import Conditions, Reasons
from seamark_operator.api.meta import encode, set_conditions
from seamark_operator.api.resources import (
    CollectionPhase,
    CollectionStatus,
    LastHandover,
    Rendition,
    RenditionStatus,
    RunStatus,
    ShardStatus,
)
from seamark_operator.core.attempts import Attempts, attempts, wanted_run
from seamark_operator.core.definition import abandonment, candidate, given_up, may_hand_over
from seamark_operator.core.observed import Observed, Policy, Problem
from seamark_operator.core.plan import About, Action, Event, PatchStatus
from seamark_operator.core.runs import foreign_lock
from seamark_operator.core.say import about, tell
from seamark_operator.ports import CollectionFacts
from seamark_operator.specs import names

FRONTIERS = frozenset({"since", "upper", "parts", "bytes"})
PHASES = {
    "building": "Hydrating",
    "standby": "Standby",
    "active": "Active",
    "retired": "Retired",
    "abandoned": "Abandoned",
    "condemned": "Condemned",
}
Wanted = tuple[str, bool, str, str]


def patch(
    target: About, old: msgspec.Struct, new: msgspec.Struct, frontiers_due: bool = True
) -> tuple[PatchStatus, ...]:
    """What changed. A frontier that moved is no news by itself unless it is due."""
    before, after = encode(old), encode(new)
    changed: dict[str, Any] = {key: value for key, value in after.items() if before.get(key) != value}
    changed.update({key: None for key in before if key not in after})
    if not changed or (not frontiers_due and changed.keys() <= FRONTIERS):
        return ()
    return (PatchStatus(target, changed),)


def statuses(observed: Observed, policy: Policy) -> list[Action]:
    meta, old = observed.collection.metadata, observed.collection.status
    new = collection_status(observed, policy)
    actions: list[Action] = [*_handover_event(observed, old.last_handover, new.last_handover)]
    due = observed.status_due
    actions += patch(about(k.COLLECTION, meta), old, new, due)
    for rendition in observed.renditions:
        told = _rendition_status(observed, rendition, policy)
        actions += patch(about(k.RENDITION, rendition.metadata), rendition.status, told, due)
    if observed.facts is not None:
        actions += _shards(observed, observed.facts)
    return actions


def paused_status(observed: Observed) -> list[Action]:
    meta, old = observed.collection.metadata, observed.collection.status
    message = f"annotation {k.ANNOTATION_PAUSED} is true; nothing is done but deletion until it is removed"
    kept = [c for c in old.conditions if c.type != Conditions.PAUSED]
    added = set_conditions(
        old.conditions, [(Conditions.PAUSED, True, Reasons.PAUSED, message)], observed.now, meta.generation
    )
    return [*patch(about(k.COLLECTION, meta), old, msgspec.structs.replace(old, conditions=(*kept, *added)))]


def deleting_status(observed: Observed, problem: Problem | None) -> CollectionStatus:
    meta, old = observed.collection.metadata, observed.collection.status
    ready: Wanted = (Conditions.READY, False, Reasons.DELETING, "the collection is being deleted")
    wanted = [ready, reconciled(problem)]
    conditions = set_conditions(old.conditions, wanted, observed.now, meta.generation)
    return msgspec.structs.replace(old, phase="Deleting", conditions=conditions, observed_generation=meta.generation)


def collection_status(observed: Observed, policy: Policy) -> CollectionStatus:
    meta, old, facts = observed.collection.metadata, observed.collection.status, observed.facts
    phase, ready = _verdict(observed)
    wanted = [ready, reconciled(observed.failure), _rebuilding(observed), _failing(observed, policy)]
    lost = given_up(observed)
    if lost is not None:
        message = (
            f"Rendition {lost.metadata.name} missed hydrationDeadlineSeconds and was abandoned; "
            "change the definition, or raise the deadline to try the same definition again"
        )
        wanted.append((Conditions.REBUILD_FAILED, True, Reasons.HYDRATION_DEADLINE, message))
    conditions = set_conditions(old.conditions, wanted, observed.now, meta.generation)
    if facts is None:
        return msgspec.structs.replace(old, phase=phase, conditions=conditions, observed_generation=meta.generation)
    chosen = observed.candidates[-1].name if observed.candidates else None
    return CollectionStatus(
        phase=phase,
        active_rendition=facts.active,
        candidate_rendition=chosen,
        since=facts.since,
        upper=facts.upper,
        definition_hash=observed.active.definition_hash if observed.active else old.definition_hash,
        last_handover=_last_handover(facts) or old.last_handover,
        conditions=conditions,
        observed_generation=meta.generation,
    )


def reconciled(problem: Problem | None) -> Wanted:
    if problem is None:
        return Conditions.RECONCILED, True, Reasons.SUCCEEDED, "the last pass went through"
    return Conditions.RECONCILED, False, problem.reason, problem.message


def _verdict(observed: Observed) -> tuple[CollectionPhase, Wanted]:
    old, facts, name = observed.collection.status, observed.facts, observed.collection.metadata.name

    def no(phase: CollectionPhase, reason: str, message: str) -> tuple[CollectionPhase, Wanted]:
        return phase, (Conditions.READY, False, reason, message)

    if observed.definition_problem is not None:
        return no("Failed", observed.definition_problem.reason, observed.definition_problem.message)
    if observed.location_problem is not None:
        return no("Pending", observed.location_problem.reason, observed.location_problem.message)
    if observed.storage_problem is not None:
        phase = old.phase or "Pending"
        return no(phase, observed.storage_problem.reason, observed.storage_problem.message)
    if observed.storage is not None and facts is None:
        message = (
            f"the name {name} at this location belongs to {observed.storage.owner!r}; "
            "choose another name or another location: nothing of it was touched"
        )
        return no("Failed", Reasons.NAME_TAKEN, message)
    if facts is None:
        return no("Pending", Reasons.NOT_CREATED, f"collection {name} is not in storage yet")
    if facts.upper is not None and facts.upper <= facts.since:
        return no("Hydrating", Reasons.HYDRATING, f"rendition {facts.active} has nothing readable yet")
    ready = (Conditions.READY, True, Reasons.READABLE, f"rendition {facts.active} is readable")
    return ("Rebuilding" if observed.candidates else "Ready"), ready


def _rebuilding(observed: Observed) -> Wanted:
    chosen = candidate(observed)
    if chosen is None:
        return Conditions.REBUILDING, False, Reasons.SUCCEEDED, "the active rendition is the newest asked for"
    if chosen.role == "building":
        message = f"rendition {chosen.name} is built and catches up with {observed.active and observed.active.name}"
        return Conditions.REBUILDING, True, Reasons.AWAITING_CATCH_UP, message
    if may_hand_over(observed, chosen):
        return Conditions.REBUILDING, True, Reasons.HANDING_OVER, f"rendition {chosen.name} takes over"
    message = (
        f"rendition {chosen.name} has caught up; approve it with the annotation {k.ANNOTATION_HANDOVER}={chosen.name}"
    )
    asked = observed.collection.metadata.annotations.get(k.ANNOTATION_HANDOVER)
    if asked:
        message += f" (it names {asked!r}, which is not the candidate)"
    return Conditions.REBUILDING, True, Reasons.AWAITING_APPROVAL, message


def _failing(observed: Observed, policy: Policy) -> Wanted:
    worst: tuple[int, str, str] = (0, "", "")
    for rendition in observed.facts.renditions.values() if observed.facts else ():
        kind = wanted_run(observed, rendition)
        if kind is None:
            continue
        locked = foreign_lock(observed, rendition)
        if locked is not None:
            return Conditions.INGEST_FAILING, True, Reasons.LOCKED, locked
        history = attempts(observed, rendition, kind, policy)
        worst = max(worst, (history.failures, f"{kind} of {rendition.name}", history.message))
    failures, what, said = worst
    if failures == 0:
        return (
            Conditions.INGEST_FAILING,
            False,
            Reasons.SUCCEEDED,
            "no run has failed since the last progress",
        )
    message = f"{what} failed {failures} times in a row: {said}"
    reason = Reasons.RUN_FAILED if failures >= policy.failing_after else Reasons.RETRYING
    return Conditions.INGEST_FAILING, failures >= policy.failing_after, reason, message


def _last_handover(facts: CollectionFacts) -> LastHandover | None:
    past = [
        (r.handed_over_at, r.name)
        for r in facts.renditions.values()
        if r.role == "retired" and r.handed_over_at is not None
    ]
    if not past:
        return None
    at, name = max(past)
    return LastHandover(name, facts.active, at)


def _handover_event(observed: Observed, old: LastHandover | None, new: LastHandover | None) -> list[Event]:
    if new is None or new == old:
        return []
    message = f"readers were handed over from rendition {new.from_} to {new.to} at {new.at}"
    return [tell(observed.collection.metadata, Reasons.HANDED_OVER, message)]


def _rendition_status(observed: Observed, rendition: Rendition, policy: Policy) -> RenditionStatus:
    name = names.rendition_of_object(observed.collection.metadata.name, rendition.metadata.name)
    facts = observed.facts.renditions.get(name) if observed.facts else None
    old = rendition.status
    if facts is None:
        swept = observed.facts is not None
        return msgspec.structs.replace(old, phase="Abandoned", run=None) if swept else old
    kind = wanted_run(observed, facts)
    history = attempts(observed, facts, kind, policy) if kind is not None else None
    abandoned = _abandoned(observed, rendition)
    conditions = set_conditions(old.conditions, abandoned, observed.now, rendition.metadata.generation)
    failed = history.message if history is not None and history.failures else None
    return RenditionStatus(
        phase=PHASES[facts.role],
        since=facts.since,
        upper=facts.upper,
        handed_over_at=None if abandoned else facts.handed_over_at,
        run=_run(history, old.run, kind),
        message=abandoned[0][3] if abandoned else failed,
        conditions=conditions,
    )


def _run(history: Attempts | None, old: RunStatus | None, kind: str | None) -> RunStatus | None:
    """The latest attempt; one that the runner has forgotten is remembered, and its name not used again."""
    if history is None:
        return None
    if history.latest is not None:
        return RunStatus(history.latest.name, history.latest.state, history.latest.attempt)
    return old if old is not None and names.kind_of(old.name) == kind else None


def _abandoned(observed: Observed, rendition: Rendition) -> Sequence[Wanted]:
    told = abandonment(observed, rendition)
    return ((Conditions.ABANDONED, True, told.reason, told.message),) if told is not None else ()


def _shards(observed: Observed, facts: CollectionFacts) -> list[Action]:
    meta = observed.collection.metadata
    actions: list[Action] = []
    for shard in observed.shards:
        parent = names.rendition_of_object(meta.name, shard.spec.rendition_ref.name)
        rendition = facts.renditions.get(parent)
        if rendition is None or shard.spec.index >= len(rendition.shards):
            continue
        told = rendition.shards[shard.spec.index]
        new = ShardStatus(told.since, told.upper, told.epoch, told.lock_holder or None, told.parts, told.bytes)
        actions += patch(about(k.SHARD, shard.metadata), shard.status, new, observed.status_due)
    return actions
