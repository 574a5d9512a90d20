"""Copies the CRDs into the chart, which can only package files of its own folder. Run after editing crds/."""

from __future__ import annotations

import shutil
from pathlib import Path

CHARTS = Path(__file__).resolve().parent
SOURCE = CHARTS.parent / "crds"
COPY = CHARTS / "seamark" / "crd-files"


def main() -> None:
    shutil.rmtree(COPY, ignore_errors=True)
    COPY.mkdir()
    for path in sorted(SOURCE.glob("*.yaml")):
        shutil.copyfile(path, COPY / path.name)


if __name__ == "__main__":
    main()
