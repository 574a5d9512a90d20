"""The operator as a process with the rights that its chart gives it: it starts, leads, notices its own death, ends."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from tests.cluster.control_plane import CommandFailed, ControlPlane
from tests.cluster.fixtures import CRDS, ROOT
from tests.kube.operator_process import OperatorProcess, port_of, through
from tests.kube.proxy import Proxy

pytestmark = pytest.mark.slow


@pytest.fixture
def kubeconfig(cluster: ControlPlane, kube_namespace: str) -> Path:
    """The credential of the operator that the chart installs in the test's namespace."""
    return install(cluster, kube_namespace)


def install(plane: ControlPlane, namespace: str) -> Path:
    values = ("--set=crds.enabled=false", "--set=rbac.aggregate=false")
    plane.helm("install", "seamark", str(ROOT / "charts" / "seamark"), "-n", namespace, *values)
    return plane.token_kubeconfig(namespace, "seamark-operator")


def apply_location(plane: ControlPlane, namespace: str, folder: Path, name: str = "here") -> None:
    manifest = {
        "apiVersion": "seamark.io/v1alpha1",
        "kind": "StorageLocation",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"url": f"disk:{folder}"},
    }
    plane.kubectl("apply", "-f", "-", input=json.dumps(manifest))


def phase(plane: ControlPlane, namespace: str, name: str = "here") -> str:
    found = plane.get("storagelocation", name, "-n", namespace)
    return str((found.get("status") or {}).get("phase", ""))


def holder(plane: ControlPlane, namespace: str) -> str:
    try:
        return str(plane.get("lease", "seamark-operator", "-n", namespace)["spec"].get("holderIdentity", ""))
    except CommandFailed:
        return ""


def test_it_becomes_ready_tells_metrics_and_acts_with_the_rights_of_its_chart(
    cluster: ControlPlane, kube_namespace: str, kubeconfig: Path, tmp_path: Path
) -> None:
    with OperatorProcess(tmp_path, kubeconfig, kube_namespace, "one") as operator:
        operator.wait_ready()
        apply_location(cluster, kube_namespace, tmp_path / "data")
        operator.wait("available", 30, lambda: phase(cluster, kube_namespace) == "Available")
        metrics = operator.metrics()
        assert metrics["seamark_leader"] == 1
        assert metrics["seamark_spark_operator_served"] == 1
        assert metrics['seamark_pass_total{result="ok"}'] >= 1
        assert 'seamark_pass_total{result="error"}' not in metrics
        assert not [name for name in metrics if 'code="403"' in name]
        operator.wait("seen", 30, lambda: 'seamark_watch_age_seconds{kind="Lease"}' in operator.metrics())
        assert operator.health() == (200, "leading\n")


def test_a_collection_gets_its_rendition_shards_leases_and_one_run_and_leaves_nothing_behind(
    cluster: ControlPlane, kube_namespace: str, kubeconfig: Path, tmp_path: Path
) -> None:
    def names(kind: str) -> list[str]:
        found = cluster.get(kind, "-n", kube_namespace, "-l", "seamark.io/collection=orders")["items"]
        return [each["metadata"]["name"] for each in found]

    children = ("renditions", "shards", "leases", "sparkapplications")
    apply_location(cluster, kube_namespace, tmp_path / "data")
    with OperatorProcess(tmp_path, kubeconfig, kube_namespace, "one", "--resync-seconds=1") as operator:
        operator.wait_ready()
        cluster.kubectl("apply", "-f", "-", input=json.dumps(orders(kube_namespace, tmp_path / "in")))
        operator.wait("launched", 30, lambda: bool(names("sparkapplications")))
        operator.wait("leased", 30, lambda: len(names("leases")) == 2)
        assert names("renditions") == ["orders-r1"]
        assert names("shards") == ["orders-r1-0", "orders-r1-1"]
        (run,) = names("sparkapplications")
        application = cluster.get("sparkapplication", run, "-n", kube_namespace)
        assert application["spec"]["mainApplicationFile"] == "local:///opt/seamark/spark_apps/ingest.py"
        place = f'collection="orders",namespace="{kube_namespace}"'
        key = f'seamark_rendition_role{{{place},rendition="r1",role="active"}}'
        operator.wait("told", 20, lambda: operator.metrics().get(key) == 1)
        assert operator.metrics()['seamark_runs_launched_total{kind="ingest"}'] == 1
        assert operator.metrics()['seamark_actions_total{action="EnsureFinalizer"}'] == 1

        cluster.kubectl("delete", "collection", "orders", "-n", kube_namespace, "--timeout=60s")
        for kind in children:
            operator.wait(f"{kind} are gone", 60, lambda kind=kind: not names(kind))
        operator.wait("no longer told", 20, lambda: not [n for n in operator.metrics() if "orders" in n])
        metrics = operator.metrics()
        assert 'seamark_pass_total{result="error"}' not in metrics, operator.tail()
        assert not [name for name in metrics if 'code="403"' in name]


def orders(namespace: str, folder: Path) -> dict[str, object]:
    folder.mkdir()
    return {
        "apiVersion": "seamark.io/v1alpha1",
        "kind": "Collection",
        "metadata": {"name": "orders", "namespace": namespace},
        "spec": {
            "locationRef": {"name": "here"},
            "source": {
                "files": {"path": str(folder), "format": "jsonl"},
                "fields": [{"name": "id", "type": "string"}, {"name": "amount", "type": "int64"}],
            },
            "columns": [{"name": "id", "type": "string"}, {"name": "amount", "type": "int64"}],
            "key": ["id"],
            "envelope": "upsert",
            "shards": 2,
        },
    }


def test_a_change_is_acted_on_when_the_watch_shows_it_not_at_the_next_resync(
    cluster: ControlPlane, kube_namespace: str, kubeconfig: Path, tmp_path: Path
) -> None:
    with OperatorProcess(tmp_path, kubeconfig, kube_namespace, "one", "--resync-seconds=600") as operator:
        operator.wait_ready()
        time.sleep(2)
        apply_location(cluster, kube_namespace, tmp_path / "data")
        operator.wait("available", 20, lambda: phase(cluster, kube_namespace) == "Available")


def test_healthz_fails_when_the_watch_is_silent_though_the_api_server_answers_and_the_process_ends_itself(
    kube_namespace: str, kubeconfig: Path, tmp_path: Path
) -> None:
    with Proxy(port_of(kubeconfig)) as proxy:
        routed = through(kubeconfig, proxy.port, tmp_path / "routed.kubeconfig")
        bounds = ("--watch-dead-seconds=12", "--exit-seconds=6", "--lease-seconds=30")
        with OperatorProcess(tmp_path, routed, kube_namespace, "one", *bounds) as operator:
            operator.wait_ready()
            time.sleep(8)
            assert operator.health()[0] == 200
            proxy.silence()
            took = operator.wait("unhealthy", 40, lambda: operator.health()[0] == 500)
            assert took > 5
            assert "watch of Lease: a change that the API server told of has not come by" in operator.health()[1]
            assert operator.process.wait(40) == 3, operator.tail()


def test_an_operator_that_is_cut_off_gives_up_before_another_may_lead(
    kube_namespace: str, kubeconfig: Path, tmp_path: Path
) -> None:
    with Proxy(port_of(kubeconfig)) as proxy:
        routed = through(kubeconfig, proxy.port, tmp_path / "routed.kubeconfig")
        with OperatorProcess(tmp_path, routed, kube_namespace, "one", "--lease-seconds=15") as operator:
            operator.wait_ready()
            proxy.cut()
            began = time.monotonic()
            assert operator.process.wait(30) == 1, operator.tail()
            assert time.monotonic() - began < 15


def test_healthz_fails_when_no_pass_can_be_completed(kube_namespace: str, kubeconfig: Path, tmp_path: Path) -> None:
    with Proxy(port_of(kubeconfig)) as proxy:
        routed = through(kubeconfig, proxy.port, tmp_path / "routed.kubeconfig")
        bounds = ("--pass-dead-seconds=5", "--no-leader-elect", "--resync-seconds=1")
        with OperatorProcess(tmp_path, routed, kube_namespace, "one", *bounds) as operator:
            operator.wait_ready()
            proxy.cut()
            operator.wait("unhealthy", 15, lambda: operator.health()[0] == 500)
            assert "leading: has not completed a pass for" in operator.health()[1]


def test_of_two_operators_one_leads_and_the_other_takes_over_when_it_is_killed(
    cluster: ControlPlane, kube_namespace: str, kubeconfig: Path, tmp_path: Path
) -> None:
    with (
        OperatorProcess(tmp_path, kubeconfig, kube_namespace, "one", "--lease-seconds=12") as one,
        OperatorProcess(tmp_path, kubeconfig, kube_namespace, "two", "--lease-seconds=12") as two,
    ):
        one.wait("one leads", 60, lambda: bool(holder(cluster, kube_namespace)))
        leads = holder(cluster, kube_namespace)
        leader, other = (one, two) if leads == "one" else (two, one)
        leader.wait_ready("leading")
        other.wait_ready(f"standing by: {leads} leads")
        assert (leader.metrics()["seamark_leader"], other.metrics()["seamark_leader"]) == (1, 0)
        leader.process.kill()
        leader.process.wait()
        took = other.wait("taken over", 40, lambda: other.metrics()["seamark_leader"] == 1)
        assert took > 2, "the other led before the Lease had expired"
        other.wait_ready("leading")
        transitions = cluster.get("lease", "seamark-operator", "-n", kube_namespace)["spec"]["leaseTransitions"]
        assert transitions == 1


def test_sigterm_releases_the_lease_and_ends_quickly_so_that_a_successor_leads_at_once(
    cluster: ControlPlane, kube_namespace: str, kubeconfig: Path, tmp_path: Path
) -> None:
    with OperatorProcess(tmp_path, kubeconfig, kube_namespace, "one", "--lease-seconds=60") as one:
        one.wait_ready()
        began = time.monotonic()
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait(20) == 0, one.tail()
        assert time.monotonic() - began < 5
        assert holder(cluster, kube_namespace) == ""
    with OperatorProcess(tmp_path, kubeconfig, kube_namespace, "two", "--lease-seconds=60") as two:
        two.wait("leads", 20, lambda: holder(cluster, kube_namespace) == "two")


def test_a_killed_operator_that_comes_back_under_its_name_leads_at_once(
    cluster: ControlPlane, kube_namespace: str, kubeconfig: Path, tmp_path: Path
) -> None:
    for _ in range(2):
        with OperatorProcess(tmp_path, kubeconfig, kube_namespace, "one", "--lease-seconds=300") as one:
            one.wait_ready()


def test_it_waits_for_its_crds_and_runs_without_kubeflow(fresh_cluster: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = install(fresh_cluster, "default")
    with OperatorProcess(tmp_path, kubeconfig, "default", "one") as operator:
        operator.wait("says what is missing", 30, lambda: "apply the CRDs" in operator.health("/readyz")[1])
        assert operator.health("/readyz")[0] == 500
        assert operator.health("/healthz")[0] == 200
        fresh_cluster.kubectl("apply", "--server-side", "-f", str(CRDS))
        operator.wait_ready()
        assert operator.metrics()["seamark_spark_operator_served"] == 0
        assert "no run can be launched until Kubeflow's Spark operator is installed" in operator.tail()
        apply_location(fresh_cluster, "default", tmp_path / "data")
        operator.wait("available", 30, lambda: phase(fresh_cluster, "default") == "Available")
