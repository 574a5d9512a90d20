"""What the tellings of the story have in common."""

from __future__ import annotations

import os

from examples.shop.demo import QUICK_JAVA

os.environ.setdefault("JDK_JAVA_OPTIONS", QUICK_JAVA)
