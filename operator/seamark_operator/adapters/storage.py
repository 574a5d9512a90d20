"""The port `Storage` over the library: handles are kept open per location, and every look is a fresh one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from seamark.engines.registry import open_engines
from seamark.errors import Dropped, NotFound, SeamarkError
from seamark.persist import Location
from seamark.storage import Collection, Definition, Facts, parse_definition
from seamark.storage.runs import prefix_of, read_marker
from seamark_operator.ports import (
    CollectionFacts,
    DefinitionFacts,
    Marker,
    RenditionFacts,
    Role,
    RunKind,
    ShardFacts,
    Target,
)


class LibraryStorage:
    """One per process; not for several threads at once."""

    def __init__(self) -> None:
        self._locations: dict[tuple[str, str | None], Location] = {}
        self._collections: dict[Target, Collection] = {}
        self._markers: dict[tuple[Target, str], Marker] = {}

    def define(self, spec: Mapping[str, Any]) -> DefinitionFacts:
        definition = parse_definition(spec)
        return DefinitionFacts(definition.hash, definition.to_json(), definition.shards)

    def probe(self, url: str) -> None:
        engines = open_engines(url)
        try:
            next(iter(engines.blobs.list("collections/")), None)
            next(iter(engines.logs.names("collections/")), None)
        finally:
            engines.close()

    def describe(self, target: Target) -> CollectionFacts | None:
        try:
            collection = self._collection(target)
            facts = collection.describe()
        except (NotFound, Dropped):
            self._forget(target)
            return None
        except SeamarkError:
            self._forget(target)
            raise
        return _collection_facts(facts, collection)

    def markers(self, target: Target, renditions: Sequence[str]) -> Sequence[Marker]:
        location = self._location(target)
        found = []
        for rendition in renditions:
            prefix = prefix_of(target.name, rendition)
            for blob in location.blobs.list(prefix):
                run_id = blob.key.removeprefix(prefix).removesuffix(".json")
                # A marker is written once: what was read is what stands.
                known = self._markers.get((target, blob.key)) or self._read(target, rendition, run_id)
                if known is not None:
                    self._markers[target, blob.key] = known
                    found.append(known)
        return found

    def create(self, target: Target, document: str, owner: str) -> None:
        definition = Definition.from_json(document)
        self._collections[target] = Collection.create(self._location(target), target.name, definition, owner=owner)

    def add_rendition(self, target: Target, rendition: str, document: str) -> None:
        self._collection(target).add_rendition(rendition, Definition.from_json(document))

    def mark_standby(self, target: Target, rendition: str) -> None:
        self._collection(target).mark_standby(rendition)

    def handover(self, target: Target, rendition: str, *, close_old: bool = False) -> int:
        return self._collection(target).handover(rendition, close_old=close_old)

    def abandon(self, target: Target, rendition: str, why: str) -> None:
        self._collection(target).abandon(rendition, why)

    def hold(self, target: Target, name: str, as_of: int) -> None:
        self._collection(target).hold(name, as_of)

    def unhold(self, target: Target, name: str) -> None:
        self._collection(target).unhold(name)

    def retain(self, target: Target, millis: int) -> None:
        self._collection(target).retain(millis)

    def condemn(self, target: Target, rendition: str) -> None:
        self._collection(target).condemn(rendition)

    def sweep(self, target: Target, rendition: str) -> int:
        swept = self._collection(target).sweep(rendition)
        self._markers = {
            key: marker for key, marker in self._markers.items() if key[0] != target or marker.rendition != rendition
        }
        return swept

    def drop(self, target: Target, owner: str) -> None:
        location = self._location(target)
        self._forget(target)
        try:
            shard = location.open_shard(f"collections/{target.name}/metadata")
        except (NotFound, Dropped):
            return
        if shard.state.owner == owner:
            Collection(location, target.name, shard).drop()
        self._markers = {key: marker for key, marker in self._markers.items() if key[0] != target}

    def close(self) -> None:
        self._collections.clear()
        for location in self._locations.values():
            location.close()
        self._locations.clear()

    def _location(self, target: Target) -> Location:
        key = (target.url, target.checkpoints)
        if key not in self._locations:
            self._locations[key] = Location.open(target.url, checkpoints=target.checkpoints)
        return self._locations[key]

    def _collection(self, target: Target) -> Collection:
        if target not in self._collections:
            self._collections[target] = Collection.open(self._location(target), target.name)
        return self._collections[target]

    def _forget(self, target: Target) -> None:
        self._collections.pop(target, None)

    def _read(self, target: Target, rendition: str, run_id: str) -> Marker | None:
        marker = read_marker(self._location(target), target.name, rendition, run_id)
        if marker is None:
            return None
        outcome = cast(Any, marker.outcome)
        return Marker(marker.run_id, marker.rendition, cast(RunKind, marker.kind), outcome, marker.detail)


def _collection_facts(facts: Facts, collection: Collection) -> CollectionFacts:
    return CollectionFacts(
        owner=facts.owner,
        since=facts.since,
        upper=facts.upper,
        active=facts.active,
        renditions={
            name: RenditionFacts(
                name=name,
                role=cast(Role, found.role),
                definition_hash=found.definition_hash,
                since=found.since,
                upper=found.upper,
                handed_over_at=found.handed_over_at,
                shards=tuple(
                    ShardFacts(s.id, s.since, s.upper, s.epoch, s.lock_holder or "", s.parts, s.bytes)
                    for s in found.shards
                ),
                document=collection.rendition(name).definition.to_json(),
            )
            for name, found in facts.renditions.items()
        },
        holds=dict(facts.holds),
        metadata_upper=facts.metadata_upper,
    )
