"""Starts a real S3 server, MinIO, for as long as a `with` block lasts."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import boto3
from botocore.config import Config

from tests.components import ensure

_READY_SECONDS = 60


@dataclass(frozen=True)
class Minio:
    """A running server and how to reach it."""

    endpoint: str
    access_key: str
    secret_key: str
    pid: int

    @property
    def env(self) -> dict[str, str]:
        """What a process needs in its environment to use the server."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def url(self, bucket: str, prefix: str = "", **query: object) -> str:
        """The location at that bucket and prefix; `query` adds options such as `grace=1`."""
        options = {"endpoint": self.endpoint, "region": "us-east-1", **query}
        return f"s3://{bucket}/{prefix}?{urlencode({name: str(value) for name, value in options.items()})}"

    def make_bucket(self, name: str) -> str:
        self.client().create_bucket(Bucket=name)
        return name

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Every object there is, asked of the server without Seamark."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [row["Key"] for page in pages for row in page.get("Contents", ())]

    def client(self) -> Any:
        return boto3.session.Session(
            aws_access_key_id=self.access_key, aws_secret_access_key=self.secret_key, region_name="us-east-1"
        ).client("s3", endpoint_url=self.endpoint, config=Config(s3={"addressing_style": "path"}))


@contextmanager
def start_minio(directory: Path) -> Iterator[Minio]:
    """MinIO over `directory`, ended with the block."""
    program = ensure("minio")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    user, password = "seamark-test", secrets.token_hex(16)
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "minio.log").open("wb") as log:
        server = subprocess.Popen(
            [program, "server", "--quiet", "--address", f"127.0.0.1:{port}", directory / "data"],
            env={
                **os.environ,
                "MINIO_ROOT_USER": user,
                "MINIO_ROOT_PASSWORD": password,
                "MINIO_BROWSER": "off",
                "HOME": str(directory),
            },
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        endpoint = f"http://127.0.0.1:{port}"
        _wait_until_ready(server, endpoint, directory / "minio.log")
        yield Minio(endpoint, user, password, server.pid)
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait_until_ready(server: subprocess.Popen[bytes], endpoint: str, log: Path) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"MinIO ended with {server.returncode}:\n{log.read_text()}")
        try:
            with urllib.request.urlopen(f"{endpoint}/minio/health/ready", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise RuntimeError(f"MinIO was not ready after {_READY_SECONDS} s:\n{log.read_text()}")
