"""The port `Leases` over a folder of JSON files: one writer per shard, as people see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from seamark_operator.adapters.local_files import locked, read_json, remove, write_json
from seamark_operator.ports import Lease

DURATION_SECONDS = 60


class LocalLeases:
    """`<root>/leases/<namespace>/<name>.json`"""

    def __init__(self, root: Path, duration_seconds: int = DURATION_SECONDS) -> None:
        self._root = root
        self._duration = duration_seconds

    def list(self) -> Sequence[Lease]:
        found = (read_json(path) for path in sorted((self._root / "leases").glob("*/*.json")))
        return [msgspec.convert(lease, Lease) for lease in found if lease is not None]

    def acquire(self, namespace: str, name: str, holder: str, now: float, labels: Mapping[str, str]) -> bool:
        with locked(self._root / "leases.lock"):
            present = self._get(namespace, name)
            if present is not None and present.holder != holder:
                if now - present.renewed_at <= present.duration_seconds:
                    return False
                present = None
            epoch = present.epoch if present is not None else 0
            self._put(Lease(namespace, name, holder, epoch, now, self._duration), labels)
            return True

    def record_epoch(self, namespace: str, name: str, epoch: int) -> None:
        with locked(self._root / "leases.lock"):
            present = self._get(namespace, name)
            if present is not None:
                self._put(replace(present, epoch=epoch), {})

    def release(self, namespace: str, name: str) -> None:
        with locked(self._root / "leases.lock"):
            remove(self._path(namespace, name))

    def _get(self, namespace: str, name: str) -> Lease | None:
        found = read_json(self._path(namespace, name))
        return msgspec.convert(found, Lease) if found is not None else None

    def _put(self, lease: Lease, labels: Mapping[str, str]) -> None:
        path = self._path(lease.namespace, lease.name)
        kept = (read_json(path) or {}).get("labels", {})
        write_json(path, {**msgspec.to_builtins(lease), "labels": {**kept, **labels}})

    def _path(self, namespace: str, name: str) -> Path:
        return self._root / "leases" / namespace / f"{name}.json"
