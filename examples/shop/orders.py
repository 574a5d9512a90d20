"""Makes the shop's raw files: seeded, so that every telling of the story has the same orders."""

from __future__ import annotations

import json
import random
from pathlib import Path

CUSTOMERS = ("Ada", "Grace", "Edsger", "Barbara", "Tony", "Frances", "Łukasz", "宮本")
STATUSES = ("new", "paid", "shipped")


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
        lines = [json.dumps(self._order(), ensure_ascii=False) for _ in range(self._size)]
        self._files += 1
        path = self.folder / f"orders-{self._files:04d}.jsonl"
        hidden = self.folder / f".{path.name}"
        hidden.write_text("\n".join(lines) + "\n", encoding="utf-8")
        hidden.rename(path)
        return path

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
