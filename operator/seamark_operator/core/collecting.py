"""When a rendition may go: marked first, swept in a later pass, its objects deleted last."""

from __future__ import annotations

from seamark_operator.api import constants as k
from seamark_operator.api.constants import Reasons
from seamark_operator.core.definition import abandonment
from seamark_operator.core.observed import Observed, living
from seamark_operator.core.plan import Action, Condemn, DeleteObject, Sweep
from seamark_operator.core.say import about, tell
from seamark_operator.ports import CollectionFacts, RenditionFacts
from seamark_operator.specs import names


def collecting(observed: Observed, facts: CollectionFacts) -> list[Action]:
    return [*_renditions(observed, facts), *_objects(observed, facts)]


def needed(observed: Observed, facts: CollectionFacts, rendition: RenditionFacts) -> bool:
    """Whether a reader may still ask for a time at which the rendition was active."""
    if rendition.role in ("active", "standby", "building"):
        return True
    parent = observed.by_rendition.get(rendition.name)
    never_read = parent is not None and abandonment(observed, parent) is not None
    if rendition.role == "abandoned" or never_read:
        return False
    return rendition.handed_over_at is not None and facts.since <= rendition.handed_over_at


def _renditions(observed: Observed, facts: CollectionFacts) -> list[Action]:
    meta = observed.collection.metadata
    actions: list[Action] = []
    for rendition in facts.renditions.values():
        busy = any(living(run) for run in observed.runs_of(rendition.name))
        if needed(observed, facts, rendition) or busy or rendition.name not in observed.by_rendition:
            continue
        if rendition.role == "condemned":
            message = f"the files of rendition {rendition.name} are deleted"
            actions += [tell(meta, Reasons.SWEEPING, message), Sweep(rendition.name)]
        else:
            actions += [tell(meta, Reasons.CONDEMNING, _why(facts, rendition)), Condemn(rendition.name)]
    return actions


def _why(facts: CollectionFacts, rendition: RenditionFacts) -> str:
    if rendition.handed_over_at is None:
        return f"rendition {rendition.name} was abandoned and no reader has ever seen it: it is condemned"
    return (
        f"rendition {rendition.name} was handed over at {rendition.handed_over_at}, since is {facts.since}: "
        "no reader needs it, it is condemned"
    )


def _objects(observed: Observed, facts: CollectionFacts) -> list[Action]:
    """Objects of renditions that storage no longer has.

    The newest Rendition stays even when it was swept: it remembers which ordinals are used up, and why the
    candidate was given up.
    """
    meta = observed.collection.metadata
    newest = max((names.ordinal(name) for name in (*facts.renditions, *observed.by_rendition)), default=0)
    gone = {name: item for name, item in observed.by_rendition.items() if name not in facts.renditions}
    parents = {item.metadata.name for item in gone.values()}
    actions: list[Action] = [
        DeleteObject(about(k.SHARD, shard.metadata))
        for shard in observed.shards
        if shard.spec.rendition_ref.name in parents and not shard.metadata.deleting
    ]
    for name, item in gone.items():
        if names.ordinal(name) < newest and not item.metadata.deleting:
            actions += [
                tell(meta, Reasons.COLLECTED, f"rendition {name} is collected: nothing of it is left"),
                DeleteObject(about(k.RENDITION, item.metadata)),
            ]
    return actions
