"""The chart on a real API server: it installs, gives exactly the rights it should, and never takes data with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster.control_plane import CommandFailed, ControlPlane
from tests.cluster.fixtures import SPARK_CRD
from tests.cluster.manifests import orders

pytestmark = pytest.mark.slow

CHART = Path(__file__).resolve().parents[2] / "charts" / "seamark"

Rights = set[tuple[str, str, str]]
"""(API group, resource, verb)"""

READ = ("get", "list", "watch")
OPERATOR: dict[tuple[str, str], tuple[str, ...]] = {
    ("seamark.io", "storagelocations"): READ,
    ("seamark.io", "checkpointstores"): READ,
    ("seamark.io", "collections"): (*READ, "patch"),
    ("seamark.io", "readholds"): (*READ, "patch"),
    ("seamark.io", "renditions"): (*READ, "create", "delete"),
    ("seamark.io", "shards"): (*READ, "create", "delete"),
    ("seamark.io", "storagelocations/status"): ("patch",),
    ("seamark.io", "checkpointstores/status"): ("patch",),
    ("seamark.io", "collections/status"): ("patch",),
    ("seamark.io", "renditions/status"): ("patch",),
    ("seamark.io", "shards/status"): ("patch",),
    ("seamark.io", "readholds/status"): ("patch",),
    ("seamark.io", "collections/finalizers"): ("update",),
    ("seamark.io", "renditions/finalizers"): ("update",),
    ("coordination.k8s.io", "leases"): (*READ, "create", "update", "patch", "delete"),
    ("", "events"): ("create", "patch"),
    ("sparkoperator.k8s.io", "sparkapplications"): (*READ, "create", "delete"),
}
WRITE = ("create", "update", "patch", "delete", "deletecollection")
DRIVER: dict[tuple[str, str], tuple[str, ...]] = {
    ("", resource): (*READ, *WRITE) for resource in ("pods", "configmaps", "persistentvolumeclaims", "services")
}


@pytest.fixture(scope="module")
def notes(fresh_cluster: ControlPlane) -> str:
    """Installed in `seamark`, watching `shop`; what the installation said."""
    fresh_cluster.kubectl("create", "namespace", "shop")
    return fresh_cluster.helm(
        "install",
        "seamark",
        str(CHART),
        "--namespace=seamark",
        "--create-namespace",
        "--set=watchNamespaces={shop}",
    )


@pytest.fixture(scope="module")
def installed(fresh_cluster: ControlPlane, notes: str) -> ControlPlane:
    fresh_cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    return fresh_cluster


def rights(plane: ControlPlane, kubeconfig: Path, namespace: str) -> Rights:
    """Everything the holder of the kubeconfig may do there, beyond what anybody may."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    answer = plane.kubectl(
        "create", "--validate=false", "-f", "-", "-o", "json", input=json.dumps(review), kubeconfig=kubeconfig
    )
    status = json.loads(answer)["status"]
    assert not status.get("evaluationError"), status
    return {
        (group, resource, verb)
        for rule in status["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if group not in ("authorization.k8s.io", "authentication.k8s.io")
    }


def expected(table: dict[tuple[str, str], tuple[str, ...]]) -> Rights:
    return {(group, resource, verb) for (group, resource), verbs in table.items() for verb in verbs}


def test_it_installs_and_says_what_comes_next(installed: ControlPlane, notes: str) -> None:
    assert "kubectl -n seamark rollout status deployment/seamark-operator" in notes
    assert "WARNING: this cluster does not know SparkApplications" in notes
    assert installed.get("deployment", "seamark-operator", "-n", "seamark")["spec"]["replicas"] == 1
    assert installed.kubectl("get", "seamark", "-n", "shop") == ""


def test_the_operators_token_may_do_exactly_what_it_needs(installed: ControlPlane) -> None:
    token = installed.token_kubeconfig("seamark", "seamark-operator")
    assert rights(installed, token, "shop") == expected(OPERATOR)
    assert rights(installed, token, "seamark") == set(), "its own namespace is not watched"
    assert rights(installed, token, "kube-system") == set()


@pytest.mark.parametrize(
    ("verb", "what"),
    [
        ("get", "secrets"),
        ("list", "pods"),
        ("update", "collections.seamark.io"),
        ("delete", "collections.seamark.io"),
        ("patch", "renditions.seamark.io"),
        ("patch", "sparkapplications.sparkoperator.k8s.io"),
        ("list", "customresourcedefinitions.apiextensions.k8s.io"),
        ("create", "serviceaccounts/token"),
    ],
)
def test_the_operators_token_may_not(installed: ControlPlane, verb: str, what: str) -> None:
    token = installed.token_kubeconfig("seamark", "seamark-operator")
    with pytest.raises(CommandFailed) as refused:
        installed.kubectl("auth", "can-i", verb, what, "-n", "shop", kubeconfig=token)
    assert "no" in refused.value.output.split()


def test_a_drivers_token_may_make_executors_and_nothing_else(installed: ControlPlane) -> None:
    token = installed.token_kubeconfig("shop", "seamark-spark")
    assert rights(installed, token, "shop") == expected(DRIVER)
    assert rights(installed, token, "seamark") == set()


def test_an_editor_of_the_namespace_writes_collections_but_not_renditions(installed: ControlPlane) -> None:
    installed.kubectl("create", "serviceaccount", "someone", "-n", "shop")
    installed.kubectl(
        "create", "rolebinding", "someone", "--clusterrole=edit", "--serviceaccount=shop:someone", "-n", "shop"
    )
    token = installed.token_kubeconfig("shop", "someone")
    seamark = {right for right in rights(installed, token, "shop") if right[0] == "seamark.io"}
    assert ("seamark.io", "collections", "create") in seamark
    assert ("seamark.io", "renditions", "get") in seamark
    assert not {right for right in seamark if right[1] in ("renditions", "shards") and right[2] not in READ}


def test_upgrade_and_uninstall_leave_the_kinds_and_every_object(installed: ControlPlane) -> None:
    installed.kubectl("apply", "-n", "shop", "-f", "-", input=json.dumps(orders()))
    uid = installed.get("collection", "orders", "-n", "shop")["metadata"]["uid"]
    installed.kubectl("apply", "--server-side", "-f", str(SPARK_CRD))
    installed.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    args = (str(CHART), "--namespace=seamark", "--reuse-values", "--set=resyncSeconds=7")
    upgraded = installed.helm("upgrade", "seamark", *args)
    assert "WARNING" not in upgraded
    assert installed.get("collection", "orders", "-n", "shop")["metadata"]["uid"] == uid

    said = installed.helm("uninstall", "seamark", "--namespace=seamark")
    assert "kept due to the resource policy" in said
    crds = installed.kubectl("get", "crd", "-o", "name").split()
    assert len([name for name in crds if name.endswith(".seamark.io")]) == 6
    assert installed.get("collection", "orders", "-n", "shop")["metadata"]["uid"] == uid
    with pytest.raises(CommandFailed):
        installed.get("deployment", "seamark-operator", "-n", "seamark")


def test_the_same_release_can_be_installed_again(installed: ControlPlane) -> None:
    installed.helm("install", "seamark", str(CHART), "--namespace=seamark", "--set=watchNamespaces={shop}")
    assert installed.get("collection", "orders", "-n", "shop")["spec"]["shards"] == 1
