"""One Spark session for all tests of this folder: starting it costs more than most of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
# These sessions live for seconds: a JVM that compiles quickly needs half the CPU time of one that compiles well.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    from pyspark.sql import SparkSession

    from seamark_spark.session import LOCAL, START, settle

    builder = SparkSession.builder.master("local[2]").appName("tests")
    for key, value in {**START, **LOCAL}.items():
        builder = builder.config(key, value)
    session = settle(builder.getOrCreate())
    yield session
    session.stop()
