"""A double of Kubeflow's Spark operator: carries out SparkApplications where no pods can run.

    python -m tests.cluster.spark_double --kubeconfig FILE --folder FOLDER

For every SparkApplication (v1beta2) it runs the very driver command with `spark-submit`, in local mode on one
machine, with the driver's environment, and moves `status` as the real operator does:

    "" ── SUBMITTED ── RUNNING ─┬─ SUCCEEDING ── COMPLETED
                                └─ FAILING ───── FAILED

Its limits, against the real one: no pods, no images, no executors of their own (`local[2]`), no webhook. Of
spec it reads mainApplicationFile, arguments, sparkConf, hadoopConf, driver.{memory,env,envFrom} and
restartPolicy, which must be Never. An application that is edited after its submission is failed, where the
real one would run it again: nothing in Seamark edits one. Drivers end with this process; applications that it
was running are failed when it comes back, as the real operator does when it finds that a driver pod is gone.

The ledger, FOLDER/ledger.jsonl, has a line for every `start`, `pid`, `end` and `killed` of a driver. A driver
leads a process group of its own, whose id is its pid: a test that kills a driver kills the group, as the end
of a pod would.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubernetes import client, config

from tests.cluster.control_plane import DIE_WITH_US

ROOT = Path(__file__).resolve().parents[2]
IN_IMAGE = "local:///opt/seamark/spark_apps/"
"""Where the image has the applications; here they are run from the working tree."""
POLL_SECONDS = 0.3
GRACE_SECONDS = 10
"""Between the signal that asks a driver to end and the one that makes it."""
PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "TZ", "JAVA_HOME", "JDK_JAVA_OPTIONS", "SEAMARK_CACHE")
"""All that a driver has from our environment: credentials reach it as its manifest says, or not at all."""
LOCAL_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}
APPLICATIONS = ("sparkoperator.k8s.io", "v1beta2")

Application = dict[str, Any]


class MissingReference(Exception):
    """A Secret or ConfigMap that the driver's environment names is not there; its pod would wait for it."""


@dataclass
class Driver:
    """One driver process and the application it belongs to."""

    application: Application
    process: subprocess.Popen[bytes]
    asked_to_end: float | None = None


@dataclass
class Double:
    """The loop: look at every application, take each one step further."""

    objects: client.CustomObjectsApi
    core: client.CoreV1Api
    folder: Path
    drivers: dict[str, Driver] = field(default_factory=dict)
    """By the application's uid."""

    def step(self) -> None:
        found = self.objects.list_cluster_custom_object(*APPLICATIONS, "sparkapplications")["items"]
        wanted = {app["metadata"]["uid"]: app for app in found if "deletionTimestamp" not in app["metadata"]}
        for uid in [uid for uid in self.drivers if uid not in wanted]:
            self._end_deleted(uid)
        for uid, app in wanted.items():
            self._advance(uid, app)

    def _advance(self, uid: str, app: Application) -> None:
        state = app.get("status", {}).get("applicationState", {}).get("state", "")
        if state == "":
            self._submit(app)
        elif state == "SUBMITTED":
            if uid not in self.drivers:
                self._start(uid, app)
            if uid in self.drivers:
                self._move(app, "RUNNING", sparkApplicationId=f"spark-{uid}", executionAttempts=1)
        elif state == "RUNNING" and uid not in self.drivers:
            self._move(app, "FAILING", errorMessage="driver pod not found")
        elif state == "RUNNING" and app["metadata"]["generation"] != self._generation(uid):
            self._kill(uid)
            self._move(app, "FAILING", errorMessage="the spec was edited after submission: a double runs once")
        elif state == "RUNNING":
            self._observe(uid, app)
        elif state == "SUCCEEDING":
            self._move(app, "COMPLETED", terminationTime=_now())
        elif state == "FAILING":
            message = app["status"]["applicationState"].get("errorMessage", "")
            self._move(app, "FAILED", errorMessage=message, terminationTime=_now())

    def _submit(self, app: Application) -> None:
        status = {
            "driverInfo": {"podName": f"{app['metadata']['name']}-driver"},
            "submissionAttempts": 1,
            "submissionID": str(uuid.uuid4()),
            "lastSubmissionAttemptTime": _now(),
        }
        policy = app["spec"].get("restartPolicy", {}).get("type", "Never")
        if policy != "Never":
            why = f"restartPolicy {policy}: this double runs an application once; use Never"
            self._move(app, "FAILED", errorMessage=why, **status)
        else:
            self._move(app, "SUBMITTED", **status)

    def _start(self, uid: str, app: Application) -> None:
        if any(line["event"] == "start" and line["uid"] == uid for line in read_ledger(self.folder)):
            self._move(app, "FAILING", errorMessage="driver pod not found")
            return
        try:
            environment = self._environment(app)
        except MissingReference:
            return
        metadata = app["metadata"]
        log = self.folder / f"{metadata['namespace']}.{metadata['name']}.log"
        # The ledger first: a line without a driver can be told, a driver without a line cannot.
        self._record("start", app, arguments=app["spec"].get("arguments", []), log=str(log))
        with log.open("ab") as out:
            process = subprocess.Popen(
                [*DIE_WITH_US, *submit_command(app)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=environment,
                start_new_session=True,
            )
        self._record("pid", app, pid=process.pid)
        self.drivers[uid] = Driver(app, process)

    def _observe(self, uid: str, app: Application) -> None:
        process = self.drivers[uid].process
        code = process.poll()
        if code is None:
            return
        _signal_group(process, signal.SIGKILL)
        if code == 0:
            self._move(app, "SUCCEEDING")
        else:
            why = f"driver container failed with ExitCode: {_shell_code(code)}, Reason: Error"
            self._move(app, "FAILING", errorMessage=why)
        self._record("end", app, code=_shell_code(code))
        del self.drivers[uid]

    def _end_deleted(self, uid: str) -> None:
        """Ask first, insist later, as a pod's end does; meanwhile the other applications are looked after."""
        driver = self.drivers[uid]
        if driver.asked_to_end is None:
            driver.asked_to_end = time.monotonic()
            _signal_group(driver.process, signal.SIGTERM)
        if driver.process.poll() is not None or time.monotonic() - driver.asked_to_end > GRACE_SECONDS:
            self._kill(uid)

    def _kill(self, uid: str) -> None:
        driver = self.drivers.pop(uid)
        _signal_group(driver.process, signal.SIGKILL)
        driver.process.wait()
        self._record("killed", driver.application)

    def close(self) -> None:
        for uid in list(self.drivers):
            self._kill(uid)

    def _generation(self, uid: str) -> int:
        generation: int = self.drivers[uid].application["metadata"]["generation"]
        return generation

    def _environment(self, app: Application) -> dict[str, str]:
        found = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        found["PYTHONPATH"] = os.pathsep.join(str(ROOT / part) for part in ("", "spark_apps", "operator"))
        found["PYSPARK_PYTHON"] = found["PYSPARK_DRIVER_PYTHON"] = sys.executable
        namespace, driver = app["metadata"]["namespace"], app["spec"]["driver"]
        for source in driver.get("envFrom", []):
            for kind in ("secretRef", "configMapRef"):
                if kind in source:
                    values = self._values(kind, namespace, source[kind]["name"])
                    found |= {source.get("prefix", "") + key: value for key, value in values.items()}
        for entry in driver.get("env", []):
            origin = entry.get("valueFrom", {})
            found[entry["name"]] = entry.get("value", "")
            for kind, key in (("secretRef", "secretKeyRef"), ("configMapRef", "configMapKeyRef")):
                if key in origin:
                    values = self._values(kind, namespace, origin[key]["name"])
                    if origin[key]["key"] not in values:
                        raise MissingReference
                    found[entry["name"]] = values[origin[key]["key"]]
        return found

    def _values(self, kind: str, namespace: str, name: str) -> dict[str, str]:
        try:
            if kind == "configMapRef":
                return dict(self.core.read_namespaced_config_map(name, namespace).data or {})
            secret = self.core.read_namespaced_secret(name, namespace, _preload_content=False)
        except client.ApiException as error:
            if error.status == 404:
                raise MissingReference from error
            raise
        return {key: _decode(value) for key, value in (json.loads(secret.data).get("data") or {}).items()}

    def _move(self, app: Application, state: str, errorMessage: str = "", **fields: Any) -> None:  # noqa: N803
        status = {"applicationState": {"state": state, "errorMessage": errorMessage}, **fields}
        metadata = app["metadata"]
        try:
            self.objects.patch_namespaced_custom_object_status(
                *APPLICATIONS,
                metadata["namespace"],
                "sparkapplications",
                metadata["name"],
                {"status": status},
            )
        except client.ApiException as error:
            if error.status != 404:  # deleted meanwhile: the next step sees that
                raise

    def _record(self, event: str, app: Application, **facts: Any) -> None:
        metadata = app["metadata"]
        named = {"namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}
        with (self.folder / "ledger.jsonl").open("a") as ledger:
            ledger.write(json.dumps({"event": event, **named, "time": time.time(), **facts}) + "\n")


def read_ledger(folder: Path) -> list[dict[str, Any]]:
    """Every line of the ledger, oldest first."""
    path = folder / "ledger.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def submit_command(app: Application) -> list[str]:
    """The driver command of the application, for one machine."""
    spec = app["spec"]
    conf = {key: value for key, value in spec.get("sparkConf", {}).items() if ".kubernetes." not in f".{key}"}
    conf |= {f"spark.hadoop.{key}": value for key, value in spec.get("hadoopConf", {}).items()} | LOCAL_CONF
    main = spec["mainApplicationFile"]
    if main.startswith(IN_IMAGE):
        main = str(ROOT / "spark_apps" / main.removeprefix(IN_IMAGE))
    return [
        str(Path(sys.executable).with_name("spark-submit")),
        "--master=local[2]",
        f"--name={app['metadata']['name']}",
        f"--driver-memory={spec['driver'].get('memory', '1g')}",
        *(part for key, value in sorted(conf.items()) for part in ("--conf", f"{key}={value}")),
        main,
        *spec.get("arguments", []),
    ]


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """To the driver and everything it started; the session is its own."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


def _shell_code(code: int) -> int:
    """An end by a signal as containers report it."""
    return code if code >= 0 else 128 - code


def _decode(value: str) -> str:
    return base64.b64decode(value).decode()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--folder", required=True, type=Path, help="for the ledger and the drivers' logs")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    config.load_kube_config(options.kubeconfig)
    double = Double(client.CustomObjectsApi(), client.CoreV1Api(), options.folder)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        while True:
            try:
                double.step()
            except (client.ApiException, OSError) as error:
                print(f"{_now()} will try again: {error}", file=sys.stderr, flush=True)
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        pass
    finally:
        double.close()


if __name__ == "__main__":
    main()
