"""A folder of objects keeps the API server's rules."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from seamark.errors import Immutable, InvalidDefinition
from seamark_operator import settings
from seamark_operator.adapters.local_leases import LocalLeases
from seamark_operator.adapters.local_objects import LocalObjects
from seamark_operator.adapters.local_schema import Schemas
from seamark_operator.api import constants as k


@pytest.fixture
def objects(tmp_path: Path) -> LocalObjects:
    return LocalObjects(tmp_path, Schemas(settings.crds()))


def manifest(kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": k.API_VERSION, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def collection(**changes: Any) -> dict[str, Any]:
    spec = {
        "locationRef": {"name": "main"},
        "source": {"files": {"path": "/in"}, "fields": [{"name": "id", "type": "string"}]},
        "columns": [{"name": "id", "type": "string"}],
    }
    return manifest(k.COLLECTION, "orders", {**spec, **changes})


def test_an_applied_object_gets_identity_and_defaults(objects: LocalObjects) -> None:
    outcome, made = objects.apply(collection())
    assert outcome == "created"
    assert made["metadata"]["generation"] == 1
    assert made["metadata"]["namespace"] == "default"
    assert made["metadata"]["uid"]
    assert made["spec"]["shards"] == 1
    assert made["spec"]["handover"] == {"mode": "Auto"}
    assert made["spec"]["source"]["files"]["format"] == "jsonl"


def test_generation_counts_changes_of_spec_only(objects: LocalObjects) -> None:
    objects.apply(collection())
    assert objects.apply(collection())[0] == "unchanged"
    objects.patch_status(k.COLLECTION, "default", "orders", {"phase": "Ready"})
    outcome, changed = objects.apply(collection(shards=2))
    assert outcome == "configured"
    assert changed["metadata"]["generation"] == 2
    assert changed["status"] == {"phase": "Ready"}


def test_a_status_patch_merges_and_none_removes(objects: LocalObjects) -> None:
    objects.apply(collection())
    objects.patch_status(k.COLLECTION, "default", "orders", {"phase": "Ready", "lastHandover": {"from": "r1"}})
    objects.patch_status(k.COLLECTION, "default", "orders", {"phase": None, "lastHandover": {"to": "r2"}})
    found = objects.get(k.COLLECTION, "default", "orders")
    assert found is not None
    assert found["status"] == {"lastHandover": {"from": "r1", "to": "r2"}}
    objects.patch_status(k.COLLECTION, "default", "nobody", {"phase": "Ready"})


def test_a_finalizer_keeps_a_deleted_object_until_it_is_removed(objects: LocalObjects) -> None:
    objects.apply(collection())
    objects.set_finalizers(k.COLLECTION, "default", "orders", [k.FINALIZER])
    objects.delete(k.COLLECTION, "default", "orders")
    found = objects.get(k.COLLECTION, "default", "orders")
    assert found is not None
    assert found["metadata"]["deletionTimestamp"]
    objects.set_finalizers(k.COLLECTION, "default", "orders", [])
    assert objects.get(k.COLLECTION, "default", "orders") is None
    objects.delete(k.COLLECTION, "default", "orders")


def test_what_an_object_owns_goes_with_it(objects: LocalObjects) -> None:
    _, owner = objects.apply(collection())
    child = manifest(
        k.RENDITION,
        "orders-r1",
        {"collectionRef": {"name": "orders"}, "ordinal": 1, "definitionHash": "x", "definition": "{}"},
        ownerReferences=[{"uid": owner["metadata"]["uid"]}],
    )
    made = objects.create(child)
    assert objects.create({**child, "spec": {}}) == made, "create-only: the present one is returned"
    objects.delete(k.COLLECTION, "default", "orders")
    assert objects.list(k.RENDITION) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shards": 0}, r"spec\.shards: must be at least 1, found 0"),
        ({"shards": "two"}, r"spec\.shards: expected an integer, found 'two'"),
        ({"shard": 2}, r"spec\.shard: unknown field; known are .*shards"),
        ({"envelope": "upset"}, r"spec\.envelope: 'upset' is not one of none, upsert"),
        ({"columns": [{"name": "id", "type": "int"}]}, r"spec\.columns\[0\]\.type: 'int' is not one of bool, int32"),
        ({"columns": [{"type": "int64"}]}, r"spec\.columns\[0\]\.name: is required"),
        ({"locationRef": None}, r"spec\.locationRef: expected an object, found None"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused_naming_the_place(
    objects: LocalObjects, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidDefinition, match=message):
        objects.apply(collection(**changes))
    assert objects.list(k.COLLECTION) == []


def test_an_unknown_kind_is_refused_with_the_known_ones(objects: LocalObjects) -> None:
    with pytest.raises(InvalidDefinition, match="kind is one of StorageLocation, CheckpointStore, Collection"):
        objects.apply({"apiVersion": k.API_VERSION, "kind": "Table", "metadata": {"name": "x"}})


@pytest.mark.parametrize("known", [True, False], ids=["with the CRDs", "without them"])
def test_an_immutable_field_cannot_be_edited(tmp_path: Path, known: bool) -> None:
    objects = LocalObjects(tmp_path, Schemas(settings.crds() if known else None))
    objects.apply(collection())
    with pytest.raises(Immutable, match="Collection orders: locationRef is immutable"):
        objects.apply(collection(locationRef={"name": "other"}))
    hold = manifest(k.READ_HOLD, "audit", {"collectionRef": {"name": "orders"}, "asOf": 5})
    objects.apply(hold)
    assert objects.apply({**hold, "spec": {**hold["spec"], "asOf": 6}})[0] == "configured"
    with pytest.raises(Immutable, match="ReadHold audit: collectionRef is immutable"):
        objects.apply({**hold, "spec": {**hold["spec"], "collectionRef": {"name": "other"}}})


def _count_up(root: Path, times: int) -> None:
    objects = LocalObjects(root, Schemas(None))
    for _ in range(times):
        # A read-modify-write inside the lock: none may be lost.
        objects._edit(k.COLLECTION, "default", "orders", _increment)


def _increment(obj: dict[str, Any]) -> None:
    obj["status"] = {"upper": obj.get("status", {}).get("upper", 0) + 1}


def test_two_processes_lose_no_change(tmp_path: Path) -> None:
    objects = LocalObjects(tmp_path, Schemas(None))
    objects.apply(collection())
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_count_up, args=(tmp_path, 20)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    found = objects.get(k.COLLECTION, "default", "orders")
    assert found is not None
    assert found["status"]["upper"] == 40
    assert [path.name for path in tmp_path.rglob(".new-*")] == []


def test_events_are_kept_for_their_object_and_bounded(objects: LocalObjects) -> None:
    _, made = objects.apply(collection())
    for number in range(1100):
        objects.event(made, "Normal", "Tested", f"event {number}")
    kept = objects.events(k.COLLECTION, "default", "orders")
    assert kept[-1]["message"] == "event 1099"
    assert len(kept) <= 1000


def test_a_lease_is_reentrant_refused_to_others_and_taken_when_it_expired(tmp_path: Path) -> None:
    leases = LocalLeases(tmp_path, duration_seconds=60)
    assert leases.acquire("default", "orders-r1-0", "a", 1000.0, {"x": "y"})
    leases.record_epoch("default", "orders-r1-0", 3)
    assert leases.acquire("default", "orders-r1-0", "a", 1010.0, {})
    assert not leases.acquire("default", "orders-r1-0", "b", 1070.0, {})
    (lease,) = leases.list()
    assert (lease.holder, lease.epoch, lease.renewed_at) == ("a", 3, 1010.0)
    assert leases.acquire("default", "orders-r1-0", "b", 1071.0, {})
    leases.release("default", "orders-r1-0")
    leases.release("default", "orders-r1-0")
    assert leases.list() == []
