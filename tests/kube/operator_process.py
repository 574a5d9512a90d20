"""The operator as tests run it: a process of its own, with a service account's token."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from tests.cluster.control_plane import DIE_WITH_US, free_ports

COMMAND = (sys.executable, "-m", "seamark_operator.shells.kopf.main")


class OperatorProcess:
    """`with OperatorProcess(folder, kubeconfig, namespace, ...) as operator` runs it and ends it."""

    def __init__(self, folder: Path, kubeconfig: Path, namespace: str, identity: str, *options: str) -> None:
        self.metrics_port, self.health_port = free_ports(2)
        self.log = folder / f"{identity}-{time.monotonic_ns()}.log"
        self._command = [
            *DIE_WITH_US,
            *COMMAND,
            f"--namespace={namespace}",
            f"--identity={identity}",
            "--bind-address=127.0.0.1",
            f"--metrics-port={self.metrics_port}",
            f"--health-port={self.health_port}",
            *options,
        ]
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        self.process: subprocess.Popen[bytes]

    def __enter__(self) -> OperatorProcess:
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT, env=self._environment)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait(10)

    def health(self, path: str = "/healthz") -> tuple[int, str]:
        """Status and text; status 0 while nothing answers."""
        return self._get(self.health_port, path)

    def metrics(self) -> dict[str, float]:
        """Every sample by its name and labels as printed."""
        code, text = self._get(self.metrics_port, "/metrics")
        assert code == 200, text
        lines = [line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
        return {name: float(value) for name, value in lines}

    def wait(self, what: str, seconds: float, true: Callable[[], bool]) -> float:
        """How long it took until `true()`."""
        began = time.monotonic()
        while not true():
            spent = time.monotonic() - began
            assert spent < seconds, f"{what}: not within {seconds} s; {self.health()}\n{self.tail()}"
            time.sleep(0.1)
        return time.monotonic() - began

    def wait_ready(self, words: str = "leading") -> None:
        self.wait(f"ready and {words}", 60, lambda: self._says("/readyz", words))

    def tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-60:])

    def _says(self, path: str, words: str) -> bool:
        assert self.process.poll() is None, f"the operator ended\n{self.tail()}"
        code, text = self.health(path)
        return code == 200 and words in text

    def _get(self, port: int, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, "no answer"


def through(kubeconfig: Path, port: int, written: Path) -> Path:
    """The same credentials by way of another port."""
    found = json.loads(kubeconfig.read_text())
    found["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    written.write_text(json.dumps(found))
    return written


def port_of(kubeconfig: Path) -> int:
    server: str = json.loads(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    return int(server.rsplit(":", 1)[1])
