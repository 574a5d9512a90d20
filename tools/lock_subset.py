"""Prints the part of requirements.lock that some extras need, hashes included, so that an image has no more.

    python tools/lock_subset.py s3 operator > subset.txt

The lock says of every package which others asked for it ("# via"): followed backwards, that is the closure.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def named(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found, f"{requirement!r} names no package"
    return canonical(found.group())


def blocks(lock: str) -> dict[str, str]:
    """Each package's lines."""
    found = re.split(r"^(?=[a-zA-Z0-9])", lock, flags=re.MULTILINE)[1:]
    return {named(block): block for block in found}


def parents(block: str) -> set[str]:
    comments = re.findall(r"^ +# +(?:via )?(?!via$)(\S+)", block, re.MULTILINE)
    return {canonical(name) for name in comments}


def subset(extras: list[str]) -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    unknown = sorted(set(extras) - set(optional))
    if unknown:
        raise SystemExit(f"no extra is named {', '.join(unknown)}; known are {', '.join(optional)}")
    packages = blocks((ROOT / "requirements.lock").read_text())
    wanted = {named(each) for each in project["dependencies"]}
    wanted |= {named(each) for extra in extras for each in optional[extra]}
    missing = sorted(wanted - set(packages))
    if missing:
        raise SystemExit(f"requirements.lock has no {', '.join(missing)}: make it anew from pyproject.toml")
    while True:
        more = {name for name, block in packages.items() if parents(block) & wanted} - wanted
        if not more:
            return "".join(block for name, block in packages.items() if name in wanted)
        wanted |= more


if __name__ == "__main__":
    sys.stdout.write(subset(sys.argv[1:]))
