"""Makes sparkapplications.yaml from the CRD that Kubeflow's Spark operator publishes.

    python -m tests.cluster.reduce_sparkapplication_crd PUBLISHED.yaml > tests/cluster/sparkapplications.yaml

The published file (Go module github.com/kubeflow/spark-operator/v2 v2.4.0, config/crd/bases) has 800 KB, most
of it descriptions and copies of the pod API. Kept: every field of spec and status with its real type, enum,
pattern and required list. Left out: descriptions, and the inside of the fields in `POD_API`, accepted unread.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

POD_API = {"affinity", "initContainers", "lifecycle", "podSecurityContext", "sidecars", "volumes"}


def reduce(node: Any, name: str = "") -> Any:
    if isinstance(node, list):
        return [reduce(item) for item in node]
    if not isinstance(node, dict):
        return node
    if name in POD_API and node.get("type") == "array":
        return {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    if name in POD_API and node.get("type") == "object":
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        key: reduce(value, key) for key, value in node.items() if not (key == "description" and isinstance(value, str))
    }


def main() -> None:
    published = yaml.safe_load(Path(sys.argv[1]).read_text())
    print("# Made by reduce_sparkapplication_crd.py from the CRD of spark-operator v2.4.0; do not edit.")
    print(yaml.safe_dump(reduce(published), sort_keys=False), end="")


if __name__ == "__main__":
    main()
