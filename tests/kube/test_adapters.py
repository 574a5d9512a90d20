"""The three ports on a real API server keep the promises of ports.py."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from seamark.errors import InvalidDefinition, Refused
from seamark_operator.adapters import kube_client
from seamark_operator.adapters.kube_client import LEASES, Kube
from seamark_operator.adapters.kube_leases import KubeLeases
from seamark_operator.adapters.kube_objects import KubeObjects
from seamark_operator.adapters.kube_runner import APPLICATIONS, KubeRunner
from seamark_operator.ports import RunSpec
from seamark_operator.specs.spark_application import SparkSettings
from tests.cluster.control_plane import ControlPlane
from tests.kube.conftest import connect

pytestmark = pytest.mark.slow


def location(namespace: str, name: str = "here", url: str = "disk:///data") -> dict[str, Any]:
    return {
        "apiVersion": "seamark.io/v1alpha1",
        "kind": "StorageLocation",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"url": url},
    }


def test_creating_twice_returns_the_present_object_untouched(kube: Kube, kube_namespace: str) -> None:
    objects = KubeObjects(kube, [kube_namespace])
    first = objects.create(location(kube_namespace))
    second = objects.create(location(kube_namespace, url="disk:///elsewhere"))
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert second["spec"]["url"] == "disk:///data"


def test_what_is_created_names_its_manager(kube: Kube, kube_namespace: str) -> None:
    created = KubeObjects(kube).create(location(kube_namespace))
    assert {each["manager"] for each in created["metadata"]["managedFields"]} == {"seamark-operator"}


def test_a_list_is_complete_over_pages_and_namespaces(
    kube: Kube, cluster: ControlPlane, kube_namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube_client, "PAGE", 3)
    other = f"{kube_namespace}-other"
    cluster.kubectl("create", "namespace", other)
    names = [f"n{i}" for i in range(8)]
    writer = KubeObjects(kube)
    for name in names:
        writer.create(location(kube_namespace, name))
    writer.create(location(other, "apart"))
    found = KubeObjects(kube, [kube_namespace, other]).list("StorageLocation")
    assert sorted(each["metadata"]["name"] for each in found) == ["apart", *names]
    assert {each["kind"] for each in found} == {"StorageLocation"}
    assert len(KubeObjects(kube, [other]).list("StorageLocation")) == 1
    assert len(KubeObjects(kube).list("StorageLocation")) >= 9


def test_status_is_merged_and_spec_is_not_touched(kube: Kube, kube_namespace: str) -> None:
    objects = KubeObjects(kube, [kube_namespace])
    objects.create(location(kube_namespace))
    objects.patch_status("StorageLocation", kube_namespace, "here", {"phase": "Available", "message": "fine"})
    objects.patch_status("StorageLocation", kube_namespace, "here", {"message": None})
    found = objects.get("StorageLocation", kube_namespace, "here")
    assert found is not None
    assert found["status"] == {"phase": "Available"}
    assert found["metadata"]["generation"] == 1


def test_a_vanished_object_is_no_error(kube: Kube, kube_namespace: str) -> None:
    objects = KubeObjects(kube, [kube_namespace])
    assert objects.get("StorageLocation", kube_namespace, "gone") is None
    objects.patch_status("StorageLocation", kube_namespace, "gone", {"phase": "Available"})
    objects.set_finalizers("StorageLocation", kube_namespace, "gone", [])
    objects.remove_annotation("StorageLocation", kube_namespace, "gone", "seamark.io/paused")
    objects.delete("StorageLocation", kube_namespace, "gone")


def test_a_finalizer_holds_a_deleted_object_until_it_is_removed(kube: Kube, kube_namespace: str) -> None:
    objects = KubeObjects(kube, [kube_namespace])
    objects.create(location(kube_namespace))
    objects.set_finalizers("StorageLocation", kube_namespace, "here", ["seamark.io/operator"])
    objects.delete("StorageLocation", kube_namespace, "here")
    found = objects.get("StorageLocation", kube_namespace, "here")
    assert found is not None
    assert found["metadata"]["deletionTimestamp"]
    objects.set_finalizers("StorageLocation", kube_namespace, "here", [])
    assert objects.get("StorageLocation", kube_namespace, "here") is None


def test_an_annotation_is_removed_and_the_others_stay(kube: Kube, kube_namespace: str) -> None:
    objects = KubeObjects(kube, [kube_namespace])
    manifest = location(kube_namespace)
    manifest["metadata"]["annotations"] = {"seamark.io/handover": "r2", "team": "shop"}
    objects.create(manifest)
    objects.remove_annotation("StorageLocation", kube_namespace, "here", "seamark.io/handover")
    found = objects.get("StorageLocation", kube_namespace, "here")
    assert found is not None
    assert found["metadata"]["annotations"] == {"team": "shop"}


def test_the_same_event_is_told_once_and_a_new_one_at_once(
    kube: Kube, cluster: ControlPlane, kube_namespace: str
) -> None:
    about = KubeObjects(kube).create(location(kube_namespace))
    for _ in range(3):  # each a new process: the dedup must hold across restarts too
        objects = KubeObjects(kube, [kube_namespace])
        for _ in range(5):
            objects.event(about, "Normal", "Available", "the bucket answers")
    objects.event(about, "Warning", "Unavailable", "x" * 5000)
    events = cluster.get("events", "-n", kube_namespace)["items"]
    assert sorted(event["reason"] for event in events) == ["Available", "Unavailable"]
    assert {event["reportingComponent"] for event in events} == {"seamark-operator"}
    assert {event["involvedObject"]["uid"] for event in events} == {about["metadata"]["uid"]}


def test_an_unknown_kind_is_refused_by_name(kube: Kube) -> None:
    with pytest.raises(InvalidDefinition, match="kind 'Teapot' was asked for; the API group has StorageLocation"):
        KubeObjects(kube).list("Teapot")


def test_a_holder_takes_its_lease_again_and_another_only_after_it_expired(kube: Kube, kube_namespace: str) -> None:
    leases = KubeLeases(kube, [kube_namespace], duration_seconds=60)
    place, labels = (kube_namespace, "orders-r1-0"), {"seamark.io/collection": "orders"}
    now = time.time()
    assert leases.acquire(*place, "first", now, labels)
    assert leases.acquire(*place, "first", now + 1, labels)
    assert not leases.acquire(*place, "second", now + 59, labels)
    assert leases.acquire(*place, "first", now + 50, labels)
    assert not leases.acquire(*place, "second", now + 109, labels)
    assert leases.acquire(*place, "second", now + 111, labels)
    assert not leases.acquire(*place, "first", now + 112, labels)
    (lease,) = leases.list()
    assert (lease.holder, lease.duration_seconds) == ("second", 60)
    assert lease.renewed_at == pytest.approx(now + 111, abs=1e-5)
    written = kube.get(LEASES, *place)
    assert written is not None
    assert written["spec"]["leaseTransitions"] == 1


def test_a_lease_that_was_renewed_lately_is_not_written_again(kube: Kube, kube_namespace: str) -> None:
    leases = KubeLeases(kube, [kube_namespace], duration_seconds=60)
    place, now = (kube_namespace, "orders-r1-0"), time.time()
    versions = []
    for later in (0, 5, 15, 21):
        leases.acquire(*place, "first", now + later, {})
        written = kube.get(LEASES, *place)
        assert written is not None
        versions.append(written["metadata"]["resourceVersion"])
    assert versions[0] == versions[1] == versions[2] != versions[3]


def test_a_lease_shows_its_epoch_and_keeps_it_when_renewed(kube: Kube, kube_namespace: str) -> None:
    leases = KubeLeases(kube, [kube_namespace], duration_seconds=60)
    place, labels, now = (kube_namespace, "orders-r1-0"), {"seamark.io/collection": "orders"}, time.time()
    leases.record_epoch(*place, 3)
    leases.acquire(*place, "first", now, labels)
    leases.record_epoch(*place, 4)
    leases.acquire(*place, "first", now + 30, labels)
    assert [lease.epoch for lease in leases.list()] == [4]


def test_release_frees_the_lease_for_anyone_and_may_be_repeated(kube: Kube, kube_namespace: str) -> None:
    leases = KubeLeases(kube, [kube_namespace])
    place, now = (kube_namespace, "orders-r1-0"), time.time()
    leases.acquire(*place, "first", now, {})
    leases.release(*place)
    leases.release(*place)
    assert leases.acquire(*place, "second", now, {})


@pytest.mark.parametrize("expired", [False, True])
def test_of_many_takers_at_once_one_wins(cluster: ControlPlane, kube_namespace: str, expired: bool) -> None:
    place, now = (kube_namespace, "orders-r1-0"), time.time()
    takers = 8
    clients = [connect(cluster) for _ in range(takers)]
    if expired:
        assert KubeLeases(clients[0]).acquire(*place, "the-dead", now - 1000, {})
    start = threading.Barrier(takers)

    def take(number: int) -> bool:
        start.wait()
        return KubeLeases(clients[number]).acquire(*place, f"taker-{number}", now, {})

    with ThreadPoolExecutor(takers) as pool:
        won = list(pool.map(take, range(takers)))
    assert Counter(won)[True] == 1
    lease = clients[0].get(LEASES, *place)
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == f"taker-{won.index(True)}"
    for each in clients:
        each.close()


def owner(kube: Kube, namespace: str) -> str:
    """A Rendition that exists: the garbage collector takes away what nobody owns."""
    manifest = {
        "apiVersion": "seamark.io/v1alpha1",
        "kind": "Rendition",
        "metadata": {"namespace": namespace, "name": "orders-r1"},
        "spec": {"collectionRef": {"name": "orders"}, "ordinal": 1, "definitionHash": "0", "definition": "{}"},
    }
    return str(KubeObjects(kube).create(manifest)["metadata"]["uid"])


def run(namespace: str, uid: str, attempt: int = 1, arguments: tuple[str, ...] = ("--once",)) -> RunSpec:
    return RunSpec(
        name=f"ing-0123456789-a{attempt}",
        namespace=namespace,
        kind="ingest",
        attempt=attempt,
        collection="orders",
        rendition="orders-r1",
        rendition_uid=uid,
        arguments=arguments,
    )


def test_a_run_is_launched_once_and_never_edited(kube: Kube, kube_namespace: str) -> None:
    uid = owner(kube, kube_namespace)
    runner = KubeRunner(kube, SparkSettings(image="seamark-spark:1"), [kube_namespace])
    runner.launch(run(kube_namespace, uid))
    before = kube.get(APPLICATIONS, kube_namespace, "ing-0123456789-a1")
    runner.launch(run(kube_namespace, uid, arguments=("--other",)))
    after = kube.get(APPLICATIONS, kube_namespace, "ing-0123456789-a1")
    assert before is not None
    assert after is not None
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert after["spec"]["arguments"] == ["--once"]


def test_runs_are_listed_with_their_state_and_stopped_by_deletion(kube: Kube, kube_namespace: str) -> None:
    uid = owner(kube, kube_namespace)
    runner = KubeRunner(kube, SparkSettings(image="seamark-spark:1"), [kube_namespace])
    for attempt in (1, 2):
        runner.launch(run(kube_namespace, uid, attempt))
    failed = {"state": "FAILED", "errorMessage": "driver exit code 1"}
    kube.merge(
        APPLICATIONS,
        kube_namespace,
        "ing-0123456789-a1",
        {"status": {"applicationState": failed, "driverInfo": {}}},
        subresource="status",
    )
    found = {each.attempt: each for each in runner.list()}
    assert (found[1].state, found[1].message) == ("Failed", "driver exit code 1")
    assert (found[2].state, found[2].rendition) == ("Pending", "orders-r1")
    assert abs(found[2].created_at - time.time()) < 60
    runner.stop(kube_namespace, "ing-0123456789-a1")
    runner.stop(kube_namespace, "ing-0123456789-a1")
    assert [each.attempt for each in runner.list()] == [2]


def test_without_kubeflow_nothing_is_listed_and_a_launch_says_what_to_install(
    fresh_cluster: ControlPlane,
) -> None:
    kube = connect(fresh_cluster)
    runner = KubeRunner(kube, SparkSettings(image="seamark-spark:1"), ["default"])
    assert runner.list() == []
    assert not runner.served
    with pytest.raises(Refused, match=r"knows no sparkapplications\.sparkoperator\.k8s\.io: install Kubeflow's Spark"):
        runner.launch(run("default", "0d5f4a6e"))
    kube.close()
