"""One sound object of each kind, for tests to apply as it is or with one thing changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Manifest = dict[str, Any]
Change = Callable[[Manifest], object]


def manifest(kind: str, name: str, spec: Manifest) -> Manifest:
    return {"apiVersion": "seamark.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def orders(change: Change = lambda _: None, name: str = "orders") -> Manifest:
    spec = {
        "locationRef": {"name": "main"},
        "source": {
            "files": {"path": "/data/orders"},
            "fields": [{"name": "order_id", "type": "string"}, {"name": "cents", "type": "int64"}],
        },
        "columns": [
            {"name": "order_id", "type": "string"},
            {"name": "amount", "type": "int64", "expression": "cents * 100"},
        ],
        "key": ["order_id"],
        "envelope": "upsert",
    }
    change(spec)
    return manifest("Collection", name, spec)


def location(**spec: Any) -> Manifest:
    return manifest("StorageLocation", "main", {"url": "s3://bucket/prefix?endpoint=http://127.0.0.1:9000", **spec})


RENDITION = manifest(
    "Rendition",
    "orders-r1",
    {"collectionRef": {"name": "orders"}, "ordinal": 1, "definitionHash": "0123456789ab", "definition": "{}"},
)
SHARD = manifest(
    "Shard",
    "orders-r1-0",
    {"collectionRef": {"name": "orders"}, "renditionRef": {"name": "orders-r1"}, "index": 0},
)
HOLD = manifest("ReadHold", "audit", {"collectionRef": {"name": "orders"}, "asOf": 5})
