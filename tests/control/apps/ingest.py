"""Stands in for the Spark application of this name."""

import sys

from driver import main

sys.exit(main("ingest"))
