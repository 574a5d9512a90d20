"""Each promise of the ports is tested on each engine."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from seamark.engines import Engines, open_engines
from tests.services.s3 import Minio


@pytest.fixture(params=["mem", "disk", pytest.param("s3", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty location of each engine."""
    if request.param == "mem":
        return f"mem:{uuid.uuid4().hex}"
    if request.param == "disk":
        return f"disk:{tmp_path / 'location'}"
    return request.getfixturevalue("s3_url")


@pytest.fixture(scope="session")
def bucket(minio: Minio) -> str:
    return minio.make_bucket(f"engines-{uuid.uuid4().hex[:12]}")


@pytest.fixture
def s3_url(minio: Minio, bucket: str) -> str:
    """An empty location on the real S3 server, with a short grace."""
    return minio.url(bucket, f"some/{uuid.uuid4().hex[:12]}", grace=1)


@pytest.fixture
def engines(url: str) -> Iterator[Engines]:
    opened = open_engines(url)
    yield opened
    opened.close()
