"""What every test run has in common: a printed seed, patient property tests, the list of components used."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import random
import shutil
import tempfile
from pathlib import Path

import hypothesis
import pytest

from tests.components.record import FOLDER, Component, recorded

pytest_plugins = ["tests.services.fixtures", "tests.cluster.fixtures"]

PACKAGES = ("pyspark", "pyarrow", "kopf", "kubernetes", "boto3", "duckdb")

# Components answer when they answer: a slow disk is no failed property. The blob makes a failure repeatable.
hypothesis.settings.register_profile("seamark", deadline=None, print_blob=True)
hypothesis.settings.load_profile("seamark")

_folder = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """The process that starts the run makes the folder; its workers inherit the variable."""
    if not hasattr(config, "workerinput"):
        config.stash[_folder] = Path(tempfile.mkdtemp(prefix="seamark-components-"))
        os.environ[FOLDER] = str(config.stash[_folder])


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = config.stash.get(_folder, None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    folder = config.stash.get(_folder, None)
    if folder is None:
        return
    python = Component("python", platform.python_version(), "system", Path())
    packages = [Component(name, importlib.metadata.version(name), "lock", Path()) for name in PACKAGES]
    terminalreporter.section("components used")
    for used in [python, *packages, *recorded(folder)]:
        terminalreporter.write_line(f"{used.name:14} {used.version:40} {used.origin}")


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of everything random in a test: SEAMARK_SEED, else drawn; shown when the test fails."""
    given = os.environ.get("SEAMARK_SEED")
    drawn = int(given) if given else random.SystemRandom().randrange(2**32)
    print(f"seed {drawn}: repeat with SEAMARK_SEED={drawn} pytest '{request.node.nodeid}'")
    return drawn
