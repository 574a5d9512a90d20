"""What a definition asks for: which rendition is the candidate, which is given up, when readers switch."""

from __future__ import annotations

from dataclasses import dataclass

from seamark_operator.api import constants as k
from seamark_operator.api.constants import Conditions, Reasons
from seamark_operator.api.meta import find_condition, parse_time
from seamark_operator.api.resources import Rendition
from seamark_operator.core.attempts import attempts, backfilled
from seamark_operator.core.observed import Observed, Policy
from seamark_operator.core.plan import (
    Abandon,
    Action,
    AddRendition,
    CreateCollection,
    CreateObject,
    Handover,
    MarkStandby,
    RemoveAnnotation,
)
from seamark_operator.core.say import about, tell, warn
from seamark_operator.ports import CollectionFacts, RenditionFacts
from seamark_operator.specs import names, objects


def creation(observed: Observed) -> list[Action]:
    """The collection in storage, with its first rendition."""
    meta = observed.collection.metadata
    if observed.storage is not None or observed.storage_problem is not None:
        return []
    if observed.target is None or observed.definition is None:
        return []
    owner = names.owner(meta.namespace, meta.name, meta.uid)
    message = f"collection {meta.name} is created at {observed.target.url}, rendition r1 is its first"
    return [
        tell(meta, Reasons.RENDITION_ADDED, message),
        CreateCollection(observed.definition.document, owner),
    ]


def child_objects(observed: Observed, facts: CollectionFacts) -> list[Action]:
    """A Rendition for each rendition in storage, a Shard for each of its shards."""
    meta = observed.collection.metadata
    present = {shard.metadata.name for shard in observed.shards}
    actions: list[Action] = []
    for rendition in facts.renditions.values():
        parent = observed.by_rendition.get(rendition.name)
        if parent is None:
            made = objects.rendition(meta, rendition.name, rendition.definition_hash, rendition.document)
            actions.append(CreateObject(made))
        elif not parent.metadata.deleting and rendition.role != "condemned":
            actions += [
                CreateObject(objects.shard(meta.name, parent.metadata, rendition.name, index))
                for index in range(len(rendition.shards))
                if names.shard_object(meta.name, rendition.name, index) not in present
            ]
    return actions


def candidate(observed: Observed) -> RenditionFacts | None:
    """The rendition that is built for the definition as it stands; the newest where there are several."""
    active, wanted = observed.active, observed.definition
    if active is None or wanted is None or active.definition_hash == wanted.hash:
        return None
    fitting = [r for r in observed.candidates if r.definition_hash == wanted.hash]
    return fitting[-1] if fitting else None


def follow_definition(observed: Observed, facts: CollectionFacts) -> list[Action]:
    active, wanted, meta = observed.active, observed.definition, observed.collection.metadata
    if active is None or wanted is None:
        return []
    kept = candidate(observed)
    actions: list[Action] = []
    for other in observed.candidates:
        if kept is None or other.name != kept.name:
            why = f"the definition is {wanted.hash}, it was built for {other.definition_hash}"
            actions += [tell(meta, Reasons.ABANDONING, f"{other.name} is abandoned: {why}")]
            actions += [Abandon(other.name, why)]
    if kept is not None:
        return actions + _enforce_deadline(observed, kept)
    if wanted.hash == active.definition_hash or given_up(observed) is not None:
        return actions
    name = names.rendition(_next_ordinal(observed, facts))
    message = f"the definition changed from {active.definition_hash} to {wanted.hash}: rendition {name} is built"
    return [*actions, tell(meta, Reasons.RENDITION_ADDED, message), AddRendition(name, wanted.document)]


def given_up(observed: Observed) -> Rendition | None:
    """The Rendition that missed the deadline with this very definition: it is not tried again by itself."""
    wanted = observed.definition
    for rendition in observed.renditions:
        told = abandonment(observed, rendition)
        if told is None or wanted is None or rendition.spec.definition_hash != wanted.hash:
            continue
        if told.reason == Reasons.HYDRATION_DEADLINE and _too_old(observed, rendition, told.at):
            return rendition
    return None


@dataclass(frozen=True)
class Abandonment:
    """Why a rendition was given up, and when."""

    reason: str
    message: str
    at: float


def abandonment(observed: Observed, rendition: Rendition) -> Abandonment | None:
    """What its status remembers; else what follows from the facts, when a pass ended before it was told."""
    told = find_condition(rendition.status.conditions, Conditions.ABANDONED)
    if told is not None:
        return Abandonment(told.reason, told.message, parse_time(told.last_transition_time))
    name = names.rendition_of_object(observed.collection.metadata.name, rendition.metadata.name)
    found = observed.facts.renditions.get(name) if observed.facts else None
    if found is None or found.role not in ("abandoned", "condemned") or found.handed_over_at is not None:
        return None
    same = observed.definition is not None and observed.definition.hash == found.definition_hash
    if same and _too_old(observed, rendition, observed.now):
        message = "it did not catch up within hydrationDeadlineSeconds"
        return Abandonment(Reasons.HYDRATION_DEADLINE, message, observed.now)
    return Abandonment(Reasons.SUPERSEDED, "another definition was asked for", observed.now)


def _too_old(observed: Observed, rendition: Rendition, at: float) -> bool:
    """Times of objects are whole seconds: one is allowed for."""
    return at + 1 - rendition.metadata.created_at > observed.collection.spec.hydration_deadline_seconds


def hand_over(observed: Observed, policy: Policy) -> list[Action]:
    """Catch up, stand by, and hand over when that is approved."""
    meta, chosen = observed.collection.metadata, candidate(observed)
    actions: list[Action] = []
    approved = meta.annotations.get(k.ANNOTATION_HANDOVER)
    if approved and observed.active and _names(observed, approved, observed.active):
        actions.append(RemoveAnnotation(about(k.COLLECTION, meta), k.ANNOTATION_HANDOVER))
    if chosen is None or observed.active is None:
        return actions
    if chosen.role == "building" and caught_up(observed, chosen, observed.active, policy):
        actions.append(MarkStandby(chosen.name))
    failed = attempts(observed, observed.active, "ingest", policy).failures >= policy.hopeless_after
    if chosen.role == "standby" and may_hand_over(observed, chosen) and _both_reach(observed, chosen, failed):
        message = (
            f"readers are handed over from rendition {observed.active.name} to {chosen.name}, "
            f"built for definition {chosen.definition_hash}"
        )
        if failed:
            message += f"; {observed.active.name} cannot be written any more and ends where it stands"
        actions += [tell(meta, Reasons.HANDING_OVER, message), Handover(chosen.name, close_old=failed)]
    return actions


def may_hand_over(observed: Observed, chosen: RenditionFacts) -> bool:
    approved = observed.collection.metadata.annotations.get(k.ANNOTATION_HANDOVER)
    by_hand = approved is not None and _names(observed, approved, chosen)
    return observed.collection.spec.handover.mode == "Auto" or by_hand


def caught_up(observed: Observed, chosen: RenditionFacts, active: RenditionFacts, policy: Policy) -> bool:
    """Its own ingest keeps it at the active one's side.

    The collection's frontier waits for a standby, so that a candidate whose ingest has not shown that it
    moves must not become one.
    """
    alive = attempts(observed, chosen, "ingest", policy).alive
    if not backfilled(observed, chosen.name) or alive is None:
        return False
    if chosen.upper is None or active.upper is None:
        return chosen.upper is None
    slack = int(policy.caught_up_ticks * observed.collection.spec.tick_seconds * 1000)
    moves = chosen.upper > alive.created_at * 1000
    return chosen.upper >= active.upper or (moves and chosen.upper >= active.upper - slack)


def _both_reach(observed: Observed, chosen: RenditionFacts, failed: bool) -> bool:
    """Readers leave the active rendition at the handover and find the candidate there: both must be written so far.

    An active rendition that cannot be written any more is not waited for: it is closed.
    """
    assert observed.facts is not None
    assert observed.active is not None
    at, active = observed.facts.metadata_upper, observed.active
    return (chosen.upper is None or chosen.upper > at) and (failed or active.upper is None or active.upper >= at)


def _names(observed: Observed, text: str, rendition: RenditionFacts) -> bool:
    return text in (rendition.name, names.rendition_object(observed.collection.metadata.name, rendition.name))


def _enforce_deadline(observed: Observed, kept: RenditionFacts) -> list[Action]:
    parent = observed.by_rendition.get(kept.name)
    if kept.role != "building" or parent is None or not _too_old(observed, parent, observed.now - 1):
        return []
    seconds = observed.collection.spec.hydration_deadline_seconds
    why = f"it did not catch up within hydrationDeadlineSeconds ({seconds:g})"
    meta = observed.collection.metadata
    return [warn(meta, Reasons.ABANDONING, f"{kept.name} is abandoned: {why}"), Abandon(kept.name, why)]


def _next_ordinal(observed: Observed, facts: CollectionFacts) -> int:
    """Higher than any ordinal ever used: the shards of a name that was swept can never be written again."""
    status = observed.collection.status
    told = [status.active_rendition, status.candidate_rendition]
    if status.last_handover is not None:
        told += [status.last_handover.from_, status.last_handover.to]
    used = [names.ordinal(name) for name in (*facts.renditions, *observed.by_rendition, *filter(None, told))]
    return max(used, default=0) + 1
