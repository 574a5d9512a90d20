"""The API server of tests/cluster for the adapters, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kubernetes import client, config

from seamark_operator.adapters.kube_client import Kube
from tests.cluster.control_plane import ControlPlane


@pytest.fixture
def kube(cluster: ControlPlane) -> Iterator[Kube]:
    opened = connect(cluster)
    yield opened
    opened.close()


def connect(cluster: ControlPlane) -> Kube:
    found = client.Configuration()
    config.load_kube_config(str(cluster.kubeconfig), client_configuration=found)
    return Kube(found)
