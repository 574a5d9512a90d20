"""`make demo`: the shop's story on this machine, with local disk and Spark in local mode."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from examples.shop.story import Stage, Story  # noqa: E402

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The story's sessions live for seconds: a JVM that compiles quickly serves them better than one that compiles well."""


class LocalControl:
    """The control plane of `seamark local`, used the way a person uses it: by its command line."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def apply(self, path: Path) -> None:
        self._seamark("apply", "-f", str(path))

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        done = self._run("get", kind.lower(), name, "-o", "json")
        if "NotFound" in done.stderr:
            return None
        if done.returncode:
            raise RuntimeError(f"seamark local get {kind} {name}: {done.stderr}")
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def show(self) -> str:
        return self._seamark("get", "all")

    def _seamark(self, *words: str) -> str:
        done = self._run(*words)
        if done.returncode:
            raise RuntimeError(f"seamark local {' '.join(words)}: {done.stderr}")
        return done.stdout

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "seamark.cli", "local", *words, "--root", str(self.root)]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def prepare(work: Path) -> tuple[Path, str, Path]:
    """A copy of the example in `work`: its manifests, its location's URL, its incoming folder."""
    manifests = work / "shop"
    shutil.copytree(HERE, manifests, ignore=shutil.ignore_patterns("*.py", "__pycache__", ".data"))
    (manifests / ".data" / "incoming").mkdir(parents=True)
    return manifests, f"disk:{manifests / '.data' / 'store'}", manifests / ".data" / "incoming"


def start(*words: str, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        return subprocess.Popen([sys.executable, *words], stdout=out, stderr=out, start_new_session=True)


def stop(process: subprocess.Popen[bytes], patience: float = 30) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main() -> int:
    begin = time.monotonic()

    def tell(text: str) -> None:
        print(f"[{time.monotonic() - begin:5.1f}s] {text}" if text[:1].isdigit() else f"         {text}", flush=True)

    os.environ.setdefault("JDK_JAVA_OPTIONS", QUICK_JAVA)
    work = Path(tempfile.mkdtemp(prefix="seamark-demo-"))
    root = work / "root"
    manifests, location, incoming = prepare(work)
    memory = work / "subscriber.sqlite"
    tell(f"Everything happens in {work}: objects, data, logs of the runs.")
    controller = start("-m", "seamark.cli", "local", "run", "--root", str(root), log=work / "controller.log")
    subscriber = start(
        str(HERE / "subscriber.py"), "--location", location, "--memory", str(memory), log=work / "subscriber.log"
    )
    try:
        Story(Stage(LocalControl(root), manifests, location, incoming, memory, tell)).run()
    except KeyboardInterrupt:
        tell("Interrupted: stopping the controller and its runs.")
        return 130
    except Exception as error:
        print(f"The story failed: {error}\nLogs are in {work}", file=sys.stderr)
        if os.environ.get("CI"):
            print((work / "controller.log").read_text()[-5000:], file=sys.stderr)
        raise
    finally:
        stop(subscriber)
        stop(controller)
    shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
