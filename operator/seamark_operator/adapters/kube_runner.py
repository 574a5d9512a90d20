"""The port `SparkRunner` over Kubeflow's SparkApplications: create-only, listed in every pass.

They are polled rather than watched: the verdict on a run is its marker in storage, the state is a hint, and
an operator that does not watch them starts and keeps holds and collects where Kubeflow is not installed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from seamark.errors import Refused
from seamark_operator.adapters.kube_client import ApiRefused, Kube, Resource
from seamark_operator.api import constants as k
from seamark_operator.ports import Run, RunSpec
from seamark_operator.specs import spark_application as application

APPLICATIONS = Resource(application.GROUP, application.VERSION, application.PLURAL)

log = logging.getLogger(__name__)


class KubeRunner:
    """Launches, observes and stops runs in the watched namespaces."""

    def __init__(self, kube: Kube, settings: application.SparkSettings, namespaces: Sequence[str] = ()) -> None:
        self._kube = kube
        self._settings = settings
        self._namespaces = tuple(namespaces)
        self.served = True
        """Whether the API server knows SparkApplications, as of the last call."""

    def launch(self, spec: RunSpec) -> None:
        try:
            self._kube.create(APPLICATIONS, application.build(spec, self._settings))
            self._found(True)
        except ApiRefused as refused:
            if refused.code == 409:
                return
            if refused.code == 404 and not refused.served:
                self._found(False)
                raise Refused(
                    f"run {spec.name} was to be launched in {spec.namespace}, but the API server knows "
                    f"no {application.PLURAL}.{application.GROUP}: install Kubeflow's Spark operator; "
                    "the run is launched in the next pass"
                ) from refused
            raise

    def list(self) -> Sequence[Run]:
        try:
            found = self._kube.everything(APPLICATIONS, self._namespaces, k.LABEL_COLLECTION)
        except ApiRefused as refused:
            if refused.code == 404 and not refused.served:
                self._found(False)
                return []
            raise
        self._found(True)
        return [run for run in map(application.read, found) if run is not None]

    def stop(self, namespace: str, name: str) -> None:
        self._kube.delete(APPLICATIONS, namespace, name)

    def _found(self, served: bool) -> None:
        if served != self.served:
            self.served = served
            if served:
                log.info("the API server knows SparkApplications: runs can be launched")
            else:
                log.warning(
                    "the API server does not know %s.%s: no run can be launched until Kubeflow's Spark "
                    "operator is installed; reads, holds and collection go on",
                    application.PLURAL,
                    application.GROUP,
                )
