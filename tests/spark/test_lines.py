"""Claims about reading byte ranges into lines."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import xxhash

from seamark_spark import lines
from seamark_spark.lines import CHANGED, Piece, cut_piece, read_piece, share_out


def piece_of(path: Path, start: int = 0, end: int | None = None) -> Piece:
    data = path.read_bytes()
    end = len(data) if end is None else end
    return Piece(3, str(path), start, end, xxhash.xxh3_128_hexdigest(data[start:end]))


def rows(*pieces: Piece) -> list[dict[str, object]]:
    return [row for piece in pieces for batch in read_piece(piece) for row in batch.to_pylist()]


def test_each_line_comes_with_the_byte_at_which_it_begins(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes('{"a":"é"}\n\n  \t\r\n{"a":2}\r\n'.encode())
    assert [(row["ordinal"], row["offset"], row["line"], row["reason"]) for row in rows(piece_of(file))] == [
        (3, 0, '{"a":"é"}', None),
        (3, 17, '{"a":2}', None),
    ]


def test_only_the_bytes_of_the_range_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"first\nsecond\nthird\n")
    assert [row["line"] for row in rows(piece_of(file, 6, 13))] == ["second"]


def test_an_empty_range_has_no_lines(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"")
    assert rows(piece_of(file)) == []


def test_other_bytes_than_were_bound_are_reported_with_both_digests(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"a":1}\n')
    piece = piece_of(file)
    file.write_bytes(b'{"a":2}\n')
    (reason,) = [str(row["reason"]) for row in rows(piece) if row["reason"]]
    assert reason.startswith(CHANGED)
    assert piece.digest in reason


def test_a_missing_or_shortened_file_is_a_changed_source(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"a":1}\n{"a":2}\n')
    piece = piece_of(file)
    file.write_bytes(b'{"a":1}\n')
    assert next(str(row["reason"]) for row in rows(piece) if row["reason"]).startswith(CHANGED)
    file.unlink()
    assert next(str(row["reason"]) for row in rows(piece) if row["reason"]).startswith(CHANGED)


def test_a_line_that_is_not_utf8_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"a":1}\n{"a":"\xff"}\n{"a":3}\n')
    found = rows(piece_of(file))
    assert [row["offset"] for row in found] == [0, 8, 18]
    assert [row["reason"] for row in found] == [None, "byte 6 of the line is not UTF-8", None]


def test_blocks_of_any_size_give_the_same_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    file = tmp_path / "a.jsonl"
    file.write_text("".join("x" * chance.randrange(40) + "\n" for _ in range(500)))
    whole = rows(piece_of(file))
    for size in (1, 7, 64, 1000):
        monkeypatch.setattr(lines, "CHUNK", size)
        assert rows(piece_of(file)) == whole
        cuts = cut_piece(piece_of(file), size=300)
        assert len(cuts) > 1
        assert [cut.end for cut in cuts[:-1]] == [cut.start for cut in cuts[1:]]
        assert rows(*cuts) == whole


def test_a_changed_piece_is_not_cut(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"one\ntwo\n")
    piece = piece_of(file)
    file.write_bytes(b"one\nTWO\n")
    assert cut_piece(piece, size=1) == [piece]


def test_shares_are_balanced_by_bytes_and_lose_nothing() -> None:
    pieces = [Piece(number, "f", 0, size, "") for number, size in enumerate([100, 60, 50, 10, 10])]
    shares = share_out(pieces, 2)
    assert sorted(piece.ordinal for share in shares for piece in share) == [0, 1, 2, 3, 4]
    assert sorted(sum(piece.end for piece in share) for share in shares) == [110, 120]
    assert share_out([], 4) == [[]]
