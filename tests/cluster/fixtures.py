"""The proving ground as pytest fixtures."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.control_plane import ControlPlane

ROOT = Path(__file__).resolve().parents[2]
CRDS = ROOT / "crds"
SPARK_CRD = ROOT / "tests" / "cluster" / "sparkapplications.yaml"

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that knows Seamark's kinds and SparkApplications; shared by the whole run."""
    with ControlPlane(tmp_path_factory.mktemp("cluster")) as plane:
        install_crds(plane)
        yield plane


@pytest.fixture(scope="module")
def fresh_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of the module's own on which nothing has been installed."""
    with ControlPlane(tmp_path_factory.mktemp("fresh-cluster")) as plane:
        yield plane


@pytest.fixture
def kube_namespace(cluster: ControlPlane) -> str:
    """A namespace of the test's own."""
    name = f"test-{next(_numbers)}"
    cluster.kubectl("create", "namespace", name)
    return name


@contextmanager
def spark_double(plane: ControlPlane, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The double as a process of its own; its ledger and the drivers' logs go to the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.cluster.spark_double"]
    with (folder / "double.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, f"--kubeconfig={plane.kubeconfig}", f"--folder={folder}"],
            cwd=ROOT,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def install_crds(plane: ControlPlane) -> None:
    plane.kubectl("apply", "--server-side", "-f", str(CRDS), "-f", str(SPARK_CRD))
    plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
