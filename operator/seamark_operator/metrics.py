"""What the operator tells Prometheus: counted as the controller reports it, and read live when scraped.

A series that tells of an object is made from the last look at it, and is gone when the object is.
"""

from __future__ import annotations

import threading
import time
from collections import Counter as Tally
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from seamark_operator.api import constants as k
from seamark_operator.core.observed import Observed
from seamark_operator.core.plan import Action, Handover, LaunchRun, PatchStatus, Sweep
from seamark_operator.ports import CollectionFacts, RenditionFacts, Run

PHASES = ("Pending", "Hydrating", "Ready", "Rebuilding", "Failed", "Deleting")
ROLES = ("building", "standby", "active", "retired", "abandoned", "condemned")
COLLECTION = ("namespace", "collection")
RENDITION = (*COLLECTION, "rendition")

Key = tuple[str, str]


@dataclass(frozen=True)
class _Seen:
    """One collection as last looked at."""

    phase: str
    facts: CollectionFacts | None
    runs: tuple[Run, ...]


class Metrics:
    """Every series of one operator process, in a registry of its own; the controller's observer."""

    def __init__(
        self,
        watch_ages: Callable[[], Mapping[str, float]] = dict,
        leading: Callable[[], bool] = lambda: True,
        runs_can_be_launched: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.registry = CollectorRegistry()
        self._watch_ages = watch_ages
        self._leading = leading
        self._launchable = runs_can_be_launched
        self._clock = clock
        self._lock = threading.Lock()
        self._collections: dict[Key, _Seen] = {}
        self._current: Key = ("", "")
        """The collection whose plan is carried out; one thread runs the controller."""
        counter = self._counter
        self._passes = counter("seamark_pass", "Passes over everything that changed", "result")
        self._reconciles = counter("seamark_reconcile", "Looks at one object and what came of it", "kind", "result")
        self._seconds = Histogram(
            "seamark_reconcile_seconds", "How long such a look took", ["kind"], registry=self.registry
        )
        self._actions = counter("seamark_actions", "Changes made, by what they do", "action")
        self._launched = counter("seamark_runs_launched", "Runs asked for", "kind")
        self._handovers = counter("seamark_handover", "Readers handed over to a new rendition", *COLLECTION)
        self._collected = counter("seamark_renditions_collected", "Renditions whose files were deleted", *COLLECTION)
        self._api_errors = counter("seamark_api_errors", "Answers of the API server other than success", "verb", "code")
        self.registry.register(self)

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def passed(self, error: BaseException | None, present: Collection[Key] | None) -> None:
        """A pass ended; `present` is every collection there is, when the pass was over all."""
        self._passes.labels("error" if error else "ok").inc()
        if present is None:
            return
        with self._lock:
            for key in self._collections.keys() - set(present):
                del self._collections[key]
                for counted in (self._handovers, self._collected):
                    counted.remove_by_labels(dict(zip(COLLECTION, key, strict=True)))

    def api_error(self, verb: str, code: str) -> None:
        self._api_errors.labels(verb, code).inc()

    def on_reconcile(self, collection: Key, seconds: float, result: str) -> None:  # noqa: ARG002 - as the protocol names it
        self._reconciles.labels(k.COLLECTION, result).inc()
        self._seconds.labels(k.COLLECTION).observe(seconds)

    def on_observed(self, observed: Observed) -> None:
        self._current = observed.collection.key
        phase = observed.collection.status.phase or "Pending"
        with self._lock:
            self._collections[self._current] = _Seen(phase, observed.facts, observed.runs)

    def on_action(self, action: Action) -> None:
        self._actions.labels(type(action).__name__).inc()
        match action:
            case LaunchRun(spec):
                self._launched.labels(spec.kind).inc()
            case Handover():
                self._handovers.labels(*self._current).inc()
            case Sweep():
                self._collected.labels(*self._current).inc()
            case PatchStatus(about, status) if about.kind == k.COLLECTION and status.get("phase"):
                with self._lock:
                    seen = self._collections.get((about.namespace, about.name))
                    if seen is not None:
                        moved = replace(seen, phase=str(status["phase"]))
                        self._collections[about.namespace, about.name] = moved

    def describe(self) -> Iterable[Metric]:
        """Nothing fixed; saying so keeps the registry from reading the live values at once."""
        return ()

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            seen = dict(self._collections)
        yield _gauge("seamark_leader", "1 in the process that acts", (), [((), float(self._leading()))])
        yield _gauge(
            "seamark_spark_operator_served",
            "1 when the API server knows SparkApplications, so that runs can be launched",
            (),
            [((), float(self._launchable()))],
        )
        yield _gauge(
            "seamark_watch_age_seconds",
            "How long the watch has hidden a change that the API server told of; 0 when it hides none",
            ("kind",),
            [((kind,), age) for kind, age in self._watch_ages().items()],
        )
        yield from _collections(seen, self._clock())
        yield from _renditions(seen)
        states = Tally((run.kind, run.state) for one in seen.values() for run in one.runs)
        values = [((kind, state), float(count)) for (kind, state), count in states.items()]
        yield _gauge("seamark_runs", "Runs by kind and state", ("kind", "state"), values)

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
