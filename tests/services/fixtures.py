"""The services as fixtures, for every test folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services.s3 import Minio, start_minio


@pytest.fixture(scope="session")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Minio]:
    """One S3 server for the whole run; its credentials are in the environment meanwhile."""
    with start_minio(tmp_path_factory.mktemp("minio")) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.env.items():
            patch.setenv(name, value)
        yield server
