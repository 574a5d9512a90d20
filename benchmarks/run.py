"""`python -m benchmarks.run [NAME...] [--json FILE] [--full]`: the short form of all benchmarks, or of those named."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.harness import Report, Settings, append_lines, show

BENCHMARKS = {
    "commits": "durable one-row commits through a shard, beside a raw write and sync, and beside a raw PUT",
    "ingest": "rows a second through the Spark pipeline, beside a plain Spark Parquet write of the same rows",
    "ready": "seconds from apply to Ready with `seamark local`, and where they go",
    "consolidation": "sums of diffs with pyarrow, beside duckdb (docs/rfcs/0003-consolidation-engine.md)",
}


def main(argv: Sequence[str] | None = None) -> int:
    listed = "\n".join(f"  {name:14} {what}" for name, what in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run",
        description=f"Measure, each figure beside a reference of the same run.\n\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which to run (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write one line of JSON per figure, anew")
    parser.add_argument("--full", action="store_true", help="more rounds and more rows; minutes instead of seconds")
    asked = parser.parse_args(argv)
    unknown = [name for name in asked.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark is named {unknown[0]!r}; known are {', '.join(BENCHMARKS)}")
    if asked.json is not None:
        asked.json.write_text("")
    settings = Settings(full=asked.full)
    for name in asked.names or BENCHMARKS:
        print(f"{name}: {BENCHMARKS[name]} …", file=sys.stderr, flush=True)
        started = time.monotonic()
        module: Any = import_module(f"benchmarks.{name}")
        report: Report = module.measure(settings)
        show(f"{name} ({time.monotonic() - started:.0f} s)", report)
        if asked.json is not None:
            append_lines(asked.json, report.figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
