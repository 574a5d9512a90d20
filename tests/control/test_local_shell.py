"""`seamark local`: the commands as users give them, and the whole story with stand-ins for Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from seamark_operator.shells.local.cli import app

APPS = Path(__file__).parent / "apps"
MANIFEST = """
apiVersion: seamark.io/v1alpha1
kind: StorageLocation
metadata: {name: main}
spec: {url: "disk:./data"}
---
apiVersion: seamark.io/v1alpha1
kind: Collection
metadata: {name: orders}
spec:
  locationRef: {name: main}
  source:
    files: {path: ./in}
    fields: [{name: id, type: string}]
  columns: [{name: id, type: string}]
  shards: 2
  tickSeconds: 0.2
  retainSeconds: 0
  deletionPolicy: Delete
"""


class Local:
    """One root folder, the commands over it, and its controller as a process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / ".seamark"
        self._controller: subprocess.Popen[bytes] | None = None
        (folder / "in").mkdir()
        (folder / "shop.yaml").write_text(MANIFEST)

    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, [arguments[0], "--root", str(self.root), *arguments[1:]])

    def ok(self, *arguments: str) -> str:
        result = self(*arguments)
        assert result.exit_code == 0, result.output
        return result.output

    def get(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ok("get", kind, name, "-o", "json"))
        return found

    def status(self, kind: str, name: str) -> dict[str, Any]:
        status: dict[str, Any] = self.get(kind, name).get("status", {})
        return status

    def start(self) -> None:
        code = "from seamark_operator.shells.local.cli import app; app()"
        self._controller = subprocess.Popen(
            [sys.executable, "-c", code, "run", "--root", str(self.root), "--interval", "0.1"],
            env={**os.environ, "SEAMARK_SPARK_APPS": str(APPS)},
        )

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self._controller is not None
        self._controller.send_signal(number)
        code = self._controller.wait(60)
        self._controller = None
        return code

    def wait(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 90
        while not holds():
            assert time.monotonic() < deadline, f"not in time: {what}\n{self.ok('status')}"
            time.sleep(0.1)

    def close(self) -> None:
        if self._controller is not None:
            self.end()


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    made = Local(tmp_path)
    yield made
    made.close()


def test_apply_says_what_it_did_and_resolves_paths_from_the_manifest(local: Local) -> None:
    manifest = str(local.folder / "shop.yaml")
    assert local.ok("apply", "-f", manifest) == "storagelocation/main created\ncollection/orders created\n"
    assert local.ok("apply", "-f", manifest) == "storagelocation/main unchanged\ncollection/orders unchanged\n"
    assert local.get("storagelocation", "main")["spec"]["url"] == f"disk:{local.folder / 'data'}"
    assert local.get("coll", "orders")["spec"]["source"]["files"]["path"] == str(local.folder / "in")
    (local.folder / "shop.yaml").write_text(MANIFEST.replace("shards: 2", "shards: 3"))
    assert "collection/orders configured" in local.ok("apply", "-f", str(local.folder))
    lines = local.ok("apply", "-f", manifest, "--json").splitlines()
    assert json.loads(lines[0]) == {"kind": "StorageLocation", "name": "main", "outcome": "unchanged"}


def test_get_shows_the_columns_of_the_crds(local: Local) -> None:
    local.ok("apply", "-f", str(local.folder / "shop.yaml"))
    heading = local.ok("get", "collections").splitlines()[0].split()
    assert heading == ["NAME", "PHASE", "ACTIVE", "CANDIDATE", "UPPER", "READY", "AGE"]
    listed = yaml.safe_load(local.ok("get", "collection", "-o", "yaml"))
    assert [item["metadata"]["name"] for item in listed["items"]] == ["orders"]
    assert local.ok("get", "coll", "orders", "-o", "jsonpath={.spec.locationRef.name}") == "main\n"
    assert "No Shard" in local.ok("get", "shards")
    assert "orders" in local.ok("describe", "collection", "orders")
    assert "not running" in local.ok("status")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("get", "collection", "nobody"), 1, "no Collection nobody in namespace default"),
        (("get", "table"), 1, "kind 'table' is not known"),
        (("apply", "-f", "nowhere.yaml"), 1, "no file or folder nowhere.yaml"),
        (("delete", "collection", "nobody"), 1, "no Collection nobody"),
        (("get", "collection", "-o", "xml"), 2, "is not one of table, yaml, json"),
        (("apply",), 2, "Missing option"),
    ],
)
def test_what_is_wrong_is_one_message_and_an_exit_code(
    local: Local, arguments: tuple[str, ...], code: int, message: str
) -> None:
    result = local(*arguments)
    assert result.exit_code == code
    assert message in result.output
    assert "Traceback" not in result.output


def test_an_immutable_field_is_refused_with_the_words_of_the_crd(local: Local) -> None:
    local.ok("apply", "-f", str(local.folder / "shop.yaml"))
    (local.folder / "shop.yaml").write_text(MANIFEST.replace("locationRef: {name: main}", "locationRef: {name: far}"))
    result = local("apply", "-f", str(local.folder / "shop.yaml"))
    assert result.exit_code == 1
    assert "locationRef is immutable: create a new Collection to move data" in result.output.replace("\n", " ")


def test_annotations_are_set_and_removed(local: Local) -> None:
    local.ok("apply", "-f", str(local.folder / "shop.yaml"))
    local.ok("annotate", "collection", "orders", "seamark.io/paused=true")
    assert local.get("collection", "orders")["metadata"]["annotations"] == {"seamark.io/paused": "true"}
    local.ok("annotate", "collection", "orders", "seamark.io/paused-")
    assert local.get("collection", "orders")["metadata"]["annotations"] == {}


def test_the_story_through_a_killed_controller_and_a_second_one(local: Local) -> None:
    local.ok("apply", "-f", str(local.folder / "shop.yaml"))
    local.start()
    local.wait("Ready", lambda: local.status("collection", "orders").get("phase") == "Ready")
    second = local("run")
    assert second.exit_code == 1
    assert "a controller runs over" in second.output.replace("\n", " ")
    (run,) = json.loads(local.ok("status", "--json"))["runs"]

    local.end(signal.SIGKILL)
    local.start()
    local.wait("a controller", lambda: json.loads(local.ok("status", "--json"))["controller"] is not None)
    assert [r["name"] for r in json.loads(local.ok("status", "--json"))["runs"]] == [run["name"]], "found again"

    (local.folder / "shop.yaml").write_text(
        MANIFEST.replace("type: string}]\n  shards", "type: string, expression: upper(id)}]\n  shards")
    )
    local.ok("apply", "-f", str(local.folder / "shop.yaml"))
    local.wait("r2", lambda: local.status("collection", "orders").get("activeRendition") == "r2")
    local.wait("r1 collected", lambda: local("get", "rendition", "orders-r1").exit_code == 1)
    assert list((local.folder / "data").rglob("r1/*")) == []
    assert local.status("collection", "orders")["lastHandover"]["from"] == "r1"

    assert local.end() == 0
    states = [run["state"] for run in json.loads(local.ok("status", "--json"))["runs"]]
    assert set(states) <= {"Succeeded"}, "runs end with the controller"

    local.start()
    local.ok("delete", "collection", "orders", "--wait", "60")
    local.wait("no lease", lambda: not list((local.root / "leases").glob("*/*.json")))
    assert [path for path in (local.root / "runs").iterdir() if path.is_dir()] == []
    left = [path for path in (local.folder / "data").rglob("*") if path.is_file() and path.stat().st_size > 0]
    assert [path for path in left if "orders" in str(path.relative_to(local.folder))] == []


def test_wait_ends_when_an_object_is_as_asked_for(local: Local) -> None:
    local.ok("apply", "-f", str(local.folder / "shop.yaml"))
    local.start()
    assert (
        local.ok("wait", "collection/orders", "--for", "Ready", "--timeout", "90") == "collection/orders Ready=True\n"
    )
    asked = ("wait", "coll/orders", "--for", "status.activeRendition=r1")
    assert local.ok(*asked) == "collection/orders status.activeRendition=r1\n"
    assert local.ok("wait", "rendition/orders-r9", "--for", "deleted") == "rendition/orders-r9 deleted\n"


def test_wait_takes_no_status_that_is_older_than_the_spec(local: Local) -> None:
    manifest = local.folder / "shop.yaml"
    local.ok("apply", "-f", str(manifest))
    local.start()
    local.ok("wait", "collection/orders", "--for", "Ready", "--timeout", "90")
    local.end()
    manifest.write_text(MANIFEST.replace("retainSeconds: 0", "retainSeconds: 60"))
    local.ok("apply", "-f", str(manifest))
    result = local("wait", "collection/orders", "--for", "Ready", "--timeout", "0")
    assert result.exit_code == 1
    assert "its status is older than its spec" in result.output


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("collection/orders", "--for", "Ready"), 1, "it has no condition Ready (conditions: none)"),
        (("collection/orders", "--for", "Ready"), 1, "no controller runs: start `seamark local run`"),
        (("collection/orders", "--for", "status.activeRendition=r2"), 1, "status.activeRendition is not set"),
        (("collection/orders", "--for", "deleted"), 1, "did not become deleted within 0 s: it is there"),
        (("rendition/orders-r2", "--for", "Ready"), 1, "it is not there"),
        (("collection/orders", "--for", "status."), 1, "cannot wait for 'status.'; known are a condition"),
        (("orders", "--for", "Ready"), 2, "is not KIND/NAME"),
    ],
)
def test_wait_says_what_it_saw_when_it_gives_up(
    local: Local, arguments: tuple[str, ...], code: int, message: str
) -> None:
    local.ok("apply", "-f", str(local.folder / "shop.yaml"))
    result = local("wait", *arguments, "--timeout", "0")
    assert result.exit_code == code
    assert message in result.output.replace("\n", " ")
