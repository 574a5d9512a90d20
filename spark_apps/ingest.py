"""Ingest: write what a collection's source has into one of its renditions, once or again and again."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from seamark_spark import arguments, runs

EPILOG = """\
On stdout, one line of JSON per commit:
  {"time": last time written, "lines": records read, "rows": changes written, "parts": files, "upper": …, "seconds": …}

exit codes:
  0  done, told to stop (SIGTERM, SIGINT), or the rendition is no longer wanted
  1  refused or failed: the last line of stderr says why, and so does the run's marker in the location
  2  wrong usage

examples:
  python ingest.py --location disk:/data/lake --collection orders --rendition r1 \\
      --run-id ing-1 --reentrance-id me/orders/r1 --once
  spark-submit ingest.py --location 's3://lake/shop' --collection orders --rendition r1 \\
      --run-id ing-2 --reentrance-id me/orders/r1 --tick-seconds 5
"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = arguments.parser(
        "Bind what the source has to a time, compute the changes with Spark, and commit them shard by shard.", EPILOG
    )
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument(
        "--tick-seconds", type=float, default=5.0, metavar="S", help="look for new data every S seconds (default: 5)"
    )
    pace.add_argument("--once", action="store_true", help="write what is there, leave the marker 'committed', end")
    parsed = parser.parse_args(argv)
    if parsed.tick_seconds <= 0:
        parser.error(f"--tick-seconds must be more than 0, found {parsed.tick_seconds}")
    work = runs.once if parsed.once else runs.continuous(parsed.tick_seconds)
    return runs.run(arguments.order(parsed), "ingest", work)


if __name__ == "__main__":
    sys.exit(main())
