"""The layers hold because a tool checks them: the contracts pass, and each fails on the import it forbids."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("seamark", "spark_apps/seamark_spark", "operator/seamark_operator")


@dataclass(frozen=True)
class Trespass:
    """One import too many, in a module of its own, and the contract that must notice."""

    folder: str
    line: str
    contract: str


TRESPASSES = [
    Trespass("seamark/engines", "import seamark_operator.ports", "Layers import only downward"),
    Trespass("seamark/engines", "import seamark_spark.session", "Layers import only downward"),
    Trespass("seamark/engines", "import seamark.persist.state", "Inside the library"),
    Trespass("seamark/persist", "import seamark.storage.definition", "Inside the library"),
    Trespass("seamark/storage", "import pyspark.sql", "neither Spark nor Kubernetes"),
    Trespass("seamark/persist", "import kopf", "neither Spark nor Kubernetes"),
    Trespass("seamark/persist", "import boto3", "Only the S3 engine"),
    Trespass("spark_apps/seamark_spark", "import kubernetes", "The pipeline knows no Kubernetes"),
    Trespass("operator/seamark_operator/adapters", "import pyspark", "The control plane starts Spark"),
    Trespass("operator/seamark_operator/core", "import kubernetes", "decisions and builders are pure"),
    Trespass("operator/seamark_operator/specs", "import pyarrow", "decisions and builders are pure"),
    Trespass("operator/seamark_operator/adapters", "import kopf", "Only the kopf shell"),
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    return tmp_path


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str((tree / package).parent) for package in PACKAGES)
    return subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_contract_is_kept(tree: Path) -> None:
    done = lint_imports(tree)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 broken" in done.stdout


def test_every_folder_of_code_is_a_package_that_the_contracts_see(tree: Path) -> None:
    folders = {source.parent for package in PACKAGES for source in (tree / package).rglob("*.py")}
    unseen = [str(folder.relative_to(tree)) for folder in folders if not (folder / "__init__.py").exists()]
    assert sorted(unseen) == []


@pytest.mark.parametrize("trespass", TRESPASSES, ids=lambda t: f"{t.folder}: {t.line}")
def test_one_import_too_many_breaks_its_contract(tree: Path, trespass: Trespass) -> None:
    (tree / trespass.folder / "trespass.py").write_text(f"{trespass.line}\n")
    done = lint_imports(tree)
    assert done.returncode != 0, done.stdout
    broken = [line for line in done.stdout.splitlines() if " BROKEN" in line]
    assert any(trespass.contract in line for line in broken), done.stdout + done.stderr
