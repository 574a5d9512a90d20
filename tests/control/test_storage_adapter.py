"""The library behind the control plane's port: each change can be repeated, each look is a fresh one."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from seamark.errors import InvalidDefinition, InvalidLocation, NameTaken
from seamark.persist import Location
from seamark.storage import Collection, RunMarker, write_marker
from seamark_operator.adapters.storage import LibraryStorage
from seamark_operator.ports import Target

OWNER = "default/orders/uid-1"


def spec(expression: str = "id") -> dict[str, Any]:
    return {
        "locationRef": {"name": "main"},
        "source": {"files": {"path": "/in", "format": "jsonl"}, "fields": [{"name": "id", "type": "string"}]},
        "columns": [{"name": "id", "type": "string", "expression": expression}],
        "key": ["id"],
        "envelope": "upsert",
        "shards": 2,
        "tickSeconds": 1,
    }


@pytest.fixture
def target() -> Target:
    return Target(f"mem:{uuid.uuid4().hex}", None, "orders")


def created(target: Target) -> LibraryStorage:
    storage = LibraryStorage()
    storage.create(target, storage.define(spec()).document, OWNER)
    return storage


def advance(target: Target, rendition: str, upper: int) -> None:
    """As the driver of another process does."""
    location = Location.open(target.url)
    collection = Collection.open(location, target.name)
    for shard in collection.rendition(rendition).shards:
        shard.compare_and_append(None, shard.upper, upper)
    collection.advance()


def test_a_definition_is_parsed_and_a_wrong_one_is_refused() -> None:
    storage = LibraryStorage()
    assert storage.define(spec()).shards == 2
    assert storage.define(spec()).hash != storage.define(spec("upper(id)")).hash
    wrong = {**spec(), "columns": [{"name": "id", "type": "int"}]}
    with pytest.raises(InvalidDefinition, match="int64"):
        storage.define(wrong)


def test_what_is_not_there_is_none_and_a_wrong_url_is_refused(target: Target) -> None:
    storage = LibraryStorage()
    assert storage.describe(target) is None
    storage.probe(target.url)
    with pytest.raises(InvalidLocation):
        storage.probe("floppy:a")


def test_creation_is_repeatable_by_its_owner_alone(target: Target) -> None:
    storage = created(target)
    document = storage.define(spec()).document
    storage.create(target, document, OWNER)
    facts = storage.describe(target)
    assert facts is not None
    assert (facts.owner, facts.active, facts.since, facts.upper) == (OWNER, "r1", 0, 0)
    assert facts.renditions["r1"].document == document
    assert [shard.id for shard in facts.renditions["r1"].shards] == [
        "collections/orders/r1/0",
        "collections/orders/r1/1",
    ]
    with pytest.raises(NameTaken, match="belongs to 'default/orders/uid-1'"):
        storage.create(target, document, "elsewhere/orders/uid-2")


def test_a_look_sees_what_another_process_did(target: Target) -> None:
    storage = created(target)
    assert storage.describe(target) is not None
    advance(target, "r1", 5000)
    facts = storage.describe(target)
    assert facts is not None
    assert facts.upper == 5000


def test_a_rendition_is_added_handed_over_condemned_and_swept(target: Target) -> None:
    storage = created(target)
    advance(target, "r1", 5000)
    second = storage.define(spec("upper(id)"))
    for _ in range(2):
        storage.add_rendition(target, "r2", second.document)
    advance(target, "r2", 9000)
    for _ in range(2):
        storage.mark_standby(target, "r2")
    advance(target, "r1", 8000)
    at = storage.handover(target, "r2")
    assert storage.handover(target, "r2") == at
    facts = storage.describe(target)
    assert facts is not None
    assert facts.active == "r2"
    assert facts.renditions["r1"].role == "retired"
    assert facts.renditions["r1"].handed_over_at == at
    advance(target, "r2", 20_000)
    storage.retain(target, 0)
    for _ in range(2):
        storage.condemn(target, "r1")
    storage.sweep(target, "r1")
    assert storage.sweep(target, "r1") == 0
    facts = storage.describe(target)
    assert facts is not None
    assert set(facts.renditions) == {"r2"}


def test_an_abandoned_rendition_is_collected_at_once(target: Target) -> None:
    storage = created(target)
    storage.add_rendition(target, "r2", storage.define(spec("upper(id)")).document)
    for _ in range(2):
        storage.abandon(target, "r2", "another definition was asked for")
    storage.condemn(target, "r2")
    storage.sweep(target, "r2")
    facts = storage.describe(target)
    assert facts is not None
    assert set(facts.renditions) == {"r1"}


def test_holds_are_set_moved_and_released(target: Target) -> None:
    storage = created(target)
    advance(target, "r1", 5000)
    for as_of in (3000, 3000, 4000):
        storage.hold(target, "readhold/default/audit", as_of)
    facts = storage.describe(target)
    assert facts is not None
    assert facts.holds["readhold/default/audit"] == 4000
    for _ in range(2):
        storage.unhold(target, "readhold/default/audit")
    facts = storage.describe(target)
    assert facts is not None
    assert "readhold/default/audit" not in facts.holds


def test_markers_are_read_for_the_renditions_asked_for(target: Target) -> None:
    storage = created(target)
    location = Location.open(target.url)
    write_marker(location, RunMarker("bkf-1-a1", "orders", "r1", "backfill", "failed", 0, 1, "in/1.jsonl: not JSON"))
    (marker,) = storage.markers(target, ["r1", "r2"])
    assert (marker.run_id, marker.kind, marker.outcome, marker.detail) == (
        "bkf-1-a1", "backfill", "failed", "in/1.jsonl: not JSON",
    )  # fmt: skip
    assert storage.markers(target, ["r2"]) == []


def test_a_drop_empties_the_location_and_spares_another_owner(target: Target) -> None:
    storage = created(target)
    advance(target, "r1", 5000)
    storage.drop(target, "elsewhere/orders/uid-2")
    assert storage.describe(target) is not None
    for _ in range(2):
        storage.drop(target, OWNER)
    assert storage.describe(target) is None
    location = Location.open(target.url)
    assert list(location.blobs.list("")) == []
    assert list(location.logs.names("collections/")) == []


def test_a_drop_that_was_interrupted_is_finished(target: Target) -> None:
    storage = created(target)
    location = Location.open(target.url)
    location.open_shard("collections/orders/metadata").drop("interrupted right after")
    assert storage.describe(target) is None
    storage.drop(target, OWNER)
    assert list(location.logs.names("collections/")) == []
