"""The decision: from what was observed of one collection to what should be done, pure and level-triggered.

Nothing here remembers: the same observation gives the same plan, and a plan that was carried out in part, or
twice, leads to the same end. `spec` is never written.
"""

from __future__ import annotations

from seamark_operator.api import constants as k
from seamark_operator.core.collecting import collecting
from seamark_operator.core.definition import child_objects, creation, follow_definition, hand_over
from seamark_operator.core.deletion import deletion
from seamark_operator.core.holds import read_holds, released_holds, retention
from seamark_operator.core.observed import Observed, Policy
from seamark_operator.core.plan import Action, Plan
from seamark_operator.core.runs import runs
from seamark_operator.core.say import ensure_finalizer
from seamark_operator.core.status import paused_status, statuses

DEFAULT_POLICY = Policy()


def reconcile(observed: Observed, policy: Policy = DEFAULT_POLICY) -> Plan:
    meta = observed.collection.metadata
    if meta.deleting:
        return deletion(observed)
    if meta.annotations.get(k.ANNOTATION_PAUSED) == "true":
        return Plan((*released_holds(observed), *paused_status(observed)))
    facts = observed.facts
    actions: list[Action] = [*ensure_finalizer(k.COLLECTION, meta), *creation(observed)]
    actions += read_holds(observed)
    if facts is not None:
        actions += child_objects(observed, facts)
        actions += follow_definition(observed, facts)
        actions += runs(observed, facts, policy)
        actions += retention(observed, facts, policy)
        actions += hand_over(observed, policy)
    # What was seen is told before anything is collected: why a rendition went must outlive it.
    actions += statuses(observed, policy)
    if facts is not None:
        actions += collecting(observed, facts)
    return Plan(tuple(actions))
