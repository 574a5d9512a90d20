"""Gathers what there is: one listing of everything a pass, then one look at storage for each collection."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from seamark.errors import InvalidDefinition, SeamarkError
from seamark_operator.api import constants as k
from seamark_operator.api.constants import Reasons
from seamark_operator.api.meta import decode
from seamark_operator.api.resources import Collection, ReadHold, Rendition, Shard, Store
from seamark_operator.core.observed import Observed, Problem
from seamark_operator.ports import Lease, Leases, Marker, Object, Objects, Run, SparkRunner, Storage, Target
from seamark_operator.specs import names

Key = tuple[str, str]
"""Namespace and name."""

T = TypeVar("T")


@dataclass(frozen=True)
class Listing:
    """Everything the ports told, by the collection it belongs to."""

    collections: Mapping[Key, Object]
    stores: Mapping[str, Mapping[Key, Object]]
    renditions: Mapping[Key, tuple[Rendition, ...]]
    shards: Mapping[Key, tuple[Shard, ...]]
    holds: Mapping[Key, tuple[ReadHold, ...]]
    runs: Mapping[Key, tuple[Run, ...]]
    leases: tuple[Lease, ...]


def take_listing(objects: Objects, runner: SparkRunner, leases: Leases) -> Listing:
    """Objects are listed before storage is read: an object that is listed was in storage before that."""
    return Listing(
        collections={key_of(obj): obj for obj in objects.list(k.COLLECTION)},
        stores={
            kind: {key_of(obj): obj for obj in objects.list(kind)} for kind in (k.STORAGE_LOCATION, k.CHECKPOINT_STORE)
        },
        renditions=_by_collection(objects.list(k.RENDITION), Rendition),
        shards=_by_collection(objects.list(k.SHARD), Shard),
        holds=_by_collection(objects.list(k.READ_HOLD), ReadHold),
        runs=_grouped(((run.namespace, run.collection), run) for run in runner.list()),
        leases=tuple(leases.list()),
    )


def observe(
    key: Key, listing: Listing, storage: Storage, now: float, *, status_due: bool, failure: Problem | None
) -> Observed:
    """What there is of one collection. `InvalidDefinition` when the object cannot be understood at all."""
    obj = listing.collections[key]
    collection = decode(obj, Collection)
    target, secret, location_problem = _target(collection, listing)
    definition, definition_problem = None, None
    try:
        definition = storage.define(obj["spec"])
    except InvalidDefinition as error:
        definition_problem = Problem(Reasons.INVALID_DEFINITION, str(error))
    facts, storage_problem = None, None
    markers: tuple[Marker, ...] = ()
    if target is not None:
        try:
            facts = storage.describe(target)
            if facts is not None:
                markers = tuple(storage.markers(target, tuple(facts.renditions)))
        except (SeamarkError, OSError) as error:
            storage_problem = problem(error)
    return Observed(
        now=now,
        collection=collection,
        target=target,
        credentials_secret=secret,
        location_problem=location_problem,
        definition=definition,
        definition_problem=definition_problem,
        storage=facts if storage_problem is None else None,
        storage_problem=storage_problem,
        renditions=listing.renditions.get(key, ()),
        shards=listing.shards.get(key, ()),
        holds=listing.holds.get(key, ()),
        runs=listing.runs.get(key, ()),
        leases=tuple(
            lease
            for lease in listing.leases
            if lease.namespace == key[0] and names.lease_belongs_to(lease.name, key[1])
        ),
        markers=markers,
        status_due=status_due,
        failure=failure,
    )


def problem(error: BaseException) -> Problem:
    """An error as a condition says it."""
    if isinstance(error, SeamarkError):
        return Problem(type(error).__name__, str(error))
    return Problem(Reasons.INTERNAL_ERROR, f"{type(error).__name__}: {error}")


def key_of(obj: Object) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace", "default"), metadata["name"]


def _target(collection: Collection, listing: Listing) -> tuple[Target | None, str | None, Problem | None]:
    meta, spec = collection.metadata, collection.spec
    location = _store(listing, k.STORAGE_LOCATION, meta.namespace, spec.location_ref.name)
    if location is None:
        return (
            None,
            None,
            _missing(Reasons.LOCATION_NOT_FOUND, k.STORAGE_LOCATION, spec.location_ref.name, meta),
        )
    checkpoints = None
    if spec.checkpoint_store_ref is not None:
        name = spec.checkpoint_store_ref.name
        store = _store(listing, k.CHECKPOINT_STORE, meta.namespace, name)
        if store is None:
            return None, None, _missing(Reasons.CHECKPOINT_STORE_NOT_FOUND, k.CHECKPOINT_STORE, name, meta)
        checkpoints = store.spec.url
    secret = location.spec.credentials_secret_ref
    return Target(location.spec.url, checkpoints, meta.name), secret.name if secret else None, None


def _store(listing: Listing, kind: str, namespace: str, name: str) -> Store | None:
    obj = listing.stores[kind].get((namespace, name))
    return decode(obj, Store) if obj is not None else None


def _missing(reason: str, kind: str, name: str, meta: Any) -> Problem:
    return Problem(
        reason,
        f"Collection {meta.name} refers to {kind} {name}, which is not in namespace {meta.namespace}; create it",
    )


def _by_collection(found: Iterable[Object], type_: type[T]) -> dict[Key, tuple[T, ...]]:
    """What cannot be understood belongs to nobody; it is not ours to judge a child by half."""
    pairs: list[tuple[Key, T]] = []
    for obj in found:
        with contextlib.suppress(InvalidDefinition):
            item = decode(obj, type_)
            pairs.append(((key_of(obj)[0], obj["spec"]["collectionRef"]["name"]), item))
    return _grouped(pairs)


def _grouped(pairs: Iterable[tuple[Key, T]]) -> dict[Key, tuple[T, ...]]:
    groups: defaultdict[Key, list[T]] = defaultdict(list)
    for key, item in pairs:
        groups[key].append(item)
    return {key: tuple(items) for key, items in groups.items()}
