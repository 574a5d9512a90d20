"""The end of a Collection: its runs stop, its data stays or goes as asked, and then its finalizer goes."""

from __future__ import annotations

from seamark_operator.api import constants as k
from seamark_operator.api.constants import Reasons
from seamark_operator.core.observed import Observed, Problem, living
from seamark_operator.core.plan import Action, DeleteObject, DropCollection, Plan, ReleaseHold
from seamark_operator.core.runs import stop_unwanted
from seamark_operator.core.say import about, remove_finalizer, tell
from seamark_operator.core.status import deleting_status, patch
from seamark_operator.specs import names


def deletion(observed: Observed) -> Plan:
    meta, spec, status = observed.collection.metadata, observed.collection.spec, observed.collection.status
    if not meta.finalized_by_us:
        return Plan()
    actions: list[Action] = []
    if status.phase != "Deleting":
        fate = "is deleted" if spec.deletion_policy == "Delete" else "is kept"
        message = f"the runs are stopped; the data {fate} (deletionPolicy {spec.deletion_policy})"
        actions.append(tell(meta, Reasons.DELETING, message))
    obstacle = _obstacle(observed)
    shown = observed.failure or obstacle
    actions += patch(about(k.COLLECTION, meta), status, deleting_status(observed, shown))
    actions += stop_unwanted(observed, None)
    if any(living(run) for run in observed.runs) or obstacle is not None:
        return Plan(tuple(actions))
    actions += _storage(observed)
    actions += [DeleteObject(about(k.SHARD, shard.metadata)) for shard in observed.shards]
    actions += [DeleteObject(about(k.RENDITION, item.metadata)) for item in observed.renditions]
    actions += remove_finalizer(k.COLLECTION, meta)
    return Plan(tuple(actions))


def _obstacle(observed: Observed) -> Problem | None:
    """Why the data cannot be deleted as asked. Kept data needs no storage to be kept."""
    if observed.collection.spec.deletion_policy == "Retain":
        return None
    problem = observed.location_problem or observed.storage_problem
    if problem is None:
        return None
    return Problem(
        problem.reason,
        f"the data cannot be deleted: {problem.message}; repair that, or set deletionPolicy to Retain",
    )


def _storage(observed: Observed) -> list[Action]:
    """A drop that was interrupted leaves nothing to describe, but something to delete: it is asked for anyway."""
    meta, facts = observed.collection.metadata, observed.facts
    if observed.collection.spec.deletion_policy == "Delete":
        return [DropCollection(names.owner(meta.namespace, meta.name, meta.uid))]
    if facts is None:
        return []
    prefix = names.hold_prefix(meta.namespace)
    return [ReleaseHold(name) for name in facts.holds if name.startswith(prefix)]
