"""The port `Leases` over coordination.k8s.io: a shard's write lock where people look for locks.

Every change names the version it replaces, so of several takers one wins; the fence itself is the epoch in
the shard's log, shown here as an annotation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from seamark_operator.adapters.kube_client import LEASES, MANAGER, ApiRefused, Kube
from seamark_operator.api import constants as k
from seamark_operator.ports import Lease, Object

EPOCH = f"{k.GROUP}/epoch"
MANAGED = "app.kubernetes.io/managed-by"


def micro_time(seconds: float) -> str:
    """Seconds since the epoch as Kubernetes writes a MicroTime."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds(text: str | None) -> float:
    """A Kubernetes timestamp as seconds since the epoch; 0 when there is none."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0


class KubeLeases:
    """A lease per shard in the watched namespaces."""

    def __init__(self, kube: Kube, namespaces: Sequence[str] = (), *, duration_seconds: int = 60) -> None:
        self._kube = kube
        self._namespaces = tuple(namespaces)
        self._duration = duration_seconds

    def list(self) -> Sequence[Lease]:
        return [
            _read(obj)
            for obj in self._kube.everything(LEASES, self._namespaces, f"{k.LABEL_COLLECTION},{MANAGED}={MANAGER}")
        ]

    def acquire(self, namespace: str, name: str, holder: str, now: float, labels: Mapping[str, str]) -> bool:
        while True:
            present = self._kube.get(LEASES, namespace, name)
            wanted = self._wanted(present, namespace, name, holder, now, labels)
            if wanted is None:
                return present is not None and _read(present).holder == holder
            try:
                if present is None:
                    self._kube.create(LEASES, wanted)
                else:
                    self._kube.update(LEASES, wanted)
                return True
            except ApiRefused as refused:
                # 409: another taker was faster; 404: it was released meanwhile. Either way, look again.
                if refused.code not in (404, 409):
                    raise

    def record_epoch(self, namespace: str, name: str, epoch: int) -> None:
        self._kube.merge(LEASES, namespace, name, {"metadata": {"annotations": {EPOCH: str(epoch)}}})

    def release(self, namespace: str, name: str) -> None:
        self._kube.delete(LEASES, namespace, name)

    def _wanted(
        self,
        present: Object | None,
        namespace: str,
        name: str,
        holder: str,
        now: float,
        labels: Mapping[str, str],
    ) -> Object | None:
        """The lease to write; None when it is another's, or was renewed so lately that it need not be."""
        marks = {**labels, MANAGED: MANAGER}
        fresh = {
            "holderIdentity": holder,
            "leaseDurationSeconds": self._duration,
            "acquireTime": micro_time(now),
            "renewTime": micro_time(now),
            "leaseTransitions": 0,
        }
        if present is None:
            metadata = {"name": name, "namespace": namespace, "labels": marks}
            return {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": metadata,
                "spec": fresh,
            }
        lease, spec = _read(present), present.get("spec") or {}
        age = now - lease.renewed_at
        if lease.holder == holder:
            if age < self._duration / 3:
                return None
            return {
                **present,
                "spec": {**spec, "renewTime": micro_time(now), "leaseDurationSeconds": self._duration},
            }
        if lease.holder and age < lease.duration_seconds:
            return None
        taken = {**fresh, "leaseTransitions": int(spec.get("leaseTransitions") or 0) + 1}
        metadata = {**present["metadata"], "labels": {**(present["metadata"].get("labels") or {}), **marks}}
        return {**present, "metadata": metadata, "spec": taken}


def _read(obj: Object) -> Lease:
    spec, metadata = obj.get("spec") or {}, obj["metadata"]
    epoch = (metadata.get("annotations") or {}).get(EPOCH, "0")
    return Lease(
        namespace=metadata["namespace"],
        name=metadata["name"],
        holder=spec.get("holderIdentity") or "",
        epoch=int(epoch) if epoch.isdecimal() else 0,
        renewed_at=seconds(spec.get("renewTime")),
        duration_seconds=int(spec.get("leaseDurationSeconds") or 0),
    )
