"""Claims about getting components: built once, never seen half done, and a message that names what is missing."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.components import ComponentError, cache, describe, golang, system
from tests.components.progress import run
from tests.components.record import FOLDER, recorded


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEAMARK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def slow_build(into: Path) -> None:
    (into / "half").write_text("half")
    time.sleep(0.5)
    (into / "program").write_text("whole")
    with (into.parent.parent / "builds").open("a") as builds:
        builds.write("built\n")


def get() -> None:
    assert (cache.obtain("thing-1", slow_build) / "program").read_text() == "whole"


def test_two_processes_build_a_component_once(own_cache: Path) -> None:
    processes = [multiprocessing.get_context("fork").Process(target=get) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert (own_cache.parent / "builds").read_text() == "built\n"


def test_a_killed_build_leaves_nothing_that_looks_finished(own_cache: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=get)
    process.start()
    deadline = time.monotonic() + 20
    while not list(own_cache.glob(".thing-1.building.*/half")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join(30)
    assert not (own_cache / "thing-1").exists()

    get()
    assert [path.name for path in own_cache.iterdir() if path.is_dir()] == ["thing-1"]


def test_a_failed_build_is_told_with_its_last_lines_and_kept_nowhere(own_cache: Path) -> None:
    def build(into: Path) -> None:
        run("thing 1: building", ["sh", "-c", f"touch {into}/half; echo 'disk full' >&2; exit 3"])

    with pytest.raises(ComponentError, match=r"(?s)thing 1: building: .* ended with code 3.*disk full"):
        cache.obtain("thing-1", build)
    assert not any(path.is_dir() for path in own_cache.iterdir())


def test_another_pin_or_flag_is_another_folder_in_the_cache() -> None:
    assert golang.KUBERNETES.version == "1.36.3"
    assert replace(golang.MINIO, ldflags="").key != golang.MINIO.key


def test_a_missing_program_is_an_error_that_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(shutil, "which", lambda _program: None)
    with pytest.raises(ComponentError, match="apt-get install default-jre-headless"):
        system.java()
    with pytest.raises(ComponentError, match="apt-get install etcd-server"):
        system.etcd()


def test_an_unknown_component_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ComponentError, match="no component is named 'mini'; known are java, etcd, postgresql, helm"):
        describe("mini")


def test_a_component_that_was_used_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    helm = describe("helm")
    assert recorded(tmp_path) == [helm]
