"""What the chart promises about the manifests it makes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from seamark_operator.shells.kopf.settings import parse
from tests.components import ensure

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "seamark"
CRDS = ROOT / "crds"

Manifest = dict[str, Any]


def helm(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ensure("helm"), *args], capture_output=True, text=True, check=False)


def render(*args: str, release: str = "seamark") -> list[Manifest]:
    done = helm("template", release, str(CHART), "--namespace=data", *args)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def of_kind(kind: str, manifests: list[Manifest]) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def container(manifests: list[Manifest]) -> Manifest:
    (deployment,) = of_kind("Deployment", manifests)
    (only,) = deployment["spec"]["template"]["spec"]["containers"]
    found: Manifest = only
    return found


def test_the_chart_passes_the_strict_lint() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_charts_crds_are_the_projects_crds() -> None:
    source = {path.name: path.read_text() for path in CRDS.glob("*.yaml")}
    copy = {path.name: path.read_text() for path in (CHART / "crd-files").glob("*.yaml")}
    assert copy == source, "run charts/sync_crds.py"


def test_installed_crds_say_what_the_source_says_and_are_kept_on_uninstall() -> None:
    source = {crd["metadata"]["name"]: crd for crd in map(yaml.safe_load, (p.read_text() for p in CRDS.glob("*.yaml")))}
    found = {crd["metadata"]["name"]: crd for crd in of_kind("CustomResourceDefinition", render())}
    assert {name: crd["spec"] for name, crd in found.items()} == {name: crd["spec"] for name, crd in source.items()}
    assert {crd["metadata"]["annotations"]["helm.sh/resource-policy"] for crd in found.values()} == {"keep"}


def test_crds_can_be_left_out_and_can_be_given_up() -> None:
    assert not of_kind("CustomResourceDefinition", render("--set=crds.enabled=false"))
    given_up = of_kind("CustomResourceDefinition", render("--set=crds.keep=false"))
    assert len(given_up) == 6
    assert not [crd for crd in given_up if "annotations" in crd["metadata"]]


@pytest.mark.parametrize("path", sorted(CRDS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_crd_has_nothing_that_drifts_under_gitops(path: Path) -> None:
    """Defaults that the API server leaves out again make a GitOps tool see a difference for ever."""

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            assert node.get("priority") != 0
            for value in node.values():
                assert value != []
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(yaml.safe_load(path.read_text()))
    assert path.stat().st_size < 256 * 1024, "client-side apply keeps a copy in an annotation of at most 256 KiB"


def test_one_operator_is_replaced_and_never_doubled() -> None:
    (deployment,) = of_kind("Deployment", render())
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}


def test_the_pod_is_restricted() -> None:
    (deployment,) = of_kind("Deployment", render())
    pod = deployment["spec"]["template"]["spec"]["securityContext"]
    assert pod["runAsNonRoot"] is True
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(render())["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container(render())["resources"]["requests"]


def test_the_operator_understands_every_argument_it_is_given() -> None:
    args = container(
        render(
            "--set=watchNamespaces={shop,bank}",
            "--set=imagePullSecrets={pull}",
            "--set-string=spark.conf.spark\\.sql\\.shuffle\\.partitions=4",
            "--set=spark.executor.instances=3",
            "--set=spark.image.registry=registry.example",
        )
    )["args"]
    settings = parse(args, {})
    assert settings.namespaces == ("shop", "bank")
    assert settings.spark.image == "registry.example/seamark-spark:0.1.0"
    assert settings.spark.image_pull_secrets == ("pull",)
    assert settings.spark.spark_conf == {"spark.sql.shuffle.partitions": "4"}
    assert settings.spark.executors == 3
    assert settings.spark.service_account == "seamark-spark"


def test_probes_ask_the_port_that_answers_them() -> None:
    operator = container(render())
    settings = parse(operator["args"], {})
    ports = {port["name"]: port["containerPort"] for port in operator["ports"]}
    assert ports == {"metrics": settings.metrics_port, "health": settings.health_port}
    assert operator["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    assert operator["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}


def test_a_digest_wins_over_the_tag() -> None:
    digest = "sha256:" + "a" * 64
    image = container(render(f"--set=image.digest={digest}", "--set=image.tag=v7"))["image"]
    assert image == f"seamark-operator:v7@{digest}"


def test_rights_are_given_in_the_watched_namespaces_and_nowhere_else() -> None:
    manifests = render("--set=watchNamespaces={shop,bank}")
    for kind in ("Role", "RoleBinding"):
        places = sorted((m["metadata"]["namespace"], m["metadata"]["name"]) for m in of_kind(kind, manifests))
        assert places == [
            ("bank", "seamark-operator"),
            ("bank", "seamark-spark"),
            ("shop", "seamark-operator"),
            ("shop", "seamark-spark"),
        ]
    accounts = sorted((m["metadata"]["namespace"], m["metadata"]["name"]) for m in of_kind("ServiceAccount", manifests))
    assert accounts == [("bank", "seamark-spark"), ("data", "seamark-operator"), ("shop", "seamark-spark")]
    assert not of_kind("ClusterRoleBinding", manifests)


def test_no_role_reads_secrets_or_uses_a_wildcard() -> None:
    manifests = render()
    for role in of_kind("Role", manifests) + of_kind("ClusterRole", manifests):
        for rule in role["rules"]:
            assert "secrets" not in rule["resources"]
            assert "*" not in rule["resources"] + rule["verbs"] + rule["apiGroups"]


def test_a_pod_monitor_is_made_when_asked_for_and_known() -> None:
    known = "--api-versions=monitoring.coreos.com/v1"
    assert not of_kind("PodMonitor", render(known))
    assert not of_kind("PodMonitor", render("--set=metrics.podMonitor.enabled=true"))
    (monitor,) = of_kind("PodMonitor", render(known, "--set=metrics.podMonitor.enabled=true"))
    (deployment,) = of_kind("Deployment", render())
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_the_metrics_service_selects_the_operator() -> None:
    (service,) = of_kind("Service", render())
    (deployment,) = of_kind("Deployment", render())
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]


def test_names_of_another_release_do_not_collide_with_ours() -> None:
    def names(release: str) -> set[tuple[str, str]]:
        manifests = render("--set=crds.enabled=false", release=release)
        return {(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests}

    assert not names("seamark") & names("other")


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--set=watchNamespace=shop", "Additional property watchNamespace is not allowed"),
        ("--set=crds.enable=true", "Additional property enable is not allowed"),
        ("--set=spark.driver.memory=plenty", "spark.driver.memory: Does not match pattern"),
        ("--set-string=resyncSeconds=5", "resyncSeconds: Invalid type"),
    ],
)
def test_a_wrong_value_is_refused(flag: str, said: str) -> None:
    done = helm("template", "seamark", str(CHART), flag)
    assert done.returncode != 0
    assert said in done.stderr
