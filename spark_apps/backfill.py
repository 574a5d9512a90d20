"""Backfill: write a new rendition from the beginning of the source up to what is bound when it starts."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from seamark_spark import arguments, runs

EPILOG = """\
A new rendition of the same source replays the same bindings, so that it has the same times as the one it replaces.
It commits as it goes: a backfill that was killed goes on where it was when it is started again.

On stdout, one line of JSON per commit:
  {"time": last time written, "lines": records read, "rows": changes written, "parts": files, "upper": …, "seconds": …}

exit codes:
  0  done (the marker says 'committed'), told to stop (no marker), or the rendition is no longer wanted ('retired')
  1  refused or failed: the last line of stderr says why, and so does the run's marker in the location
  2  wrong usage

example:
  python backfill.py --location disk:/data/lake --collection orders --rendition r2 \\
      --run-id bkf-1 --reentrance-id me/orders/r2
"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = arguments.parser("Write a rendition from the beginning, up to what is bound now.", EPILOG)
    return runs.run(arguments.order(parser.parse_args(argv)), "backfill", runs.once)


if __name__ == "__main__":
    sys.exit(main())
