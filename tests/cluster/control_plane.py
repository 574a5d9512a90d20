"""A real Kubernetes control plane as child processes: what Seamark says to an API server is proved on one.

etcd, kube-apiserver and kube-controller-manager run on loopback ports, as any user: custom resources with CEL
and defaults, RBAC, service accounts with real tokens, garbage collection by owner, Helm. There is no kubelet:
nothing that needs a pod to run can be tried here.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

START_SECONDS = 120
STOP_SECONDS = 30
LOG_TAIL_LINES = 40
DIE_WITH_US = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
"""A test run that is killed outright leaves no control plane behind, where the system can promise that."""


class ControlPlane:
    """One control plane in one folder; `with ControlPlane(folder) as plane` starts it and stops it."""

    def __init__(self, folder: Path, binaries: dict[str, Path] | None = None) -> None:
        self.folder = folder
        self._binaries = binaries or find_binaries()
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._server = ""
        self.kubeconfig = folder / "admin.kubeconfig"
        """For a member of system:masters."""

    def __enter__(self) -> ControlPlane:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        for name in ("certificates", "logs", "home"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        etcd_port, peer_port, api_port, manager_port = free_ports(4)
        etcd, peer = f"http://127.0.0.1:{etcd_port}", f"http://127.0.0.1:{peer_port}"
        certificates = self.folder / "certificates"
        signing_key = certificates / "service-accounts.key"
        _make_key(signing_key)
        admin_token = uuid.uuid4().hex
        tokens = certificates / "tokens.csv"
        tokens.write_text(f"{admin_token},admin,admin,system:masters\n")
        tokens.chmod(0o600)
        self._run(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",  # a test cluster does not outlive the machine
        )
        self._run(
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",  # a loopback address may not stand in an Endpoints object
            f"--secure-port={api_port}",
            f"--cert-dir={certificates}",
            f"--token-auth-file={tokens}",
            f"--service-account-key-file={signing_key}",
            f"--service-account-signing-key-file={signing_key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=Node,RBAC",
        )
        self._server = f"https://127.0.0.1:{api_port}"
        self._write_kubeconfig(self.kubeconfig, admin_token, "default")
        self._wait("the API server is ready", self._api_ready)
        self._run(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={manager_port}",
            f"--cert-dir={certificates / 'manager'}",
            f"--service-account-private-key-file={signing_key}",
            f"--root-ca-file={self._authority}",
            "--use-service-account-credentials",
            "--leader-elect=false",
        )
        self._wait("the default service account is there", self._service_account_ready)

    def stop(self) -> None:
        """Stop in the reverse order of the start: an API server without etcd does not end when asked."""
        while self._running:
            name, process = self._running.pop()
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(STOP_SECONDS)
                raise AssertionError(
                    f"{name} did not end within {STOP_SECONDS} s and was killed\n{self.logs()}"
                ) from None

    def kubectl(self, *args: str, input: str | None = None, kubeconfig: Path | None = None) -> str:
        """What kubectl prints; an exit code other than 0 is a `CommandFailed` with all it said."""
        command = [
            str(self._binaries["kubectl"]),
            f"--kubeconfig={kubeconfig or self.kubeconfig}",
            "--cache-dir=/dev/null",  # kept nowhere: a kind that was installed a moment ago must be known
            *args,
        ]
        return self._call(command, input)

    def helm(self, *args: str) -> str:
        return self._call([str(self._binaries["helm"]), f"--kubeconfig={self.kubeconfig}", *args], None)

    def get(self, *args: str) -> dict[str, Any]:
        """`kubectl get ... -o json`, parsed."""
        found: dict[str, Any] = json.loads(self.kubectl("get", *args, "-o", "json"))
        return found

    def token_kubeconfig(self, namespace: str, service_account: str) -> Path:
        """A kubeconfig whose only credential is a token that the API server issued to the service account."""
        token = self.kubectl("create", "token", service_account, "-n", namespace, "--duration=4h").strip()
        path = self.folder / f"{namespace}.{service_account}.kubeconfig"
        self._write_kubeconfig(path, token, namespace)
        return path

    def logs(self) -> str:
        """The end of each component's log."""
        parts = []
        for path in sorted((self.folder / "logs").glob("*.log")):
            lines = path.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
            parts.append("\n".join([f"--- {path}", *lines]))
        return "\n".join(parts)

    @property
    def _authority(self) -> Path:
        return self.folder / "certificates" / "apiserver.crt"

    def _run(self, name: str, *args: str) -> None:
        with (self.folder / "logs" / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*DIE_WITH_US, str(self._binaries[name]), *args],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C is for pytest, which then stops these in order
            )
        self._running.append((name, process))

    def _call(self, command: list[str], text: str | None) -> str:
        home = self.folder / "home"
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env={**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home), "XDG_CONFIG_HOME": str(home)},
        )
        if done.returncode:
            raise CommandFailed(command, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def _write_kubeconfig(self, path: Path, token: str, namespace: str) -> None:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {"server": self._server, "certificate-authority": str(self._authority)},
                }
            ],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user", "namespace": namespace}}],
            "current-context": "test",
        }
        path.write_text(json.dumps(config, indent=2))
        path.chmod(0o600)

    def _wait(self, what: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            ended = [name for name, process in self._running if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                why = f"{', '.join(ended)} ended" if ended else f"{START_SECONDS} s have passed"
                raise AssertionError(f"waiting until {what}: {why}\n{self.logs()}")
            time.sleep(0.1)

    def _api_ready(self) -> bool:
        if not self._authority.exists():
            return False
        try:
            return self.kubectl("get", "--raw", "/readyz") == "ok"
        except CommandFailed:
            return False

    def _service_account_ready(self) -> bool:
        with contextlib.suppress(CommandFailed):
            self.kubectl("get", "serviceaccount", "default", "-n", "default")
            return True
        return False


class CommandFailed(AssertionError):
    """A command of the test ended with an exit code other than 0; `output` is all it printed."""

    def __init__(self, command: list[str], code: int, output: str) -> None:
        super().__init__(f"{' '.join(command)} ended with {code}:\n{output}")
        self.output = output


def find_binaries() -> dict[str, Path]:
    """The components, built or installed on first use."""
    from tests.components import ensure

    kubernetes = ensure("kubernetes")
    names = ("kube-apiserver", "kube-controller-manager", "kubectl")
    return {**{name: kubernetes / name for name in names}, "etcd": ensure("etcd"), "helm": ensure("helm")}


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on; held together while choosing so that they differ."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _make_key(path: Path) -> None:
    """The key that signs service-account tokens."""
    command = ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(path)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        raise AssertionError("openssl is not there: install the package openssl") from None
