"""Builds the project's images where docker or buildah is at hand, with buildah even without an image registry.

Without a registry there is no base image to begin from, so one is made from the distribution's own packages.
`BASE_IMAGE` names another one. `--save FOLDER` writes each image as an archive that containerd imports.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tests.components.errors import ComponentError
from tests.components.progress import run, say

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("operator", "spark")
HOST_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
CERTIFICATES_IN_BUILD = "/run/build-ca.crt"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.components.images", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all by default")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="also write each image as an archive here")
    asked = parser.parse_args()
    try:
        for target in asked.targets or TARGETS:
            image = build(target)
            if asked.save:
                save(image, asked.save)
            print(image)
    except ComponentError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def build(target: str) -> str:
    """Build the target of the Dockerfile and return the image's name."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    image = f"localhost/seamark-{target}:{version}"
    what = f"image {image}"
    base = os.environ.get("BASE_IMAGE")
    common = ["--target", target, "--tag", image]
    if docker_answers():
        chosen = ["--build-arg", f"BASE_IMAGE={base}"] if base else []
        run(f"{what} with docker", ["docker", "build", *common, *chosen, str(ROOT)])
        return image
    if shutil.which("buildah") is None:
        raise ComponentError(
            f"{what}: no docker daemon answers and there is no `buildah`; "
            "start docker, or install buildah (Debian and Ubuntu: sudo apt-get install buildah debootstrap)"
        )
    chosen = ["--build-arg", f"BASE_IMAGE={base or base_image()}"]
    command = ["buildah", "build", "--layers", "--isolation", "chroot", "--network", "host"]
    run(f"{what} with buildah", [*command, *common, *chosen, *certificates(), str(ROOT)])
    return image


def save(image: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"{image.split('/')[-1].replace(':', '-')}.tar"
    archive.unlink(missing_ok=True)
    if docker_answers():
        run(f"saving {archive}", ["docker", "save", "--output", str(archive), image])
    else:
        run(f"saving {archive}", ["buildah", "push", "--quiet", image, f"oci-archive:{archive}:{image}"])
    say(f"{archive}: {archive.stat().st_size / 1e6:.0f} MB")


def docker_answers() -> bool:
    """The client alone builds nothing: the daemon has to be there."""
    if shutil.which("docker") is None:
        return False
    done = subprocess.run(["docker", "info"], capture_output=True, check=False)
    return done.returncode == 0


def certificates() -> list[str]:
    """The host's trusted certificates, lent to the build: its network may be behind a proxy that only the host knows.

    They are mounted, not copied: nothing of them stays in the image.
    """
    if not HOST_CERTIFICATES.exists():
        return []
    lent = ["--volume", f"{HOST_CERTIFICATES}:{CERTIFICATES_IN_BUILD}:ro"]
    for variable in ("PIP_CERT", "SSL_CERT_FILE"):
        lent += ["--build-arg", f"{variable}={CERTIFICATES_IN_BUILD}"]
    return lent


def base_image() -> str:
    """A minimal Debian from the distribution's packages, made once and kept in buildah's storage."""
    release = Path("/etc/os-release").read_text() if Path("/etc/os-release").exists() else ""
    named = re.search(r"^VERSION_CODENAME=(\w+)", release, re.MULTILINE)
    suite = named.group(1) if named and re.search(r"^ID=debian$", release, re.MULTILINE) else "bookworm"
    image = f"localhost/seamark-base:{suite}"
    there = subprocess.run(["buildah", "images", "--quiet", image], capture_output=True, check=False)
    if there.returncode == 0:
        return image
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        raise ComponentError(
            f"image {image}: making it needs root and `debootstrap` (Debian and Ubuntu: apt-get install "
            "debootstrap); or name an image to begin from: BASE_IMAGE=debian:bookworm-slim make images"
        )
    with tempfile.TemporaryDirectory(prefix="seamark-base-") as folder:
        tree = Path(folder) / "root"
        run(f"image {image}: debootstrap", ["debootstrap", "--variant=minbase", suite, str(tree), *mirror()])
        recipe = Path(folder) / "Dockerfile"
        recipe.write_text('FROM scratch\nADD root /\nCMD ["/bin/bash"]\n')
        run(
            f"image {image}: committing",
            ["buildah", "build", "--isolation", "chroot", "--tag", image, "--file", str(recipe), folder],
        )
    return image


def mirror() -> list[str]:
    """The mirror this machine's own packages come from; debootstrap's default where that cannot be told."""
    sources = Path("/etc/apt")
    files = [sources / "sources.list", *sorted(sources.glob("sources.list.d/*"))]
    for text in (path.read_text() for path in files if path.is_file()):
        found = re.search(r"^(?:deb (?:\[[^]]*\] )?|URIs: *)(https?://\S+/debian/?)(?=\s|$)", text, re.MULTILINE)
        if found:
            return [found.group(1)]
    return []


if __name__ == "__main__":
    sys.exit(main())
