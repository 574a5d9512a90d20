"""The loop's body, shared by the shells: look, decide, act; one collection's trouble never stops another."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from seamark.errors import SeamarkError
from seamark_operator.api import constants as k
from seamark_operator.api.meta import decode
from seamark_operator.api.resources import Store
from seamark_operator.core import holds, stores
from seamark_operator.core.observed import Observed, Problem
from seamark_operator.core.plan import Action, PatchStatus, Plan, StopRun
from seamark_operator.core.reconcile import reconcile
from seamark_operator.execute import Executor
from seamark_operator.observe import Key, Listing, observe, problem, take_listing
from seamark_operator.ports import Leases, Objects, SparkRunner, Storage
from seamark_operator.settings import Settings

log = logging.getLogger("seamark.control")

Result = Literal["done", "again", "failed", "waiting"]
Clock = Callable[[], float]


class Observer(Protocol):
    """Is told what happens, for metrics."""

    def on_reconcile(self, collection: Key, seconds: float, result: Result) -> None: ...

    def on_action(self, action: Action) -> None: ...

    def on_observed(self, observed: Observed) -> None: ...


@dataclass(frozen=True)
class Summary:
    """What one pass did."""

    results: dict[Key, Result] = field(default_factory=dict)
    actions: int = 0

    @property
    def failed(self) -> tuple[Key, ...]:
        return tuple(key for key, result in self.results.items() if result == "failed")


@dataclass
class _Memory:
    """What one process remembers of a collection; losing it costs a status write, nothing else."""

    generation: int = 0
    failures: int = 0
    failure: Problem | None = None
    retry_at: float = 0.0
    status_at: float = float("-inf")


class Controller:
    """One pass over everything with `step()`; the shells decide when."""

    def __init__(
        self,
        objects: Objects,
        runner: SparkRunner,
        leases: Leases,
        storage: Storage,
        clock: Clock = time.time,
        *,
        settings: Settings | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._objects = objects
        self._runner = runner
        self._leases = leases
        self._storage = storage
        self._clock = clock
        self._settings = settings or Settings()
        self._observer = observer
        self._actions = 0
        self._memory: dict[Key, _Memory] = {}
        self._probes: dict[tuple[str, Key], tuple[float, str, Problem | None]] = {}
        self._executor = Executor(objects, runner, leases, storage, self._acted)

    def step(self, keys: Iterable[Key] | None = None) -> Summary:
        """One pass over all collections and stores, or over the collections named."""
        self._actions = 0
        listing = take_listing(self._objects, self._runner, self._leases)
        chosen = None if keys is None else set(keys)
        if chosen is None:
            self._probe_stores(listing)
            self._sweep_orphans(listing)
        wanted = [key for key in listing.collections if chosen is None or key in chosen]
        results: dict[Key, Result] = {}
        for round_ in range(self._settings.rounds):
            if round_ > 0:
                listing = take_listing(self._objects, self._runner, self._leases)
            wanted = [key for key in wanted if key in listing.collections]
            results.update({key: self._collection(key, listing) for key in wanted})
            wanted = [key for key in wanted if results[key] == "again"]
            if not wanted:
                break
        self._forget(listing.collections)
        return Summary(results, self._actions)

    def _collection(self, key: Key, listing: Listing) -> Result:
        memory = self._memory.setdefault(key, _Memory())
        now = self._clock()
        generation = listing.collections[key]["metadata"].get("generation", 1)
        edited, memory.generation = generation != memory.generation, generation
        if now < memory.retry_at and not edited:
            return "waiting"
        began = time.monotonic()
        result = self._guarded(key, listing, memory, now)
        if self._observer is not None:
            self._observer.on_reconcile(key, time.monotonic() - began, result)
        return result

    def _guarded(self, key: Key, listing: Listing, memory: _Memory, now: float) -> Result:
        due = now - memory.status_at >= self._settings.policy.status_seconds
        try:
            observed = observe(key, listing, self._storage, now, status_due=due, failure=None)
        except SeamarkError as error:
            self._not_understood(key, listing, error, now)
            return self._failed(key, memory, error)
        except Exception as error:
            return self._failed(key, memory, error)
        if self._observer is not None:
            self._observer.on_observed(observed)
        try:
            plan = reconcile(observed, self._settings.policy)
            self._executor.execute(plan, observed.target, now)
        except Exception as error:
            result = self._failed(key, memory, error)
            self._tell_failure(replace(observed, failure=memory.failure))
            return result
        if due and any(isinstance(action, PatchStatus) for action in plan.actions):
            memory.status_at = now
        memory.failures, memory.failure, memory.retry_at = 0, None, 0.0
        return "again" if plan.again else "done"

    def _failed(self, key: Key, memory: _Memory, error: Exception) -> Result:
        settings = self._settings
        memory.failures += 1
        memory.failure = problem(error)
        delay = min(settings.retry_cap_seconds, settings.retry_first_seconds * 2 ** min(memory.failures - 1, 32))
        memory.retry_at = self._clock() + delay
        where = "/".join(key)
        if isinstance(error, SeamarkError):
            log.warning("collection %s: %s; next try in %.0f s", where, error, delay)
        else:
            log.exception("collection %s: unexpected error; next try in %.0f s", where, delay, exc_info=error)
        return "failed"

    def _tell_failure(self, observed: Observed) -> None:
        """What was observed is still true and is told, with the failure beside it."""
        try:
            plan = reconcile(observed, self._settings.policy)
            told = tuple(action for action in plan.actions if isinstance(action, PatchStatus))
            self._executor.execute(Plan(told), observed.target, observed.now)
        except Exception:
            log.exception("collection %s: the failure could not be told", "/".join(observed.collection.key))

    def _not_understood(self, key: Key, listing: Listing, error: SeamarkError, now: float) -> None:
        try:
            obj = {"kind": k.COLLECTION, **listing.collections[key]}
            self._executor.execute(stores.not_understood(obj, str(error), now), None, now)
        except Exception:
            log.exception("collection %s: the failure could not be told", "/".join(key))

    def _probe_stores(self, listing: Listing) -> None:
        present = set()
        for kind, found in listing.stores.items():
            for key, obj in found.items():
                present.add((kind, key))
                try:
                    self._probe_store(kind, key, decode(obj, Store))
                except Exception as error:
                    log.warning("%s %s: %s", kind, "/".join(key), error)
        self._probes = {known: probe for known, probe in self._probes.items() if known in present}

    def _probe_store(self, kind: str, key: Key, store: Store) -> None:
        now = self._clock()
        probed_at, url, found = self._probes.get((kind, key), (float("-inf"), "", None))
        if url != store.spec.url or now - probed_at >= self._settings.probe_seconds:
            try:
                self._storage.probe(store.spec.url)
                found = None
            except Exception as error:
                found = problem(error)
            self._probes[kind, key] = (now, store.spec.url, found)
        self._executor.execute(stores.store(kind, store, found, now), None, now)

    def _sweep_orphans(self, listing: Listing) -> None:
        """What belongs to a collection that does not exist: runs are stopped, ReadHolds wait or go."""
        now = self._clock()
        for key, found in listing.holds.items():
            if key not in listing.collections:
                for hold in found:
                    self._orphan(holds.orphan(hold, now), now)
        for key, runs in listing.runs.items():
            if key not in listing.collections:
                for run in runs:
                    self._orphan(Plan((StopRun(run.namespace, run.name),)), now)

    def _orphan(self, plan: Plan, now: float) -> None:
        try:
            self._executor.execute(plan, None, now)
        except Exception as error:
            log.warning("cleaning up after a collection that is gone: %s", error)

    def _acted(self, action: Action) -> None:
        self._actions += 1
        if self._observer is not None:
            self._observer.on_action(action)

    def _forget(self, present: Collection[Key]) -> None:
        self._memory = {key: memory for key, memory in self._memory.items() if key in present}
