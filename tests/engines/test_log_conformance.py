"""What a log promises, the same for every engine."""

from __future__ import annotations

import pytest

from seamark.engines import Engines, Log, open_engines
from seamark.errors import Conflict, Dropped, Gap, NotFound, Refused


def fill(log: Log, count: int, start: int = 0) -> list[bytes]:
    payloads = [f"entry {seqno}".encode() for seqno in range(start, start + count)]
    for seqno, payload in enumerate(payloads, start):
        log.append(seqno, payload).result()
    return payloads


def read(log: Log, seqno: int) -> bytes:
    with log.read(seqno) as view:
        return bytes(view)


def test_a_log_begins_to_exist_with_its_first_entry(engines: Engines) -> None:
    log = engines.logs.open("a/b")
    assert (log.floor(), log.head(), list(log.scan(0))) == (0, 0, [])
    assert list(engines.logs.names()) == []
    log.append(0, b"x").result()
    assert list(engines.logs.names()) == ["a/b"]


def test_what_was_appended_is_read_back_by_every_handle(engines: Engines, url: str) -> None:
    payloads = fill(engines.logs.open("orders"), 5)
    again = open_engines(url)
    log = again.logs.open("orders")
    assert log.head() == 5
    assert list(log.scan(0)) == list(enumerate(payloads))
    assert list(log.scan(3)) == [(3, payloads[3]), (4, payloads[4])]
    assert [read(log, seqno) for seqno in range(5)] == payloads
    again.close()


def test_a_reader_follows_a_writer(engines: Engines) -> None:
    writer, reader = engines.logs.open("l"), engines.logs.open("l")
    for seqno in range(4):
        writer.append(seqno, b"%d" % seqno).result()
        assert reader.head() == seqno + 1
        assert list(reader.scan(seqno)) == [(seqno, b"%d" % seqno)]
        assert list(reader.scan(seqno + 1)) == []


def test_an_empty_payload_is_a_payload(engines: Engines) -> None:
    log = engines.logs.open("l")
    log.append(0, b"").result()
    log.append(1, b"after").result()
    assert list(engines.logs.open("l").scan(0)) == [(0, b""), (1, b"after")]
    assert read(log, 0) == b""


def test_a_payload_of_zeros_and_one_of_a_mebibyte_survive(engines: Engines) -> None:
    payloads = [bytes(3000), bytes(range(256)) * 4096, b"\0"]
    log = engines.logs.open("l")
    for seqno, payload in enumerate(payloads):
        log.append(seqno, payload).result()
    assert [payload for _, payload in engines.logs.open("l").scan(0)] == payloads


@pytest.mark.parametrize("start", [1, 2**31, 2**32, 2**53, 2**63 - 1])
def test_a_log_can_begin_at_any_number(engines: Engines, start: int) -> None:
    log = engines.logs.open("l", start=start)
    assert (log.floor(), log.head()) == (start, start)
    payloads = fill(log, 2, start)
    again = engines.logs.open("l")
    assert (again.floor(), again.head()) == (start, start + 2)
    assert list(again.scan(start)) == [(start, payloads[0]), (start + 1, payloads[1])]
    assert isinstance(again.append(start - 1, b"x").exception(), Conflict)


def test_a_number_that_is_taken_is_a_conflict_that_names_the_head(engines: Engines) -> None:
    fill(engines.logs.open("l"), 4)
    log = engines.logs.open("l")
    error = log.append(2, b"mine").exception()
    assert isinstance(error, Conflict)
    assert error.head == 4
    assert str(error) == (
        "log l: entry 2 exists already (the first free one is 4); read the entries before 4 and try again there"
    )
    assert read(log, 2) == b"entry 2"


def test_a_writer_that_fell_behind_meets_a_conflict_and_can_go_on(engines: Engines) -> None:
    one, two = engines.logs.open("l"), engines.logs.open("l")
    fill(one, 2)
    fill(two, 3, 2)
    error = one.append(2, b"late").exception()
    assert isinstance(error, Conflict)
    assert error.head == 5
    one.append(5, b"on time").result()
    assert list(two.scan(4)) == [(4, b"entry 4"), (5, b"on time")]


def test_a_number_beyond_the_head_is_a_gap_that_names_both(engines: Engines) -> None:
    log = engines.logs.open("l")
    for first in (1, 7):
        error = log.append(first, b"x").exception()
        assert isinstance(error, Gap)
        assert (error.expected, error.found) == (0, first)
    fill(log, 2)
    error = log.append(3, b"x").exception()
    assert isinstance(error, Gap)
    assert (error.expected, error.found) == (2, 3)
    assert log.head() == 2


def test_an_absent_entry_is_not_found(engines: Engines) -> None:
    log = engines.logs.open("l")
    with pytest.raises(NotFound, match="no entry 0"), log.read(0):
        pass
    fill(log, 2)
    with pytest.raises(NotFound, match="log l: no entry 2; it has 0 to 1"), log.read(2):
        pass


def test_a_view_cannot_be_used_after_its_release(engines: Engines) -> None:
    log = engines.logs.open("l")
    fill(log, 1)
    with log.read(0) as view:
        kept = view
        assert kept == b"entry 0"
    with pytest.raises(ValueError, match="released"):
        kept.tobytes()


def test_a_scan_beyond_the_head_is_a_gap(engines: Engines) -> None:
    log = engines.logs.open("l")
    fill(log, 2)
    with pytest.raises(Gap) as caught:
        list(log.scan(3))
    assert (caught.value.expected, caught.value.found) == (2, 3)


def test_truncation_moves_the_floor_and_keeps_the_head(engines: Engines) -> None:
    log, other = engines.logs.open("l"), engines.logs.open("l")
    payloads = fill(log, 6)
    assert other.head() == 6
    log.truncate(4)
    for handle in (log, other, engines.logs.open("l")):
        assert (handle.floor(), handle.head()) == (4, 6)
        assert list(handle.scan(4)) == [(4, payloads[4]), (5, payloads[5])]
        with pytest.raises(NotFound), handle.read(3):
            pass
        with pytest.raises(Gap) as caught:
            list(handle.scan(2))
        assert (caught.value.expected, caught.value.found) == (2, 4)
    log.truncate(4)
    log.truncate(1)
    assert log.floor() == 4
    with pytest.raises(Gap):
        log.truncate(7)
    error = other.append(1, b"x").exception()
    assert isinstance(error, Conflict)
    assert error.head == 6


def test_a_log_truncated_to_its_head_goes_on_where_it_was(engines: Engines) -> None:
    log = engines.logs.open("l")
    fill(log, 3)
    log.truncate(3)
    for handle in (log, engines.logs.open("l")):
        assert (handle.floor(), handle.head(), list(handle.scan(3))) == (3, 3, [])
    assert list(engines.logs.names()) == ["l"]
    again = engines.logs.open("l")
    again.append(3, b"next").result()
    assert list(log.scan(3)) == [(3, b"next")]


def test_a_dropped_log_is_gone_and_can_begin_anew(engines: Engines) -> None:
    fill(engines.logs.open("l"), 3)
    engines.logs.drop("l")
    engines.logs.drop("l")
    engines.logs.drop("never/was")
    assert list(engines.logs.names()) == []
    log = engines.logs.open("l", start=9)
    assert (log.floor(), log.head()) == (9, 9)
    log.append(9, b"new").result()
    assert list(engines.logs.open("l").scan(9)) == [(9, b"new")]


def test_a_stale_writer_is_refused_after_a_drop(engines: Engines) -> None:
    stale = engines.logs.open("l")
    fill(stale, 2)
    engines.logs.drop("l")
    for seqno in (2, 0):
        error = stale.append(seqno, b"stale").exception()
        assert isinstance(error, Dropped)
    assert list(engines.logs.names()) == []
    assert engines.logs.open("l").head() == 0


def test_a_stale_writer_is_refused_when_the_log_began_anew(engines: Engines) -> None:
    stale = engines.logs.open("l")
    fill(stale, 2)
    engines.logs.drop("l")
    payloads = fill(engines.logs.open("l"), 2)
    assert isinstance(stale.append(2, b"stale").exception(), Dropped)
    with pytest.raises(Dropped, match="log l was deleted"):
        stale.head()
    assert list(engines.logs.open("l").scan(0)) == list(enumerate(payloads))


def test_a_log_inside_the_name_of_another_is_a_log_of_its_own(engines: Engines) -> None:
    names = ["a", "a/b", "a/b/c", "a-b", "a.b"]
    for name in names:
        engines.logs.open(name).append(0, name.encode()).result()
    assert list(engines.logs.names()) == sorted(names)
    assert list(engines.logs.names("a/")) == ["a/b", "a/b/c"]
    assert list(engines.logs.names("a/b")) == ["a/b", "a/b/c"]
    engines.logs.drop("a")
    assert list(engines.logs.names()) == sorted(names[1:])
    assert read(engines.logs.open("a/b"), 0) == b"a/b"


def test_a_closed_handle_refuses_more(engines: Engines) -> None:
    log = engines.logs.open("l")
    fill(log, 1)
    log.close()
    log.close()
    error = log.append(1, b"x").exception()
    assert isinstance(error, Refused)
    assert "open the log again" in str(error)
    assert engines.logs.open("l").head() == 1


@pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", "..", "a/../b", ".", "a b", "a@", "ä", "x" * 241, "a\n"])
def test_a_name_that_some_engine_cannot_hold_is_refused_by_all(engines: Engines, name: str) -> None:
    for call in (engines.logs.open, engines.logs.drop, engines.blobs.get, engines.blobs.delete):
        with pytest.raises(Refused, match="is not allowed: use words of letters"):
            call(name)


@pytest.mark.parametrize("seqno", [-1, 2**64 - 1, 2**64])
def test_a_number_outside_64_bits_is_refused(engines: Engines, seqno: int) -> None:
    error = engines.logs.open("l").append(seqno, b"x").exception()
    assert isinstance(error, Refused | Gap | Conflict)
    with pytest.raises(Refused, match="is not a sequence number"):
        engines.logs.open("l", start=seqno)
