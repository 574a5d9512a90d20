"""What the operator tells Prometheus: counted where the ports are called, and read live when scraped.

The meters wrap the ports, so neither the core nor the controller knows that it is measured. A series that
tells of an object is made from the last look at it and is gone when the object is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from seamark_operator.api import constants as k
from seamark_operator.ports import (
    CollectionFacts,
    Object,
    Objects,
    RenditionFacts,
    Run,
    RunSpec,
    SparkRunner,
    Storage,
    Target,
)

PHASES = ("Pending", "Hydrating", "Ready", "Rebuilding", "Failed", "Deleting")
ROLES = ("building", "standby", "active", "retired", "abandoned", "condemned")
COLLECTION = ("namespace", "collection")
RENDITION = (*COLLECTION, "rendition")

Key = tuple[str, str]


@dataclass(frozen=True)
class _Seen:
    """One collection as last looked at."""

    uid: str
    phase: str
    facts: CollectionFacts | None = None


class Metrics:
    """Every series of one operator process, in a registry of its own."""

    def __init__(
        self,
        watch_ages: Callable[[], Mapping[str, float]] = dict,
        leading: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.registry = CollectorRegistry()
        self._watch_ages = watch_ages
        self._leading = leading
        self._clock = clock
        self._lock = threading.Lock()
        self._collections: dict[Key, _Seen] = {}
        self._runs: Sequence[Run] = ()
        self._served = True
        counter = self._counter
        self.reconciles = counter("seamark_reconcile", "Passes of the controller", "kind", "result")
        self.reconcile_seconds = Histogram(
            "seamark_reconcile_seconds", "How long a pass took", ["kind"], registry=self.registry
        )
        self.actions = counter("seamark_actions", "Changes made through the ports", "action")
        self.runs_launched = counter("seamark_runs_launched", "Runs that were asked for", "kind")
        self.handovers = counter("seamark_handover", "Readers handed over to a new rendition", *COLLECTION)
        self.collected = counter(
            "seamark_renditions_collected", "Renditions whose files were deleted", *COLLECTION
        )
        self.api_errors = counter(
            "seamark_api_errors", "Answers of the API server other than success", "verb", "code"
        )
        self.registry.register(self)

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def passed(self, kind: str, seconds: float, error: BaseException | None) -> None:
        self.reconciles.labels(kind, "error" if error else "ok").inc()
        self.reconcile_seconds.labels(kind).observe(seconds)

    def api_error(self, verb: str, code: str) -> None:
        self.api_errors.labels(verb, code).inc()

    def saw_collections(self, objects: Iterable[Object]) -> None:
        """These are all there are; what is not among them is gone."""
        with self._lock:
            found = {}
            for obj in objects:
                meta = obj["metadata"]
                key, uid = (meta["namespace"], meta["name"]), meta.get("uid", "")
                before = self._collections.get(key)
                facts = before.facts if before and before.uid == uid else None
                found[key] = _Seen(uid, (obj.get("status") or {}).get("phase") or "Pending", facts)
            for key in self._collections.keys() - found.keys():
                for counted in (self.handovers, self.collected):
                    counted.remove_by_labels(dict(zip(COLLECTION, key, strict=True)))
            self._collections = found

    def saw_facts(self, facts: CollectionFacts) -> None:
        namespace, name, uid = facts.owner.split("/", 2)
        with self._lock:
            seen = self._collections.get((namespace, name))
            if seen is not None and seen.uid == uid:
                self._collections[namespace, name] = _Seen(uid, seen.phase, facts)

    def saw_runs(self, runs: Sequence[Run]) -> None:
        with self._lock:
            self._runs = tuple(runs)

    def describe(self) -> Iterable[Metric]:
        """Nothing fixed; says so, so that registering does not read the live values."""
        return ()

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            collections, runs = dict(self._collections), self._runs
        yield _gauge("seamark_leader", "1 in the process that acts", (), [((), float(self._leading()))])
        yield _gauge(
            "seamark_watch_age_seconds",
            "How long the watch has hidden a change that the API server told of; 0 when it hides none",
            ("kind",),
            [((kind,), age) for kind, age in self._watch_ages().items()],
        )
        yield from _collections(collections, self._clock())
        yield from _renditions(collections)
        states: dict[tuple[str, str], float] = {}
        for run in runs:
            states[run.kind, run.state] = states.get((run.kind, run.state), 0) + 1
        yield _gauge("seamark_runs", "Runs by kind and state", ("kind", "state"), states.items())

    def _counter(self, name: str, help: str, *labels: str) -> Counter:
        return Counter(name, help, labels, registry=self.registry)


def _collections(seen: Mapping[Key, _Seen], now: float) -> Iterable[Metric]:
    phases = [((*key, phase), float(one.phase == phase)) for key, one in seen.items() for phase in PHASES]
    yield _gauge("seamark_collection_phase", "1 for the phase it is in", (*COLLECTION, "phase"), phases)
    told = [(key, one.facts) for key, one in seen.items() if one.facts is not None]
    yield _gauge(
        "seamark_collection_frontier_since_milliseconds",
        "The first time that can be read",
        COLLECTION,
        [(key, float(facts.since)) for key, facts in told],
    )
    uppers = [(key, float(facts.upper)) for key, facts in told if facts.upper is not None]
    yield _gauge(
        "seamark_collection_frontier_upper_milliseconds",
        "The first time not readable yet",
        COLLECTION,
        uppers,
    )
    yield _gauge(
        "seamark_collection_lag_seconds",
        "How far the upper is behind the clock; none before anything was written",
        COLLECTION,
        [(key, max(0.0, now - upper / 1000)) for key, upper in uppers if upper > 0],
    )


def _renditions(seen: Mapping[Key, _Seen]) -> Iterable[Metric]:
    told = [
        ((*key, rendition.name), rendition)
        for key, one in seen.items()
        if one.facts is not None
        for rendition in one.facts.renditions.values()
    ]
    yield _gauge(
        "seamark_rendition_role",
        "1 for the role it has",
        (*RENDITION, "role"),
        [((*key, role), float(rendition.role == role)) for key, rendition in told for role in ROLES],
    )
    measures: Mapping[str, tuple[str, Callable[[RenditionFacts], float | None]]] = {
        "seamark_rendition_since_milliseconds": ("The first time that can be read", lambda r: r.since),
        "seamark_rendition_upper_milliseconds": ("The first time not written yet", lambda r: r.upper),
        "seamark_rendition_parts": ("Parts it is stored in", lambda r: sum(s.parts for s in r.shards)),
        "seamark_rendition_bytes": ("Bytes of its parts", lambda r: sum(s.bytes for s in r.shards)),
    }
    for name, (help, measure) in measures.items():
        values = [(key, measure(rendition)) for key, rendition in told]
        yield _gauge(name, help, RENDITION, [(key, float(v)) for key, v in values if v is not None])
    yield _gauge(
        "seamark_lock_epoch",
        "Epoch of the shard's write lock; each takeover raises it",
        (*RENDITION, "shard"),
        [((*key, s.id.rsplit("/", 1)[-1]), float(s.epoch)) for key, r in told for s in r.shards],
    )


def _gauge(
    name: str, help: str, labels: Sequence[str], values: Iterable[tuple[tuple[str, ...], float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help, labels=labels)
    for marks, value in values:
        family.add_metric(marks, value)
    return family


class _Meter:
    """Passes every call on to a port; subclasses look at what comes by."""

    def __init__(self, port: Any, metrics: Metrics, actions: frozenset[str]) -> None:
        self._port = port
        self._metrics = metrics
        self._actions = actions

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if name not in self._actions:
            return found

        def counted(*args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            self._metrics.actions.labels(name).inc()
            return result

        return counted


class _MeteredObjects(_Meter):
    def list(self, kind: str) -> Sequence[Object]:
        found: Sequence[Object] = self._port.list(kind)
        if kind == k.COLLECTION:
            self._metrics.saw_collections(found)
        return found


class _MeteredRunner(_Meter):
    def list(self) -> Sequence[Run]:
        found: Sequence[Run] = self._port.list()
        self._metrics.saw_runs(found)
        return found

    def launch(self, spec: RunSpec) -> None:
        self._port.launch(spec)
        self._metrics.actions.labels("launch").inc()
        self._metrics.runs_launched.labels(spec.kind).inc()


class _MeteredStorage(_Meter):
    def __init__(self, port: Any, metrics: Metrics, actions: frozenset[str]) -> None:
        super().__init__(port, metrics, actions)
        self._owners: dict[Target, Key] = {}

    def describe(self, target: Target) -> CollectionFacts | None:
        facts: CollectionFacts | None = self._port.describe(target)
        if facts is not None:
            namespace, name, _ = facts.owner.split("/", 2)
            self._owners[target] = (namespace, name)
            self._metrics.saw_facts(facts)
        return facts

    def handover(self, target: Target, rendition: str) -> int:
        at: int = self._port.handover(target, rendition)
        self._count("handover", self._metrics.handovers, target)
        return at

    def sweep(self, target: Target, rendition: str) -> int:
        deleted: int = self._port.sweep(target, rendition)
        self._count("sweep", self._metrics.collected, target)
        return deleted

    def _count(self, action: str, counter: Counter, target: Target) -> None:
        self._metrics.actions.labels(action).inc()
        counter.labels(*self._owners.get(target, ("", target.name))).inc()


OBJECT_ACTIONS = frozenset(
    {"create", "patch_status", "set_finalizers", "remove_annotation", "delete", "event"}
)
STORAGE_ACTIONS = frozenset(
    {"add_rendition", "mark_standby", "abandon", "hold", "unhold", "retain", "condemn", "drop"}
)


def metered_objects(port: Objects, metrics: Metrics) -> Objects:
    metered: Objects = _MeteredObjects(port, metrics, OBJECT_ACTIONS)
    return metered


def metered_runner(port: SparkRunner, metrics: Metrics) -> SparkRunner:
    metered: SparkRunner = _MeteredRunner(port, metrics, frozenset({"stop"}))
    return metered


def metered_storage(port: Storage, metrics: Metrics) -> Storage:
    metered: Storage = _MeteredStorage(port, metrics, STORAGE_ACTIONS)
    return metered
