"""Makes the shop's raw files: seeded, so that every telling of the story has the same orders.

By hand: `python orders.py FOLDER --files 2` writes two more files into the folder.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path

CUSTOMERS = ("Ada", "Grace", "Edsger", "Barbara", "Tony", "Frances", "Łukasz", "宮本")
STATUSES = ("new", "paid", "shipped")
BY_HAND = 241
"""A seed with which already the third file of three lines has a new order, a changed and a cancelled one."""


class Till:
    """Writes files of orders into a folder: new orders, changes of earlier ones, and now and then a cancellation."""

    def __init__(self, folder: Path, seed: int = 7, orders_per_file: int = 1000) -> None:
        self.folder = folder
        self._random = random.Random(seed)
        self._size = orders_per_file
        self._files = 0
        self._orders = 0
        folder.mkdir(parents=True, exist_ok=True)

    def deliver(self) -> Path:
        """One more file, complete when it appears: it is written under a hidden name first."""
        text = self._lines(self._size)
        self._files += 1
        path = self._path()
        hidden = self.folder / f".{path.name}"
        hidden.write_text(text, encoding="utf-8")
        hidden.rename(path)
        return path

    def catch_up(self) -> None:
        """Go on after the files that an earlier till with the same seed has left in the folder."""
        for _ in self.folder.glob("orders-*.jsonl"):
            self._files += 1
            path = self._path()
            found = path.read_text(encoding="utf-8") if path.exists() else ""
            if found != self._lines(found.count("\n")) or not found:
                raise ValueError(f"{path} is not what a till with this seed writes; begin with an empty folder")

    def _path(self) -> Path:
        return self.folder / f"orders-{self._files:04d}.jsonl"

    def _lines(self, count: int) -> str:
        return "".join(json.dumps(self._order(), ensure_ascii=False) + "\n" for _ in range(count))

    def _order(self) -> dict[str, object]:
        again = self._orders > 0 and self._random.random() < 0.3
        if again:
            number = self._random.randrange(self._orders)
        else:
            number = self._orders
            self._orders += 1
        cancelled = again and self._random.random() < 0.2
        return {
            "order_id": f"o-{number:06d}",
            "customer": self._random.choice(CUSTOMERS),
            "amount": self._random.randrange(100, 100_000) / 100,
            "status": "cancelled" if cancelled else self._random.choice(STATUSES),
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the files go; numbering goes on after those that are there")
    parser.add_argument("--files", type=int, default=1, help="how many (default: %(default)s)")
    parser.add_argument("--lines", type=int, default=3, help="lines of each (default: %(default)s)")
    parser.add_argument(
        "--seed", type=int, default=BY_HAND, help="the same seed, the same orders (default: %(default)s)"
    )
    options = parser.parse_args()
    till = Till(options.folder, options.seed, options.lines)
    try:
        till.catch_up()
    except ValueError as error:
        print(f"orders.py: {error}", file=sys.stderr)
        return 1
    for _ in range(options.files):
        print(till.deliver())
    return 0


if __name__ == "__main__":
    sys.exit(main())
