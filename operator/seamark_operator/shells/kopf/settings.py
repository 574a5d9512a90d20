"""What the operator can be told on its command line or by its environment, checked before anything starts."""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seamark_operator.specs.spark_application import PodSize, SparkSettings


@dataclass(frozen=True)
class Settings:
    """One operator process."""

    namespaces: tuple[str, ...]
    """Watched namespaces; none means all of the cluster."""
    identity: str
    """Who holds the operator's Lease: the pod's name, so that a restarted container goes on at once."""
    bind_address: str
    metrics_port: int
    health_port: int
    resync_seconds: float
    """A full pass at least this often: storage is the truth for frontiers and sends no events."""
    watch_dead_seconds: float
    """A watch that hides a change for so long, which the API server told of, is dead."""
    pass_dead_seconds: float
    """So long without a completed pass means that the worker is dead."""
    exit_seconds: float
    """Dead for so long, the process ends itself."""
    leader_elect: bool
    lease_name: str
    lease_namespace: str
    lease_seconds: float
    log_format: str
    log_level: str
    spark: SparkSettings


def parse(arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ) -> Settings:
    """Options win over SEAMARK_* variables, which win over the defaults."""
    found = _parser(environment).parse_args(arguments)
    namespaces = tuple(dict.fromkeys(found.namespace or _words(environment.get("SEAMARK_NAMESPACES", ""))))
    own = environment.get("POD_NAMESPACE") or "default"
    return Settings(
        namespaces=namespaces,
        identity=found.identity,
        bind_address=found.bind_address,
        metrics_port=found.metrics_port,
        health_port=found.health_port,
        resync_seconds=found.resync_seconds,
        watch_dead_seconds=found.watch_dead_seconds,
        pass_dead_seconds=found.pass_dead_seconds,
        exit_seconds=found.exit_seconds,
        leader_elect=found.leader_elect,
        lease_name=found.lease_name,
        lease_namespace=found.lease_namespace or (namespaces[0] if namespaces else own),
        lease_seconds=found.lease_seconds,
        log_format=found.log_format,
        log_level=found.log_level,
        spark=SparkSettings(
            image=found.spark_image,
            service_account=found.spark_service_account,
            image_pull_policy=found.spark_image_pull_policy,
            image_pull_secrets=tuple(found.spark_image_pull_secret or ()),
            driver=PodSize(memory=found.spark_driver_memory, cores=found.spark_driver_cores),
            executor=PodSize(memory=found.spark_executor_memory, cores=found.spark_executor_cores),
            executors=found.spark_executors,
            spark_conf=dict(found.spark_conf or ()),
        ),
    )


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="seamark-operator",
        description="Seamark's control plane on Kubernetes. Credentials: KUBECONFIG, else the pod's own.",
        epilog="Every option OPTION-NAME can be given as the variable SEAMARK_OPTION_NAME.",
    )

    def option(name: str, default: object, help: str, **more: Any) -> None:
        value = environment.get("SEAMARK_" + name.upper().replace("-", "_"), default)
        parser.add_argument(f"--{name}", default=value, help=f"{help} (default: {default})", **more)

    parser.add_argument(
        "--namespace",
        action="append",
        help="watch this namespace; may be given several times; none: all of them (SEAMARK_NAMESPACES: a,b)",
    )
    option(
        "identity",
        environment.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}",
        "holder of the operator's Lease",
    )
    option("bind-address", "0.0.0.0", "address of metrics and probes")
    option("metrics-port", "8080", "serves /metrics", type=int)
    option("health-port", "8081", "serves /healthz and /readyz", type=int)
    option("resync-seconds", "5", "a full pass at least this often", type=float)
    option("watch-dead-seconds", "60", "a change the watch hides for so long fails /healthz", type=float)
    option("pass-dead-seconds", "300", "so long without a completed pass fails /healthz", type=float)
    option("exit-seconds", "120", "the process ends itself when /healthz failed for so long", type=float)
    parser.add_argument(
        "--leader-elect",
        action=argparse.BooleanOptionalAction,
        default=environment.get("SEAMARK_LEADER_ELECT", "true").lower() in ("1", "true", "yes"),
        help="act only while holding the operator's Lease (default: on)",
    )
    option("lease-name", "seamark-operator", "name of the operator's Lease")
    option("lease-namespace", "", "where it is; none: the first watched namespace, else the pod's own")
    option("lease-seconds", "15", "a holder that died is replaced after so long", type=float)
    option("log-format", "text", "text or json", choices=("text", "json"))
    option("log-level", "INFO", "least level that is logged", type=str.upper)
    option("spark-image", "seamark-spark:latest", "image of driver and executors")
    option("spark-image-pull-policy", "IfNotPresent", "when that image is pulled")
    parser.add_argument("--spark-image-pull-secret", action="append", help="Secret to pull with; repeatable")
    option("spark-service-account", "seamark-spark", "service account of the drivers")
    option("spark-driver-memory", "1g", "memory of a driver")
    option("spark-driver-cores", "1", "cores of a driver", type=int)
    option("spark-executors", "2", "executors of a run", type=int)
    option("spark-executor-memory", "2g", "memory of an executor")
    option("spark-executor-cores", "1", "cores of an executor", type=int)
    parser.add_argument(
        "--spark-conf", action="append", type=_pair, metavar="KEY=VALUE", help="Spark setting; repeatable"
    )
    return parser


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise argparse.ArgumentTypeError(f"{text!r} was given; a Spark setting is written spark.KEY=VALUE")
    return key, value
