"""One run as a Kubeflow SparkApplication, and back: the only place that knows that resource's shape.

The application is written once and never edited: an edit of its spec makes Kubeflow's operator kill the
driver and run it again, so whatever may differ between two runs is part of the run's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from seamark.errors import InvalidDefinition
from seamark_operator.api import constants as k
from seamark_operator.ports import Object, Run, RunKind, RunSpec, RunState

GROUP, VERSION, PLURAL, KIND = "sparkoperator.k8s.io", "v1beta2", "sparkapplications", "SparkApplication"
MANAGER = "seamark-operator"

NAME_LIMIT = 39
"""Kubeflow appends up to 24 characters ("-driver-podspec-conf-map") to a name that may not pass 63."""

STATES: Mapping[str, RunState] = {
    "": "Pending",
    "NEW": "Pending",
    "SUBMITTED": "Pending",
    "PENDING_RERUN": "Pending",
    "INVALIDATING": "Pending",
    "UNKNOWN": "Pending",
    "SUSPENDING": "Pending",
    "SUSPENDED": "Pending",
    "RESUMING": "Pending",
    "RUNNING": "Running",
    "SUCCEEDING": "Running",
    "FAILING": "Running",
    "COMPLETED": "Succeeded",
    "SUBMISSION_FAILED": "Failed",
    "FAILED": "Failed",
}


@dataclass(frozen=True)
class PodSize:
    """What one pod of a run asks for."""

    cores: int = 1
    memory: str = "1g"
    memory_overhead: str = "512m"


@dataclass(frozen=True)
class SparkSettings:
    """What is the same for every run that one operator launches."""

    image: str
    """Image with Spark, Python and the applications below `applications`."""
    service_account: str = "seamark-spark"
    """Account of the driver, which makes the executor pods."""
    spark_version: str = "4.1.1"
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    applications: str = "local:///opt/seamark/spark_apps"
    driver: PodSize = PodSize()
    executor: PodSize = PodSize(memory="2g")
    executors: int = 2
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    """Wins over the defaults of `spark_conf`."""


DEFAULT_CONF: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    # A part whose bytes changed at rest is refused rather than read.
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    # The driver of a continuous run lives for weeks; a lost executor must not end it.
    "spark.executor.maxNumFailures": "1000000",
}


def build(run: RunSpec, settings: SparkSettings) -> Object:
    """The SparkApplication of one run."""
    if len(run.name) > NAME_LIMIT or not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", run.name):
        raise InvalidDefinition(
            f"run name {run.name!r} was asked for; a run's name is a lower-case DNS label that begins with a "
            f"letter and has at most {NAME_LIMIT} characters (this has {len(run.name)}): shorten it"
        )
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {
            "name": run.name,
            "namespace": run.namespace,
            "labels": labels(run),
            "ownerReferences": [
                {
                    "apiVersion": k.API_VERSION,
                    "kind": k.RENDITION,
                    "name": run.rendition,
                    "uid": run.rendition_uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "type": "Python",
            "mode": "cluster",
            "pythonVersion": "3",
            "sparkVersion": settings.spark_version,
            "image": settings.image,
            "imagePullPolicy": settings.image_pull_policy,
            **({"imagePullSecrets": list(settings.image_pull_secrets)} if settings.image_pull_secrets else {}),
            "mainApplicationFile": f"{settings.applications}/{run.kind}.py",
            "arguments": list(run.arguments),
            "sparkConf": {**DEFAULT_CONF, **settings.spark_conf},
            # A second try is a new run with its own name, decided by the controller from the commit marker.
            "restartPolicy": {"type": "Never"},
            "driver": {**_pod(run, settings.driver), "serviceAccount": settings.service_account},
            "executor": {**_pod(run, settings.executor), "instances": settings.executors},
        },
    }


def labels(run: RunSpec) -> dict[str, str]:
    """What runs are found by; the run's own facts win over labels that were passed along."""
    return {
        **run.labels,
        "app.kubernetes.io/managed-by": MANAGER,
        k.LABEL_COLLECTION: run.collection,
        k.LABEL_RENDITION: run.rendition,
        k.LABEL_RUN_KIND: run.kind,
        k.LABEL_ATTEMPT: str(run.attempt),
    }


def read(application: Object) -> Run | None:
    """The run that an application carries out; None for one that Seamark did not make."""
    metadata = application["metadata"]
    found: Mapping[str, str] = metadata.get("labels") or {}
    kind = _kind(found.get(k.LABEL_RUN_KIND, ""))
    if kind is None or k.LABEL_COLLECTION not in found or not found.get(k.LABEL_ATTEMPT, "").isdecimal():
        return None
    status: Mapping[str, Any] = (application.get("status") or {}).get("applicationState") or {}
    state = str(status.get("state") or "")
    message = str(status.get("errorMessage") or "")
    if state not in STATES:
        message = f"unknown application state {state!r}; {message}".rstrip("; ")
    owners = [o["name"] for o in metadata.get("ownerReferences") or () if o.get("kind") == k.RENDITION]
    return Run(
        name=metadata["name"],
        namespace=metadata["namespace"],
        kind=kind,
        attempt=int(found[k.LABEL_ATTEMPT]),
        collection=found[k.LABEL_COLLECTION],
        rendition=owners[0] if owners else found.get(k.LABEL_RENDITION, ""),
        state=STATES.get(state, "Pending"),
        message=message,
        created_at=_seconds(metadata.get("creationTimestamp")),
    )


def _pod(run: RunSpec, size: PodSize) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "cores": size.cores,
        "memory": size.memory,
        "memoryOverhead": size.memory_overhead,
        "labels": labels(run),
    }
    if run.credentials_secret:
        pod["envFrom"] = [{"secretRef": {"name": run.credentials_secret}}]
    return pod


def _kind(text: str) -> RunKind | None:
    if text == "ingest":
        return "ingest"
    if text == "backfill":
        return "backfill"
    return None


def _seconds(timestamp: str | None) -> float:
    return datetime.fromisoformat(timestamp).timestamp() if timestamp else 0.0
