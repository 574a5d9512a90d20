"""The port `Objects` over a folder of JSON files, with the API server's rules: what a user tries on a laptop
is what Kubernetes would do.

    <root>/objects/<Kind>/<namespace>/<name>.json
    <root>/events.jsonl
"""

from __future__ import annotations

import copy
import json
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from seamark.errors import InvalidDefinition, NotFound
from seamark_operator.adapters.local_files import locked, read_json, remove, write_json
from seamark_operator.adapters.local_schema import Schemas
from seamark_operator.api import constants as k
from seamark_operator.api.meta import format_time
from seamark_operator.ports import Object

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_EVENTS_KEPT = 500

Applied = Literal["created", "configured", "unchanged"]


class LocalObjects:
    """All changes happen under one lock of the folder, so that `apply` and the controller may meet."""

    def __init__(self, root: Path, schemas: Schemas, clock: Callable[[], float] = time.time) -> None:
        self._root = root
        self._schemas = schemas
        self._clock = clock

    # Reading

    def list(self, kind: str) -> Sequence[Object]:
        found = (read_json(path) for path in sorted((self._root / "objects" / kind).glob("*/*.json")))
        return [obj for obj in found if obj is not None]

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        return read_json(self._path(kind, namespace, name))

    # What the control plane changes

    def create(self, obj: Object) -> Object:
        with self._changing():
            present = self.get(obj["kind"], *_key(obj))
            if present is not None:
                return present
            return self._create(obj)

    def patch_status(self, kind: str, namespace: str, name: str, status: Mapping[str, Any]) -> None:
        def change(obj: Object) -> None:
            obj["status"] = merged(obj.get("status", {}), status)

        self._edit(kind, namespace, name, change)

    def set_finalizers(self, kind: str, namespace: str, name: str, finalizers: Sequence[str]) -> None:
        def change(obj: Object) -> None:
            obj["metadata"]["finalizers"] = [*finalizers]

        self._edit(kind, namespace, name, change)

    def remove_annotation(self, kind: str, namespace: str, name: str, annotation: str) -> None:
        self.annotate(kind, namespace, name, {annotation: None})

    def delete(self, kind: str, namespace: str, name: str) -> None:
        with self._changing():
            self._delete(kind, namespace, name)

    def event(self, about: Object, severity: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        namespace, name = _key(about)
        line = {
            "time": format_time(self._clock()),
            "kind": about["kind"],
            "namespace": namespace,
            "name": name,
            "severity": severity,
            "reason": reason,
            "message": message,
        }
        path = self._root / "events.jsonl"
        with self._changing():
            kept = path.read_text().splitlines() if path.exists() else []
            if len(kept) >= 2 * _EVENTS_KEPT:
                path.write_text("\n".join(kept[-_EVENTS_KEPT:]) + "\n")
            with path.open("a") as file:
                file.write(json.dumps(line) + "\n")

    # What users do

    def apply(self, manifest: Object) -> tuple[Applied, Object]:
        """Create the object, or give it the manifest's spec; labels and annotations are added to."""
        kind = manifest.get("kind")
        if kind not in k.KINDS or manifest.get("apiVersion") != k.API_VERSION:
            known = ", ".join(k.KINDS)
            raise InvalidDefinition(
                f"apiVersion {manifest.get('apiVersion')!r}, kind {kind!r} is not known; "
                f"apiVersion is {k.API_VERSION}, kind is one of {known}"
            )
        manifest = {**manifest, "metadata": dict(manifest.get("metadata") or {})}
        manifest.pop("status", None)
        namespace, name = _key(manifest)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidDefinition(
                f"{kind}: metadata.name {name!r} is not a name; use lower-case letters, digits and '-'"
            )
        with self._changing():
            present = self.get(kind, namespace, name)
            if present is None:
                return "created", self._create(manifest)
            return self._update(manifest, present)

    def annotate(self, kind: str, namespace: str, name: str, changes: Mapping[str, str | None]) -> None:
        """Set annotations; None removes one."""

        def change(obj: Object) -> None:
            obj["metadata"]["annotations"] = merged(obj["metadata"].get("annotations", {}), changes)

        self._edit(kind, namespace, name, change)

    def events(self, kind: str, namespace: str, name: str) -> Sequence[Mapping[str, str]]:
        path = self._root / "events.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        found = [json.loads(line) for line in lines]
        wanted = (kind, namespace, name)
        return [event for event in found if (event["kind"], event["namespace"], event["name"]) == wanted]

    # Inside

    def _create(self, obj: Object) -> Object:
        made = self._schemas.admit(obj, None)
        namespace, name = _key(made)
        made["metadata"] = {
            **made["metadata"],
            "name": name,
            "namespace": namespace,
            "uid": str(uuid.uuid4()),
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": format_time(self._clock()),
        }
        write_json(self._path(made["kind"], namespace, name), made)
        return made

    def _update(self, manifest: Object, present: Object) -> tuple[Applied, Object]:
        changed = copy.deepcopy(present)
        changed["spec"] = manifest.get("spec")
        for field in ("labels", "annotations"):
            if manifest["metadata"].get(field):
                changed["metadata"][field] = {
                    **changed["metadata"].get(field, {}),
                    **manifest["metadata"][field],
                }
        changed = self._schemas.admit(changed, present)
        if changed == present:
            return "unchanged", present
        self._write(changed, present)
        return "configured", changed

    def _edit(self, kind: str, namespace: str, name: str, change: Callable[[Object], None]) -> None:
        with self._changing():
            present = self.get(kind, namespace, name)
            if present is None:
                return
            changed = copy.deepcopy(present)
            change(changed)
            if changed == present:
                return
            if changed["metadata"].get("deletionTimestamp") and not changed["metadata"].get("finalizers"):
                self._remove(changed)
            else:
                self._write(changed, present)

    def _write(self, changed: Object, present: Object) -> None:
        metadata = changed["metadata"]
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
        if changed.get("spec") != present.get("spec"):
            metadata["generation"] += 1
        write_json(self._path(changed["kind"], *_key(changed)), changed)

    def _delete(self, kind: str, namespace: str, name: str) -> None:
        present = self.get(kind, namespace, name)
        if present is None:
            return
        if not present["metadata"].get("finalizers"):
            self._remove(present)
        elif not present["metadata"].get("deletionTimestamp"):
            changed = copy.deepcopy(present)
            changed["metadata"]["deletionTimestamp"] = format_time(self._clock())
            changed["metadata"]["generation"] += 1
            self._write(changed, present)

    def _remove(self, obj: Object) -> None:
        """The object, and then what it owns, as the garbage collector does."""
        remove(self._path(obj["kind"], *_key(obj)))
        uid = obj["metadata"]["uid"]
        for kind in k.KINDS:
            for child in self.list(kind):
                owners = child["metadata"].get("ownerReferences", ())
                if any(owner["uid"] == uid for owner in owners):
                    self._delete(kind, *_key(child))

    def _path(self, kind: str, namespace: str, name: str) -> Path:
        return self._root / "objects" / kind / namespace / f"{name}.json"

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with locked(self._root / "objects.lock"):
            yield


def merged(old: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON merge patch: objects merge, None removes, everything else replaces."""
    result = dict(old)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merged(result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def require(objects: LocalObjects, kind: str, namespace: str, name: str) -> Object:
    found = objects.get(kind, namespace, name)
    if found is None:
        raise NotFound(f"no {kind} {name} in namespace {namespace}; `seamark local get {kind.lower()}` lists them")
    return found


def _key(obj: Object) -> tuple[str, Any]:
    metadata = obj["metadata"]
    return metadata.get("namespace") or "default", metadata.get("name")
