"""The stages on which the shop's story is told in the tests: this machine, and a real Kubernetes API server."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from examples.shop.demo import LocalControl, prepare
from examples.shop.story import Stage
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import ROOT, SPARK_CRD, spark_double
from tests.cluster.spark_double import read_ledger
from tests.services.s3 import Minio

NAMESPACE = "shop"


class Keeper:
    """Keeps one process running, as a Deployment would: whenever it ends, it is started again."""

    def __init__(self, name: str, command: list[str], log: Path, env: dict[str, str] | None = None) -> None:
        self.name = name
        self._command, self._log, self._env = command, log, {**os.environ, **(env or {})}
        self._stopping = threading.Event()
        self.starts = 0
        self.process = self._start()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def kill(self) -> bool:
        """SIGKILL, at whatever it was doing; False when it was down anyway."""
        if self.process.poll() is not None:
            return False
        self.process.kill()
        return True

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        with self._log.open("ab") as log:
            return subprocess.Popen(self._command, stdout=log, stderr=log, env=self._env, cwd=ROOT)

    def _keep(self) -> None:
        while not self._stopping.wait(0.1):
            if self.process.poll() is not None:
                self.process = self._start()


@dataclass
class Scene:
    """A stage with its actors, for tests that kill them."""

    stage: Stage
    operator: Keeper
    subscriber: Keeper
    drivers: Callable[[], list[int]]
    """Process groups of the Spark drivers that run at this moment."""
    starts: Callable[[], list[tuple[str, str]]]
    """(event, run name) in the order of events: every start and end of a driver."""
    leftovers: Callable[[], list[str]]
    """Everything that is still there of the collection, in storage and in the API."""
    delete: Callable[[], None]


class KubectlControl:
    """The control plane as kubectl shows it."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    def apply(self, path: Path) -> None:
        self.plane.kubectl("apply", "-n", NAMESPACE, "-f", str(path))

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        text = self.plane.kubectl("get", "-n", NAMESPACE, kind, name, "-o", "json", "--ignore-not-found")
        found: dict[str, Any] | None = json.loads(text) if text.strip() else None
        return found

    def show(self) -> str:
        kinds = "collections,renditions,shards,readholds,sparkapplications.sparkoperator.k8s.io"
        return self.plane.kubectl("get", "-n", NAMESPACE, kinds)


@contextlib.contextmanager
def local_scene(work: Path, tell: Callable[[str], None], patience: float = 180.0) -> Iterator[Scene]:
    """`seamark local`, disk, Spark as child processes."""
    root = work / "root"
    manifests, location, incoming = prepare(work)
    memory = work / "subscriber.sqlite"
    control = LocalControl(root)
    keep = [sys.executable, "-m", "seamark.cli", "local", "run", "--root", str(root), "--interval", "0.5"]
    ledger = work / "ledger"
    apps = _apps_with_ledger(work / "apps", ledger)
    operator = Keeper("operator", keep, work / "operator.log", {"SEAMARK_SPARK_APPS": str(apps)})
    subscriber = Keeper("subscriber", _subscriber(location, memory), work / "subscriber.log")
    runs = root / "runs"

    def drivers() -> list[int]:
        living = []
        for folder in runs.glob("*"):
            with contextlib.suppress(OSError, ValueError):
                if not (folder / "exit").exists():
                    living.append(os.getpgid(int((folder / "pid").read_text())))
        return living

    def starts() -> list[tuple[str, str]]:
        return [("start", name) for name in ledger.read_text().split()]

    def leftovers() -> list[str]:
        store = manifests / ".data" / "store"
        files = [str(path.relative_to(store)) for path in store.rglob("*") if path.is_file()]
        objects = [line for kind in ("collection", "rendition", "shard") for line in _names(control, kind)]
        return files + objects + [f"driver {pid}" for pid in drivers()]

    def delete() -> None:
        _set_deletion_policy(manifests)
        control.apply(manifests / "fixed" / "20-orders.yaml")
        control._run("delete", "collection", "orders")

    try:
        yield Scene(
            Stage(control, manifests, location, incoming, memory, tell, patience),
            operator,
            subscriber,
            drivers,
            starts,
            leftovers,
            delete,
        )
    finally:
        subscriber.stop()
        operator.stop()


@contextlib.contextmanager
def kubernetes_scene(
    work: Path, plane: ControlPlane, minio: Minio, tell: Callable[[str], None], patience: float = 240.0
) -> Iterator[Scene]:
    """A real API server, the operator with the chart's service account, data on the real S3 server."""
    bucket = minio.make_bucket(f"shop-{work.name.lower().replace('_', '-')[-40:]}")
    location = minio.url(bucket, "store", grace=2)
    manifests, _, incoming = prepare(work)
    _for_kubernetes(manifests, location, incoming)
    memory, drivers_folder = work / "subscriber.sqlite", work / "drivers"
    plane.kubectl("create", "namespace", NAMESPACE)
    secret = [f"--from-literal={name}={value}" for name, value in minio.env.items()]
    plane.kubectl("create", "secret", "generic", "shop-storage", "-n", NAMESPACE, *secret)
    plane.kubectl("apply", "--server-side", "-f", str(SPARK_CRD))
    chart = str(ROOT / "charts" / "seamark")
    plane.helm(
        "install", "seamark", chart, "-n", "seamark", "--create-namespace", f"--set=watchNamespaces={{{NAMESPACE}}}"
    )
    plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    token = plane.token_kubeconfig("seamark", "seamark-operator")
    words = [f"--namespace={NAMESPACE}", "--identity=story", "--bind-address=127.0.0.1", "--resync-seconds=1"]
    ports = ["--metrics-port=0", "--health-port=0"]
    operator = Keeper(
        "operator",
        [sys.executable, "-m", "seamark_operator.shells.kopf.main", *words, *ports],
        work / "operator.log",
        {**minio.env, "KUBECONFIG": str(token)},
    )
    subscriber = Keeper("subscriber", _subscriber(location, memory), work / "subscriber.log", minio.env)

    def drivers() -> list[int]:
        events = read_ledger(drivers_folder)
        ended = {event["uid"] for event in events if event["event"] in ("end", "killed")}
        return [event["pid"] for event in events if event["event"] == "pid" and event["uid"] not in ended]

    def starts() -> list[tuple[str, str]]:
        return [(event["event"], event["name"]) for event in read_ledger(drivers_folder)]

    def leftovers() -> list[str]:
        kinds = "collections,renditions,shards,leases,sparkapplications.sparkoperator.k8s.io"
        shown = plane.kubectl("get", "-n", NAMESPACE, kinds, "-o", "name", "--ignore-not-found").split()
        objects = [name for name in shown if not name.endswith("/seamark-operator")]
        return minio.keys(bucket) + objects + [f"driver {pid}" for pid in drivers()]

    def delete() -> None:
        _set_deletion_policy(manifests)
        plane.kubectl("apply", "-n", NAMESPACE, "-f", str(manifests / "fixed" / "20-orders.yaml"))
        plane.kubectl("delete", "-n", NAMESPACE, "collection", "orders", "--wait=false")

    try:
        with spark_double(plane, drivers_folder):
            yield Scene(
                Stage(KubectlControl(plane), manifests, location, incoming, memory, tell, patience),
                operator,
                subscriber,
                drivers,
                starts,
                leftovers,
                delete,
            )
    finally:
        subscriber.stop()
        operator.stop()


def kill_group(pid: int) -> bool:
    """SIGKILL a driver with everything it started."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def wait_until(done: Callable[[], object], seconds: float, what: Callable[[], str]) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, what()
        time.sleep(0.5)


def _apps_with_ledger(folder: Path, ledger: Path) -> Path:
    """The Spark apps, each of whose starts leaves a line in the ledger before the real app takes its place."""
    folder.mkdir()
    ledger.touch()
    for app in ("ingest.py", "backfill.py"):
        (folder / app).write_text(
            "import os, sys\n"
            f"with open({str(ledger)!r}, 'a') as ledger:\n"
            "    ledger.write(sys.argv[sys.argv.index('--run-id') + 1] + '\\n')\n"
            f"app = {str(ROOT / 'spark_apps' / app)!r}\n"
            "os.execv(sys.executable, [sys.executable, app, *sys.argv[1:]])\n"
        )
    return folder


def _subscriber(location: str, memory: Path) -> list[str]:
    script = str(ROOT / "examples" / "shop" / "subscriber.py")
    return [sys.executable, script, "--location", location, "--memory", str(memory)]


def _names(control: LocalControl, kind: str) -> list[str]:
    done = control._run("get", kind, "-o", "json")
    found = json.loads(done.stdout) if done.stdout.strip() else []
    items = found if isinstance(found, list) else found.get("items", [found])
    return [f"{kind}/{item['metadata']['name']}" for item in items]


def _set_deletion_policy(manifests: Path) -> None:
    path = manifests / "fixed" / "20-orders.yaml"
    manifest = yaml.safe_load(path.read_text())
    manifest["spec"]["deletionPolicy"] = "Delete"
    path.write_text(yaml.safe_dump(manifest))


def _for_kubernetes(manifests: Path, location: str, incoming: Path) -> None:
    """What a user changes in the example for a cluster: where the data lives and where the files arrive."""
    path = manifests / "10-location.yaml"
    manifest = yaml.safe_load(path.read_text())
    manifest["spec"] = {"url": location, "credentialsSecretRef": {"name": "shop-storage"}}
    path.write_text(yaml.safe_dump(manifest))
    for path in (manifests / "20-orders.yaml", manifests / "fixed" / "20-orders.yaml"):
        manifest = yaml.safe_load(path.read_text())
        manifest["spec"]["source"]["files"]["path"] = str(incoming)
        path.write_text(yaml.safe_dump(manifest))
