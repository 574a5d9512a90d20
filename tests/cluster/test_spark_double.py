"""The double behaves as the Spark operator it stands for, as far as Seamark relies on it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import spark_double
from tests.cluster.spark_double import read_ledger, submit_command

pytestmark = pytest.mark.slow

QUICK = """
import json, os, pathlib, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
seen = {"rows": spark.range(10).count(), "argument": sys.argv[2]}
seen |= {"secret": os.environ.get("TOKEN"), "leaked": os.environ.get("LEAK")}
pathlib.Path(sys.argv[1]).write_text(json.dumps(seen))
spark.stop()
"""
SLEEP = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"


@pytest.fixture(scope="module")
def ledger(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("double")
    os.environ["LEAK"] = "of the test's own environment"
    with spark_double(cluster, folder):
        yield folder
    del os.environ["LEAK"]


def application(name: str, main: Path, arguments: list[str], driver: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": name},
        "spec": {
            "type": "Python",
            "mode": "cluster",
            "sparkVersion": "4.1.1",
            "mainApplicationFile": str(main),
            "arguments": arguments,
            "sparkConf": {"spark.kubernetes.namespace": "unused", "spark.sql.shuffle.partitions": "2"},
            "restartPolicy": {"type": "Never"},
            "driver": {"memory": "512m", **(driver or {})},
            "executor": {"instances": 1},
        },
    }


def state(cluster: ControlPlane, namespace: str, name: str) -> dict[str, Any]:
    status: dict[str, Any] = cluster.get("sparkapplication", name, "-n", namespace).get("status", {})
    return status


def until(what: str, seconds: float, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.2)


def starts(folder: Path, name: str) -> list[dict[str, Any]]:
    return [line for line in read_ledger(folder) if line["event"] == "start" and line["name"] == name]


def pid(folder: Path, name: str) -> int:
    return next(line["pid"] for line in read_ledger(folder) if line["event"] == "pid" and line["name"] == name)


def test_an_application_runs_once_with_its_own_environment_and_completes(
    cluster: ControlPlane, kube_namespace: str, ledger: Path, tmp_path: Path
) -> None:
    main, result = tmp_path / "main.py", tmp_path / "result.json"
    main.write_text(QUICK)
    wanted = application("quick", main, [str(result), "x y"], {"envFrom": [{"secretRef": {"name": "store"}}]})
    cluster.kubectl("apply", "-n", kube_namespace, "-f", "-", input=json.dumps(wanted))
    until("submitted", 60, lambda: state(cluster, kube_namespace, "quick") != {})
    time.sleep(1)
    waiting = state(cluster, kube_namespace, "quick")
    assert waiting["applicationState"]["state"] == "SUBMITTED", "a driver waits for the Secret it names"
    cluster.kubectl("create", "secret", "generic", "store", "-n", kube_namespace, "--from-literal=TOKEN=s3cret")

    def over() -> bool:
        return state(cluster, kube_namespace, "quick")["applicationState"]["state"] in ("COMPLETED", "FAILED")

    until("over", 240, over)
    status = state(cluster, kube_namespace, "quick")
    assert status["applicationState"]["state"] == "COMPLETED", Path(starts(ledger, "quick")[0]["log"]).read_text()
    assert status["driverInfo"] == {"podName": "quick-driver"}
    assert status["submissionAttempts"] == status["executionAttempts"] == 1
    assert status["terminationTime"]
    seen = {"rows": 10, "argument": "x y", "secret": "s3cret", "leaked": None}
    assert json.loads(result.read_text()) == seen
    assert len(starts(ledger, "quick")) == 1


def test_a_failing_driver_is_reported_with_its_exit_code(
    cluster: ControlPlane, kube_namespace: str, ledger: Path, tmp_path: Path
) -> None:
    missing = application("missing", tmp_path / "nowhere.py", [])
    cluster.kubectl("apply", "-n", kube_namespace, "-f", "-", input=json.dumps(missing))

    def failed() -> bool:
        found = state(cluster, kube_namespace, "missing").get("applicationState", {})
        return found.get("state") == "FAILED"

    until("failed", 240, failed)
    message = state(cluster, kube_namespace, "missing")["applicationState"]["errorMessage"]
    assert message == "driver container failed with ExitCode: 2, Reason: Error"


def living(group: int) -> list[int]:
    """The processes of a group that still run; ended ones whose parent has not looked yet do not count."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _parent, its_group = stat.read_text().rsplit(")", 1)[1].split()[:3]
            if int(its_group) == group and state != "Z":
                found.append(int(stat.parent.name))
    return found


def test_deleting_an_application_ends_its_driver(
    cluster: ControlPlane, kube_namespace: str, ledger: Path, tmp_path: Path
) -> None:
    main, began = tmp_path / "main.py", tmp_path / "began"
    main.write_text(SLEEP)
    wanted = json.dumps(application("endless", main, [str(began)]))
    cluster.kubectl("apply", "-n", kube_namespace, "-f", "-", input=wanted)
    until("began", 240, began.exists)
    assert state(cluster, kube_namespace, "endless")["applicationState"]["state"] == "RUNNING"
    cluster.kubectl("delete", "sparkapplication", "endless", "-n", kube_namespace)
    until("killed", 60, lambda: any(line["event"] == "killed" for line in read_ledger(ledger)))
    until("ended", 30, lambda: not living(pid(ledger, "endless")))


def test_a_killed_driver_is_not_started_again(
    cluster: ControlPlane, kube_namespace: str, ledger: Path, tmp_path: Path
) -> None:
    main, began = tmp_path / "main.py", tmp_path / "began"
    main.write_text(SLEEP)
    wanted = json.dumps(application("shot", main, [str(began)]))
    cluster.kubectl("apply", "-n", kube_namespace, "-f", "-", input=wanted)
    until("began", 240, began.exists)
    os.killpg(pid(ledger, "shot"), signal.SIGKILL)

    def failed() -> bool:
        return bool(state(cluster, kube_namespace, "shot")["applicationState"]["state"] == "FAILED")

    until("failed", 60, failed)
    message = state(cluster, kube_namespace, "shot")["applicationState"]["errorMessage"]
    assert message == "driver container failed with ExitCode: 137, Reason: Error"
    assert len(starts(ledger, "shot")) == 1


def test_the_command_is_the_images_command_on_the_working_tree() -> None:
    app = application("x", Path("local:///opt/seamark/spark_apps/ingest.py"), ["--once"])
    app["spec"]["mainApplicationFile"] = "local:///opt/seamark/spark_apps/ingest.py"
    command = submit_command(app)
    assert Path(command[-2]).parts[-2:] == ("spark_apps", "ingest.py")
    assert command[-1] == "--once"
    assert not [part for part in command if "kubernetes" in part]
