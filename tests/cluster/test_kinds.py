"""The API server itself refuses what cannot mean anything, fills in defaults, and shows what people look for."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable

import pytest

from tests.cluster.control_plane import CommandFailed, ControlPlane
from tests.cluster.manifests import HOLD, RENDITION, SHARD, Change, Manifest, location, manifest, orders

pytestmark = pytest.mark.slow

CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "Readable",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "observedGeneration": 1,
}


@pytest.fixture
def apply(cluster: ControlPlane, kube_namespace: str) -> Callable[[Manifest], str]:
    def applied(obj: Manifest) -> str:
        return cluster.kubectl("apply", "-n", kube_namespace, "-f", "-", input=json.dumps(obj))

    return applied


REFUSED: dict[str, tuple[Manifest, str]] = {
    "an unknown column type": (
        orders(lambda s: s["columns"][1].update(type="decimal")),
        'spec.columns[1].type: Unsupported value: "decimal": supported values: "bool", "int32", "int64", "float64", '
        '"string", "binary", "date", "timestamp"',
    ),
    "an unknown field type": (
        orders(lambda s: s["source"]["fields"][0].update(type="text")),
        'spec.source.fields[0].type: Unsupported value: "text"',
    ),
    "upsert without a key": (
        orders(lambda s: s.pop("key")),
        "envelope upsert needs a key: name the columns that identify a row in spec.key",
    ),
    "a key that is no column": (
        orders(lambda s: s.update(key=["order_id", "cents"])),
        "every name in key must be the name of one of the columns",
    ),
    "a key that names a column twice": (
        orders(lambda s: s.update(key=["order_id", "order_id"])),
        "a column may stand in key once only",
    ),
    "two columns of one name": (
        orders(lambda s: s["columns"].append({"name": "AMOUNT", "type": "int64", "expression": "1"})),
        "column names must be unique, whatever the case of their letters",
    ),
    "a reserved column name": (
        orders(lambda s: s["columns"].append({"name": "_time", "type": "int64", "expression": "1"})),
        "spec.columns[2].name in body should match",
    ),
    "a column from nowhere": (
        orders(lambda s: s["columns"].append({"name": "city", "type": "string"})),
        "a column without an expression takes the source field of its name",
    ),
    "an expression without end": (
        orders(lambda s: s["columns"][1].update(expression="1" + " + 1" * 2000)),
        "spec.columns[1].expression: Too long: may not be more than 4096 bytes",
    ),
    "deletes without a key": (
        orders(lambda s: s.update(envelope="none", deleteWhen="cents = 0")),
        "deleteWhen needs envelope upsert",
    ),
    "no shards": (orders(lambda s: s.update(shards=0)), "spec.shards in body should be greater than or equal to 1"),
    "a name too long for its children": (
        orders(name="o" * 41),
        "metadata.name must have at most 40 characters: the names of its renditions and shards are made from it",
    ),
    "a name with a dot": (orders(name="shop.orders"), "metadata.name must not contain a dot"),
    "an unknown engine": (location(url="ftp://host/data"), "url must begin with disk: or s3://"),
    "a password in a URL": (
        location(url="s3://user:secret@bucket/prefix"),
        "url must not carry a user or password: put them in a Secret and name it in spec.credentialsSecretRef",
    ),
    "a hold before all times": (
        manifest("ReadHold", "audit", {"collectionRef": {"name": "orders"}, "asOf": -1}),
        "spec.asOf in body should be greater than or equal to 0",
    ),
}


@pytest.mark.parametrize(("obj", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_mean_anything_is_refused(apply: Callable[[Manifest], str], obj: Manifest, message: str) -> None:
    with pytest.raises(CommandFailed) as refused:
        apply(obj)
    assert message in refused.value.output


def test_a_misspelt_field_is_refused_rather_than_dropped(apply: Callable[[Manifest], str]) -> None:
    with pytest.raises(CommandFailed) as refused:
        apply(orders(lambda s: s.update(tickSecond=1)))
    assert 'unknown field "spec.tickSecond"' in refused.value.output


IMMUTABLE: dict[str, tuple[Manifest, Change, str]] = {
    "a collection's location": (
        orders(),
        lambda s: s.update(locationRef={"name": "other"}),
        "locationRef is immutable: create a new Collection to move data",
    ),
    "a location's bucket": (
        location(),
        lambda s: s.update(url="s3://other/prefix"),
        "url is immutable up to its '?': create a new StorageLocation to move data",
    ),
    "a rendition": (
        RENDITION,
        lambda s: s.update(definition='{"a": 1}'),
        "the spec of a Rendition is immutable: change the Collection and the operator makes a new one",
    ),
    "a shard": (
        SHARD,
        lambda s: s.update(index=1),
        "the spec of a Shard is immutable: it shows what is, and its Rendition decides it",
    ),
    "what a hold holds": (
        HOLD,
        lambda s: s.update(collectionRef={"name": "other"}),
        "collectionRef is immutable: create a new ReadHold to hold another Collection",
    ),
}


@pytest.mark.parametrize(("before", "change", "message"), IMMUTABLE.values(), ids=IMMUTABLE.keys())
def test_what_is_immutable_cannot_be_edited(
    apply: Callable[[Manifest], str], before: Manifest, change: Change, message: str
) -> None:
    apply(before)
    after = copy.deepcopy(before)
    change(after["spec"])
    with pytest.raises(CommandFailed) as refused:
        apply(after)
    assert message in refused.value.output


def test_what_may_change_can_be_edited(apply: Callable[[Manifest], str]) -> None:
    apply(orders())
    apply(orders(lambda s: s["columns"][1].update(expression="cents")))
    apply(location())
    apply(location(url="s3://bucket/prefix?endpoint=http://127.0.0.1:9001"))
    apply(HOLD)
    apply(manifest("ReadHold", "audit", {"collectionRef": {"name": "orders"}, "asOf": 6}))


def test_the_longest_name_leaves_room_for_the_names_of_its_children() -> None:
    assert len("o" * 40 + "-r99999-1023") <= 63


def test_defaults_are_filled_in_by_the_api_server(
    cluster: ControlPlane, kube_namespace: str, apply: Callable[[Manifest], str]
) -> None:
    apply(orders(lambda s: (s.pop("envelope"), s.pop("key"))))
    spec = cluster.get("collection", "orders", "-n", kube_namespace)["spec"]
    found = {name: spec[name] for name in spec if name not in ("locationRef", "columns")}
    found["source"] = found["source"]["files"]
    assert found == {
        "source": {"path": "/data/orders", "format": "jsonl"},
        "envelope": "none",
        "shards": 1,
        "tickSeconds": 5,
        "retainSeconds": 3600,
        "handover": {"mode": "Auto"},
        "hydrationDeadlineSeconds": 86400,
        "deletionPolicy": "Retain",
    }


STATUS: dict[str, tuple[Manifest, Manifest]] = {
    "Collection": (
        orders(),
        {
            "phase": "Rebuilding",
            "activeRendition": "r1",
            "candidateRendition": "r2",
            "since": 1_700_000_000_000,
            "upper": 1_700_000_005_000,
            "definitionHash": "0123456789ab",
            "lastHandover": {"from": "r0", "to": "r1", "at": 1_700_000_000_001},
            "observedGeneration": 1,
            "conditions": [CONDITION],
        },
    ),
    "StorageLocation": (
        location(),
        {"phase": "Available", "message": "ok", "observedGeneration": 1, "conditions": [CONDITION]},
    ),
    "CheckpointStore": (
        manifest("CheckpointStore", "fast", {"url": "disk:/checkpoints"}),
        {"phase": "Unavailable", "message": "no answer", "observedGeneration": 1, "conditions": [CONDITION]},
    ),
    "Rendition": (
        RENDITION,
        {
            "phase": "Retired",
            "since": 1,
            "upper": 2,
            "handedOverAt": 1,
            "run": {"name": "ing-0123456789-a1", "state": "Running", "attempt": 1},
            "message": "ok",
            "observedGeneration": 1,
            "conditions": [CONDITION],
        },
    ),
    "Shard": (SHARD, {"since": 1, "upper": 2, "epoch": 3, "lockHolder": "a/b/r1", "parts": 4, "bytes": 5}),
    "ReadHold": (HOLD, {"phase": "Held", "asOf": 5, "observedGeneration": 1, "conditions": [CONDITION]}),
}


@pytest.mark.parametrize("kind", STATUS)
def test_every_field_of_a_status_is_kept(
    cluster: ControlPlane, kube_namespace: str, apply: Callable[[Manifest], str], kind: str
) -> None:
    obj, status = STATUS[kind]
    name = obj["metadata"]["name"]
    apply(obj)
    patch = json.dumps({"status": status})
    where = (kind.lower(), name, "-n", kube_namespace)
    cluster.kubectl("patch", *where, "--subresource=status", "--type=merge", "-p", patch)
    found = cluster.get(*where)
    assert found["status"] == status
    assert found["metadata"]["generation"] == 1, "a status is no change of what was asked for"


def test_people_see_how_their_collections_are(
    cluster: ControlPlane, kube_namespace: str, apply: Callable[[Manifest], str]
) -> None:
    for obj, status in STATUS.values():
        apply(obj)
        target = f"{obj['kind'].lower()}/{obj['metadata']['name']}"
        patch = json.dumps({"status": status})
        cluster.kubectl("patch", "-n", kube_namespace, target, "--subresource=status", "--type=merge", "-p", patch)
    head, row = cluster.kubectl("get", "collections", "-n", kube_namespace).splitlines()
    assert head.split() == ["NAME", "PHASE", "ACTIVE", "CANDIDATE", "UPPER", "READY", "AGE"]
    assert row.split()[:6] == ["orders", "Rebuilding", "r1", "r2", "1700000005000", "True"]
    everything = cluster.kubectl("get", "seamark", "-n", kube_namespace)
    for obj, _ in STATUS.values():
        assert f"{obj['kind'].lower()}.seamark.io/{obj['metadata']['name']}" in everything


@pytest.mark.parametrize("short", ["coll", "rend", "shd", "rhold", "sloc", "ckpt"])
def test_each_kind_has_a_short_name(cluster: ControlPlane, kube_namespace: str, short: str) -> None:
    cluster.kubectl("get", short, "-n", kube_namespace)


def test_the_children_of_one_collection_are_selected_by_the_server(
    cluster: ControlPlane, kube_namespace: str, apply: Callable[[Manifest], str]
) -> None:
    other = copy.deepcopy(SHARD)
    other["metadata"]["name"], other["spec"]["collectionRef"] = "bills-r1-0", {"name": "bills"}
    apply(SHARD)
    apply(other)
    selector = "--field-selector=spec.collectionRef.name=bills"
    found = cluster.kubectl("get", "shards", "-n", kube_namespace, selector, "-o", "name")
    assert found.split() == ["shard.seamark.io/bills-r1-0"]
