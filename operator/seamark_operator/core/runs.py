"""Which Spark runs and which leases there should be: one run per rendition and kind of work, never two."""

from __future__ import annotations

from seamark_operator.api.constants import Reasons
from seamark_operator.core.attempts import Attempts, attempts, wanted_run
from seamark_operator.core.observed import Observed, Policy, living
from seamark_operator.core.plan import (
    AcquireLease,
    Action,
    LaunchRun,
    RecordEpoch,
    ReleaseLease,
    StopRun,
)
from seamark_operator.core.say import tell, warn
from seamark_operator.ports import CollectionFacts, RenditionFacts, RunKind
from seamark_operator.specs import names, objects
from seamark_operator.specs.runs import run_spec


def runs(observed: Observed, facts: CollectionFacts, policy: Policy) -> list[Action]:
    actions: list[Action] = [*stop_unwanted(observed, facts)]
    for rendition in facts.renditions.values():
        kind = wanted_run(observed, rendition)
        if kind is not None and rendition.name in observed.by_rendition:
            actions += _keep_leases(observed, rendition)
            actions += _keep_running(observed, rendition, kind, policy)
    return actions


def stop_unwanted(observed: Observed, facts: CollectionFacts | None) -> list[Action]:
    """Runs and leases of renditions that nobody should write to; runs end before their locks are given up."""
    meta = observed.collection.metadata
    written = {
        rendition.name
        for rendition in (facts.renditions.values() if facts else ())
        if wanted_run(observed, rendition) is not None
    }
    parents = {names.rendition_object(meta.name, name) for name in written}
    locks = {
        names.lease(meta.name, rendition.name, index)
        for rendition in (facts.renditions.values() if facts else ())
        if rendition.name in written
        for index in range(len(rendition.shards))
    }
    stopped: list[Action] = [StopRun(run.namespace, run.name) for run in observed.runs if run.rendition not in parents]
    released = [ReleaseLease(lease.namespace, lease.name) for lease in observed.leases if lease.name not in locks]
    return [*stopped, *released]


def foreign_lock(observed: Observed, rendition: RenditionFacts) -> str | None:
    """Who else holds a lease of the rendition, in words."""
    meta = observed.collection.metadata
    holder = names.reentrance_id(meta.namespace, meta.name, rendition.name)
    wanted = {names.lease(meta.name, rendition.name, index) for index in range(len(rendition.shards))}
    for lease in observed.leases:
        if lease.name in wanted and lease.holder != holder:
            return (
                f"Lease {lease.name} is held by {lease.holder!r} and {holder!r} needs it: it is taken when "
                f"it expires ({lease.duration_seconds} s without renewal); delete the Lease to break the lock"
            )
    return None


def _keep_leases(observed: Observed, rendition: RenditionFacts) -> list[Action]:
    meta = observed.collection.metadata
    holder = names.reentrance_id(meta.namespace, meta.name, rendition.name)
    labels = objects.labels(meta.name, names.rendition_object(meta.name, rendition.name))
    present = {lease.name: lease for lease in observed.leases}
    actions: list[Action] = []
    for index, shard in enumerate(rendition.shards):
        name = names.lease(meta.name, rendition.name, index)
        lease = present.get(name)
        stale = lease is None or observed.now - lease.renewed_at > lease.duration_seconds / 3
        if lease is None or lease.holder != holder or stale:
            actions.append(AcquireLease(meta.namespace, name, holder, labels))
        if shard.epoch and (lease is None or (lease.holder == holder and lease.epoch != shard.epoch)):
            actions.append(RecordEpoch(meta.namespace, name, shard.epoch))
    return actions


def _keep_running(observed: Observed, rendition: RenditionFacts, kind: RunKind, policy: Policy) -> list[Action]:
    history = attempts(observed, rendition, kind, policy)
    actions: list[Action] = [*_forget(history, policy)]
    alive = history.alive
    if alive is None:
        if observed.now >= history.next_at(policy):
            actions += _launch(observed, rendition, kind, history)
    elif alive.state == "Pending" and observed.now - alive.created_at > policy.pending_deadline_seconds:
        waited = int(observed.now - alive.created_at)
        message = (
            f"run {alive.name} has not started in {waited} s ({alive.message or 'no reason given'}): "
            "it is stopped and tried again; look at the Spark operator and the namespace's quota"
        )
        actions += [
            warn(observed.collection.metadata, Reasons.PENDING_TOO_LONG, message),
            StopRun(alive.namespace, alive.name),
        ]
    return actions


def _forget(history: Attempts, policy: Policy) -> list[Action]:
    """Older attempts: a living one was replaced, an ended one is kept only while it counts."""
    if history.latest is None:
        return []
    horizon = history.latest.attempt - policy.failing_after
    return [StopRun(run.namespace, run.name) for run in history.runs[:-1] if living(run) or run.attempt < horizon]


def _launch(observed: Observed, rendition: RenditionFacts, kind: RunKind, history: Attempts) -> list[Action]:
    meta, target = observed.collection.metadata, observed.target
    parent = observed.by_rendition[rendition.name]
    if target is None or parent.metadata.deleting:
        return []
    spec = run_spec(
        meta,
        parent.metadata,
        rendition.name,
        rendition.definition_hash,
        kind,
        history.highest + 1,
        location=target.url,
        checkpoints=target.checkpoints,
        tick_seconds=observed.collection.spec.tick_seconds,
        credentials_secret=observed.credentials_secret,
    )
    leases = tuple(names.lease(meta.name, rendition.name, index) for index in range(len(rendition.shards)))
    why = f", because: {history.message}" if history.failures else ""
    message = f"{kind} of rendition {rendition.name} starts as run {spec.name} (attempt {spec.attempt}{why})"
    return [tell(meta, Reasons.RUN_LAUNCHED, message), LaunchRun(spec, leases)]
