"""The S3 server that the tests use, and the cheapest durable write that it offers: the reference for commits there."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from tests.components import cache
from tests.components.golang import MINIO
from tests.services.s3 import Minio, start_minio

BUCKET = "bench"


@contextmanager
def s3_server(folder: Path) -> Iterator[Minio | None]:
    """The server with an empty bucket, its credentials in the environment; None when it was never built."""
    if not (cache.root() / MINIO.key).is_dir():
        yield None
        return
    with start_minio(folder) as server:
        server.make_bucket(BUCKET)
        before = dict(os.environ)
        os.environ.update(server.env)
        try:
            yield server
        finally:
            os.environ.clear()
            os.environ.update(before)


def raw_puts(server: Minio, size: int) -> Iterator[None]:
    """One PUT of a new key a time, only if it is absent, with the checksum settings that the engine has."""
    client: Any = boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        config=Config(
            s3={"addressing_style": "path"},
            retries={"total_max_attempts": 1, "mode": "standard"},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )
    data = os.urandom(size)
    while True:
        client.put_object(Bucket=BUCKET, Key=f"raw/{uuid.uuid4().hex}", Body=data, IfNoneMatch="*")
        yield
