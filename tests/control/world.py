"""A small world behind the ports, in memory: storage that keeps its promises, runs that do their work as time passes.

It checks, at every change, what must never happen: two runs with the same work, a sweep while somebody needs the
rendition, a handover to what cannot be read, a second use of a rendition's name.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from seamark.errors import Held, InvalidDefinition, NameTaken, NotYet, Refused
from seamark_operator.adapters.local_objects import merged
from seamark_operator.api import constants as k
from seamark_operator.api.meta import format_time
from seamark_operator.control import Controller
from seamark_operator.core.observed import Policy
from seamark_operator.core.plan import Action
from seamark_operator.ports import (
    CollectionFacts,
    DefinitionFacts,
    Lease,
    Marker,
    Object,
    RenditionFacts,
    Role,
    Run,
    RunSpec,
    ShardFacts,
    Target,
)
from seamark_operator.settings import Settings


class Killed(BaseException):
    """The controller's process is gone, between two actions."""


class MemoryObjects:
    def __init__(self, world: World) -> None:
        self._world = world
        self.found: dict[tuple[str, str, str], Object] = {}
        self.events: list[tuple[str, str, str]] = []
        self.status_writes = 0
        self._uids = 0

    def list(self, kind: str) -> Sequence[Object]:
        return [copy.deepcopy(obj) for (each, _, _), obj in sorted(self.found.items()) if each == kind]

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        return copy.deepcopy(self.found.get((kind, namespace, name)))

    def create(self, obj: Object) -> Object:
        key = (obj["kind"], obj["metadata"].get("namespace", "default"), obj["metadata"]["name"])
        if key not in self.found:
            made = copy.deepcopy(obj)
            self._uids += 1
            made["metadata"] |= {
                "namespace": key[1],
                "uid": f"uid-{self._uids}",
                "generation": 1,
                "creationTimestamp": format_time(self._world.now),
            }
            self.found[key] = made
        return copy.deepcopy(self.found[key])

    def patch_status(self, kind: str, namespace: str, name: str, status: Mapping[str, Any]) -> None:
        obj = self.found.get((kind, namespace, name))
        if obj is not None:
            self.status_writes += 1
            obj["status"] = merged(obj.get("status", {}), status)

    def set_finalizers(self, kind: str, namespace: str, name: str, finalizers: Sequence[str]) -> None:
        obj = self.found.get((kind, namespace, name))
        if obj is not None:
            obj["metadata"]["finalizers"] = list(finalizers)
            if obj["metadata"].get("deletionTimestamp") and not finalizers:
                self._remove((kind, namespace, name))

    def remove_annotation(self, kind: str, namespace: str, name: str, annotation: str) -> None:
        obj = self.found.get((kind, namespace, name))
        if obj is not None:
            obj["metadata"].get("annotations", {}).pop(annotation, None)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        obj = self.found.get((kind, namespace, name))
        if obj is None:
            return
        if obj["metadata"].get("finalizers"):
            obj["metadata"].setdefault("deletionTimestamp", format_time(self._world.now))
        else:
            self._remove((kind, namespace, name))

    def event(self, about: Object, severity: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        self.events.append((severity, reason, message))

    def edit(self, kind: str, name: str, **spec: Any) -> None:
        """As a user does with kubectl."""
        obj = self.found[kind, "default", name]
        if {**obj["spec"], **spec} != obj["spec"]:
            obj["spec"] |= spec
            obj["metadata"]["generation"] += 1

    def annotate(self, kind: str, name: str, key: str, value: str) -> None:
        self.found[kind, "default", name]["metadata"].setdefault("annotations", {})[key] = value

    def _remove(self, key: tuple[str, str, str]) -> None:
        uid = self.found.pop(key)["metadata"]["uid"]
        for child, obj in list(self.found.items()):
            if any(owner["uid"] == uid for owner in obj["metadata"].get("ownerReferences", ())):
                self.delete(*child)


class MemoryRunner:
    def __init__(self, world: World) -> None:
        self._world = world
        self.runs: dict[str, Run] = {}
        self.launched: list[RunSpec] = []

    def launch(self, spec: RunSpec) -> None:
        if spec.name in self.runs:
            return
        same = [
            r.name for r in self.runs.values() if (r.rendition, r.kind) == (spec.rendition, spec.kind) and _living(r)
        ]
        assert not same, f"{spec.name} does the same work as {same}, which lives"
        assert spec.name not in [old.name for old in self.launched], f"{spec.name} was launched twice"
        self.launched.append(spec)
        self.runs[spec.name] = Run(
            spec.name, spec.namespace, spec.kind, spec.attempt, spec.collection, spec.rendition, "Running", "",
            self._world.now,
        )  # fmt: skip

    def list(self) -> Sequence[Run]:
        return list(self.runs.values())

    def stop(self, namespace: str, name: str) -> None:
        self.runs.pop(name, None)

    def fail(self, name: str, message: str = "the driver was killed") -> None:
        self.runs[name] = replace(self.runs[name], state="Failed", message=message)


class MemoryLeases:
    def __init__(self) -> None:
        self.leases: dict[tuple[str, str], Lease] = {}

    def list(self) -> Sequence[Lease]:
        return list(self.leases.values())

    def acquire(self, namespace: str, name: str, holder: str, now: float, labels: Mapping[str, str]) -> bool:
        present = self.leases.get((namespace, name))
        if present is not None and present.holder != holder and now - present.renewed_at <= 60:
            return False
        epoch = present.epoch if present is not None else 0
        self.leases[namespace, name] = Lease(namespace, name, holder, epoch, now, 60)
        return True

    def record_epoch(self, namespace: str, name: str, epoch: int) -> None:
        if (namespace, name) in self.leases:
            self.leases[namespace, name] = replace(self.leases[namespace, name], epoch=epoch)

    def release(self, namespace: str, name: str) -> None:
        self.leases.pop((namespace, name), None)


@dataclass
class _Rendition:
    document: str
    role: Role
    upper: int = 0
    at: int | None = None
    was_active: bool = False


@dataclass
class _Collection:
    owner: str
    renditions: dict[str, _Rendition]
    upper: int = 0
    holds: dict[str, int] = field(default_factory=lambda: {k.RETENTION_HOLD: 0})
    since: int = 0
    markers: dict[str, Marker] = field(default_factory=dict)
    used: set[str] = field(default_factory=lambda: {"r1"})
    handovers: list[tuple[str, str, int]] = field(default_factory=list)

    @property
    def active(self) -> str:
        (name,) = [name for name, r in self.renditions.items() if r.role == "active"]
        return name

    def advance(self) -> None:
        goal = self.renditions[self.active].upper
        standby = [r.upper - 1 for r in self.renditions.values() if r.role == "standby"]
        self.upper = max(self.upper, min([goal, *standby]))

    def move_since(self) -> None:
        self.since = max(self.since, min(self.holds.values()))


def definition(spec: Mapping[str, Any]) -> DefinitionFacts:
    """A world in which the definition is one word, `columns`."""
    if spec["columns"] == "wrong":
        raise InvalidDefinition("columns[0].type: 'int' is not known; known are int32, int64")
    document = json.dumps({"columns": spec["columns"]})
    return DefinitionFacts(hashlib.sha256(document.encode()).hexdigest()[:12], document, 2)


class MemoryStorage:
    def __init__(self) -> None:
        self.collections: dict[str, _Collection] = {}
        self.unavailable: Exception | None = None

    def define(self, spec: Mapping[str, Any]) -> DefinitionFacts:
        return definition(spec)

    def probe(self, url: str) -> None:
        if self.unavailable is not None:
            raise self.unavailable

    def describe(self, target: Target) -> CollectionFacts | None:
        self.probe(target.url)
        found = self.collections.get(target.name)
        if found is None:
            return None
        return CollectionFacts(
            owner=found.owner,
            since=found.since,
            upper=found.upper,
            active=found.active,
            renditions={name: _facts(target.name, name, r) for name, r in found.renditions.items()},
            holds=dict(found.holds),
            metadata_upper=found.upper,
        )

    def markers(self, target: Target, renditions: Sequence[str]) -> Sequence[Marker]:
        return [m for m in self.collections[target.name].markers.values() if m.rendition in renditions]

    def create(self, target: Target, document: str, owner: str) -> None:
        self.probe(target.url)
        present = self.collections.get(target.name)
        if present is not None and present.owner != owner:
            raise NameTaken(f"collection {target.name} belongs to {present.owner!r}")
        if present is None:
            first = _Rendition(document, "active", was_active=True)
            self.collections[target.name] = _Collection(owner, {"r1": first})

    def add_rendition(self, target: Target, rendition: str, document: str) -> None:
        found = self.collections[target.name]
        present = found.renditions.get(rendition)
        if present is not None and present.document == document:
            return
        assert rendition not in found.used, f"the name {rendition} was used before"
        found.used.add(rendition)
        found.renditions[rendition] = _Rendition(document, "building")

    def mark_standby(self, target: Target, rendition: str) -> None:
        found = self.collections[target.name].renditions[rendition]
        if found.role not in ("building", "standby"):
            raise Refused(f"{rendition} is {found.role}")
        found.role = "standby"

    def handover(self, target: Target, rendition: str, *, close_old: bool = False) -> int:
        found = self.collections[target.name]
        chosen, at = found.renditions[rendition], found.upper
        if chosen.role == "active":
            return chosen.at or 0
        if chosen.role != "standby" or chosen.upper <= at:
            raise Refused(f"{rendition} is {chosen.role} and cannot be read at {at}")
        old = found.renditions[found.active]
        if old.upper < at and not close_old:
            raise NotYet(f"{found.active} is written only up to {old.upper}")
        found.handovers.append((found.active, rendition, at))
        old.role, old.at = "retired", at
        chosen.role, chosen.was_active, found.upper = "active", True, at + 1
        return at

    def abandon(self, target: Target, rendition: str, why: str) -> None:
        found = self.collections[target.name]
        chosen = found.renditions[rendition]
        if chosen.role in ("building", "standby"):
            chosen.role, chosen.at = "abandoned", found.upper

    def hold(self, target: Target, name: str, as_of: int) -> None:
        found = self.collections[target.name]
        if as_of < found.since or as_of < found.holds.get(name, 0):
            raise Refused(f"hold {name} cannot be at {as_of}, since is {found.since}")
        found.holds[name] = as_of
        found.move_since()

    def unhold(self, target: Target, name: str) -> None:
        found = self.collections[target.name]
        found.holds.pop(name, None)
        found.move_since()

    def retain(self, target: Target, millis: int) -> None:
        found = self.collections[target.name]
        goal = max(0, found.upper - 1 - millis)
        found.holds[k.RETENTION_HOLD] = max(found.holds.get(k.RETENTION_HOLD, 0), goal)
        found.move_since()

    def condemn(self, target: Target, rendition: str) -> None:
        found = self.collections[target.name]
        self._check_unneeded(found, rendition)
        found.renditions[rendition].role = "condemned"

    def sweep(self, target: Target, rendition: str) -> int:
        found = self.collections[target.name]
        if rendition not in found.renditions:
            return 0
        assert found.renditions[rendition].role == "condemned"
        self._check_unneeded(found, rendition)
        del found.renditions[rendition]
        found.markers = {name: m for name, m in found.markers.items() if m.rendition != rendition}
        return 1

    def drop(self, target: Target, owner: str) -> None:
        self.probe(target.url)
        found = self.collections.get(target.name)
        if found is not None and found.owner == owner:
            del self.collections[target.name]

    def close(self) -> None:
        return

    def _check_unneeded(self, found: _Collection, rendition: str) -> None:
        chosen = found.renditions[rendition]
        assert chosen.role not in ("active", "standby", "building"), f"{rendition} is {chosen.role}"
        if chosen.was_active and chosen.at is not None and found.since <= chosen.at:
            raise Held(f"{rendition} is needed by {found.holds}")


class World:
    """Everything behind the ports, a clock, and a controller that can be killed."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.now = 1_000_000.0
        self.objects = MemoryObjects(self)
        self.runner = MemoryRunner(self)
        self.leases = MemoryLeases()
        self.storage = MemoryStorage()
        self.policy = policy or Policy()
        self.kill_after: int | None = None
        self.acted: list[Action] = []
        self.broken_driver = False
        """Whether ingest makes no progress and fails."""
        self.start()

    def start(self) -> None:
        """A fresh process: it remembers nothing."""
        self.controller = Controller(
            self.objects, self.runner, self.leases, self.storage, lambda: self.now,
            settings=Settings(policy=self.policy, retry_cap_seconds=4), observer=self,
        )  # fmt: skip

    def on_reconcile(self, collection: tuple[str, str], seconds: float, result: str) -> None:
        return

    def on_observed(self, observed: Any) -> None:
        return

    def on_action(self, action: Action) -> None:
        self.acted.append(action)
        if self.kill_after is not None:
            self.kill_after -= 1
            if self.kill_after <= 0:
                self.kill_after = None
                raise Killed

    def step(self) -> int:
        """One pass; a controller that is killed in it is started again. How many actions."""
        before = len(self.acted)
        try:
            self.controller.step()
        except Killed:
            self.start()
        return len(self.acted) - before

    def pass_time(self, seconds: float = 1.0) -> None:
        """The clock moves, and living runs do their work."""
        self.now += seconds
        for run in list(self.runner.runs.values()):
            if _living(run):
                self._work(run)

    def live(self, steps: int, seconds: float = 1.0) -> None:
        for _ in range(steps):
            self.step()
            self.pass_time(seconds)

    def _work(self, run: Run) -> None:
        found = self.storage.collections.get(run.collection)
        name = run.rendition.removeprefix(f"{run.collection}-")
        rendition = found.renditions.get(name) if found else None
        if found is None or rendition is None or rendition.role not in ("building", "standby", "active"):
            self.runner.runs[run.name] = replace(run, state="Succeeded")
            return
        if self.broken_driver:
            self.runner.fail(run.name, "in/1.jsonl, byte 17: not JSON")
            return
        rendition.upper = max(rendition.upper, int(self.now * 1000))
        found.advance()
        if run.kind == "backfill":
            found.markers[run.name] = Marker(run.name, name, "backfill", "committed")
            self.runner.runs[run.name] = replace(run, state="Succeeded")

    # What users do

    def apply_location(self) -> None:
        self.objects.create({"kind": k.STORAGE_LOCATION, "metadata": {"name": "main"}, "spec": {"url": "mem:w"}})

    def apply_collection(self, columns: str = "a", **spec: Any) -> None:
        self.apply_location()
        body = {"locationRef": {"name": "main"}, "columns": columns, "retainSeconds": 0, "tickSeconds": 1, **spec}
        self.objects.create({"kind": k.COLLECTION, "metadata": {"name": "orders"}, "spec": body})

    def apply_hold(self, as_of: int, name: str = "audit") -> None:
        spec = {"collectionRef": {"name": "orders"}, "asOf": as_of}
        self.objects.create({"kind": k.READ_HOLD, "metadata": {"name": name}, "spec": spec})

    def collection(self) -> Object:
        return self.objects.found[k.COLLECTION, "default", "orders"]

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.collection().get("status", {})
        return status

    def condition(self, type_: str) -> dict[str, Any]:
        return next(c for c in self.status()["conditions"] if c["type"] == type_)

    def stored(self) -> _Collection:
        return self.storage.collections["orders"]

    def reasons(self) -> list[str]:
        return [reason for _, reason, _ in self.objects.events]

    def end(self) -> dict[str, Any]:
        """What must not depend on how often the controller was killed on the way."""
        stored = self.storage.collections.get("orders")
        return {
            "definition": stored.renditions[stored.active].document if stored else None,
            "roles": sorted(r.role for r in stored.renditions.values()) if stored else None,
            "holds": {n: t for n, t in stored.holds.items() if n != k.RETENTION_HOLD} if stored else None,
            "living runs": sorted(r.kind for r in self.runner.runs.values() if _living(r)),
            "leases": len(self.leases.leases),
            "phase": self.collection()["status"]["phase"] if stored else None,
            "objects": {kind: len(self.objects.list(kind)) for kind in (k.COLLECTION, k.READ_HOLD)},
        }


def _living(run: Run) -> bool:
    return run.state in ("Pending", "Running")


def _facts(collection: str, name: str, rendition: _Rendition) -> RenditionFacts:
    shards = tuple(ShardFacts(f"collections/{collection}/{name}/{index}", 0, rendition.upper, 1) for index in range(2))
    return RenditionFacts(
        name=name,
        role=rendition.role,
        definition_hash=definition(json.loads(rendition.document)).hash,
        since=0,
        upper=rendition.upper,
        handed_over_at=rendition.at if rendition.role in ("retired", "condemned") else None,
        shards=shards,
        document=rendition.document,
    )
