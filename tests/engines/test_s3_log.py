"""What is particular to logs on S3: how many requests, lost answers, and the writer that slept too long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError
from botocore.httpsession import URLLib3Session

from seamark.engines import Engines, open_engines
from seamark.errors import Conflict, Corrupt, Dropped, NotFound, Refused, StorageUnavailable
from tests.services.s3 import Minio

pytestmark = pytest.mark.slow

GRACE = 1
# The grace, and what the engine adds because a server's dates are in whole seconds.
OLD_ENOUGH = GRACE + 3.2


@pytest.fixture
def opened(s3_url: str) -> Iterator[Callable[[], Engines]]:
    """Opens the same location again and again, each time with a client of its own."""
    all_of_them: list[Engines] = []

    def another() -> Engines:
        all_of_them.append(open_engines(s3_url))
        return all_of_them[-1]

    yield another
    for engines in all_of_them:
        engines.close()


def client(engines: Engines) -> Any:
    return engines.logs.bucket.client  # type: ignore[attr-defined]


def where(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.netloc, parts.path.strip("/")


@contextmanager
def on_send(engines: Engines, handler: Callable[..., object]) -> Iterator[None]:
    events = client(engines).meta.events
    events.register("before-send.s3", handler)
    try:
        yield
    finally:
        events.unregister("before-send.s3", handler)


@contextmanager
def requests(engines: Engines) -> Iterator[list[str]]:
    """What is sent, as `METHOD last-word-of-the-key`, or LIST."""
    sent: list[str] = []

    def note(request: AWSPreparedRequest, **_: object) -> None:
        parts = urlsplit(request.url)
        listing = "list-type" in parse_qs(parts.query)
        sent.append("LIST" if listing else f"{request.method} {parts.path.rsplit('/', 1)[1].lstrip('0') or '0'}")

    with on_send(engines, note):
        yield sent


def test_an_ordinary_append_is_one_put(opened: Callable[[], Engines]) -> None:
    engines = opened()
    log = engines.logs.open("l")
    log.append(0, b"first").result()
    with requests(engines) as sent:
        for seqno in range(1, 11):
            log.append(seqno, b"x").result()
    assert sent == [f"PUT {seqno}" for seqno in range(1, 11)]


def test_an_append_after_a_long_pause_reads_the_floor_before_and_after(opened: Callable[[], Engines]) -> None:
    engines = opened()
    log = engines.logs.open("l")
    log.append(0, b"first").result()
    time.sleep(GRACE + 0.1)
    with requests(engines) as sent:
        log.append(1, b"second").result()
    assert sent == ["GET floor", "PUT 1", "GET floor"]


def test_reading_takes_one_listing_and_one_get_an_entry(opened: Callable[[], Engines]) -> None:
    writer, reader = opened(), opened()
    log = writer.logs.open("l")
    for seqno in range(6):
        log.append(seqno, b"%d" % seqno).result()
    follower = reader.logs.open("l")
    assert follower.head() == 6
    with requests(reader) as sent:
        assert follower.head() == 6
        assert sent == ["LIST"]
        sent.clear()
        assert len(list(follower.scan(3))) == 3
        assert sent == ["LIST", "GET 3", "GET 4", "GET 5"]
        sent.clear()
        with follower.read(2):
            assert sent == ["GET 2"]
        sent.clear()
        assert isinstance(follower.append(5, b"late").exception(), Conflict)
        assert sent == ["LIST"]


def test_a_blob_is_one_request_each_way(opened: Callable[[], Engines]) -> None:
    engines = opened()
    with requests(engines) as sent:
        engines.blobs.put("k", b"x" * 10)
        engines.blobs.get("k")
        engines.blobs.get("k", 2, 5)
        list(engines.blobs.list())
        engines.blobs.put("k", b"x" * 10)
    assert sent == ["PUT k", "GET k", "GET k", "LIST", "PUT k", "GET k"]


class Stall:
    """Holds back the PUT of one entry, after it was made and signed, until it is told to go."""

    def __init__(self, seqno: int) -> None:
        self._word = f"{seqno:020d}"
        self.reached = threading.Event()
        self.go = threading.Event()

    def __call__(self, request: AWSPreparedRequest, **_: object) -> None:
        if request.method == "PUT" and self._word in request.url:
            self.reached.set()
            assert self.go.wait(60)


@contextmanager
def stalled_append(engines: Engines, handle: Any, seqno: int, payload: bytes) -> Iterator[list[Future[None]]]:
    """Another thread stalls right before its PUT of `seqno` while the block runs; then it resumes and ends."""
    stall, answer = Stall(seqno), []
    with on_send(engines, stall):
        thread = threading.Thread(target=lambda: answer.append(handle.append(seqno, payload)))
        thread.start()
        assert stall.reached.wait(30)
        try:
            yield answer
        finally:
            stall.go.set()
            thread.join()


def test_a_writer_that_stalled_cannot_write_a_truncated_number_anew(
    opened: Callable[[], Engines], minio: Minio, s3_url: str
) -> None:
    slow, others = opened(), opened()
    mine, theirs = slow.logs.open("l"), others.logs.open("l")
    for seqno in range(3):
        mine.append(seqno, b"%d" % seqno).result()
    bucket, prefix = where(s3_url)
    with stalled_append(slow, mine, 3, b"stalled") as answer:
        for seqno in range(3, 30):
            theirs.append(seqno, b"theirs").result()
        time.sleep(OLD_ENOUGH)
        theirs.truncate(25)
        assert f"{prefix}/log/l/{3:020d}" not in minio.keys(bucket, prefix)
    error = answer[0].exception()
    assert isinstance(error, Conflict)
    assert error.head == 30
    assert f"{prefix}/log/l/{3:020d}" not in minio.keys(bucket, prefix)
    fresh = opened().logs.open("l")
    assert (fresh.floor(), fresh.head()) == (25, 30)
    mine.append(30, b"goes on").result()
    assert fresh.head() == 31


def test_a_writer_that_stalled_shortly_meets_the_entry_itself(opened: Callable[[], Engines]) -> None:
    slow, others = opened(), opened()
    mine, theirs = slow.logs.open("l"), others.logs.open("l")
    mine.append(0, b"0").result()
    with stalled_append(slow, mine, 1, b"stalled") as answer:
        for seqno in range(1, 5):
            theirs.append(seqno, b"theirs").result()
        theirs.truncate(4)
    error = answer[0].exception()
    assert isinstance(error, Conflict)
    assert error.head == 5


@pytest.mark.parametrize("anew", [False, True])
def test_a_writer_that_stalled_is_refused_after_a_drop_and_leaves_nothing(
    opened: Callable[[], Engines], minio: Minio, s3_url: str, anew: bool
) -> None:
    slow, others = opened(), opened()
    mine = slow.logs.open("l")
    for seqno in range(3):
        mine.append(seqno, b"%d" % seqno).result()
    with stalled_append(slow, mine, 3, b"stalled") as answer:
        others.logs.drop("l")
        assert minio.keys(*where(s3_url)) == []
        if anew:
            other = others.logs.open("l")
            for seqno in range(3):
                other.append(seqno, b"new").result()
    assert isinstance(answer[0].exception(), Dropped)
    if anew:
        assert [payload for _, payload in opened().logs.open("l").scan(0)] == [b"new"] * 3
    else:
        assert minio.keys(*where(s3_url)) == []


def test_dropping_stops_a_busy_writer_and_empties_the_bucket(
    opened: Callable[[], Engines], minio: Minio, s3_url: str
) -> None:
    busy = opened().logs.open("l")
    errors: list[BaseException | None] = []

    def write() -> None:
        seqno = 0
        while (error := busy.append(seqno, b"%d" % seqno).exception()) is None:
            seqno += 1
        errors.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    time.sleep(0.3)
    opened().logs.drop("l")
    thread.join()
    assert isinstance(errors[0], Dropped)
    assert minio.keys(*where(s3_url)) == []


def test_dropping_an_old_log_does_not_wait(opened: Callable[[], Engines], minio: Minio, s3_url: str) -> None:
    engines = opened()
    engines.logs.open("l").append(0, b"x").result()
    time.sleep(OLD_ENOUGH)
    started = time.monotonic()
    engines.logs.drop("l")
    assert time.monotonic() - started < GRACE
    assert minio.keys(*where(s3_url)) == []


def test_young_entries_outlive_their_truncation(opened: Callable[[], Engines], minio: Minio, s3_url: str) -> None:
    log = opened().logs.open("l")
    for seqno in range(4):
        log.append(seqno, b"x").result()
    log.truncate(3)
    assert len(minio.keys(*where(s3_url))) == 5
    time.sleep(OLD_ENOUGH)
    log.truncate(3)
    assert len(minio.keys(*where(s3_url))) == 2
    assert log.floor() == 3


class Once:
    """Does something to the first PUT of an entry, and leaves the rest alone."""

    def __init__(self, action: Callable[[AWSPreparedRequest], object]) -> None:
        self._action = action
        self.done = False

    def __call__(self, request: AWSPreparedRequest, **_: object) -> object:
        if self.done or request.method != "PUT":
            return None
        self.done = True
        return self._action(request)


def lose_answer(request: AWSPreparedRequest) -> None:
    URLLib3Session().send(request)
    raise ReadTimeoutError(endpoint_url=request.url)


def lose_request(request: AWSPreparedRequest) -> None:
    raise ConnectTimeoutError(endpoint_url=request.url)


def answer_with(status: int, code: str) -> Callable[[AWSPreparedRequest], AWSResponse]:
    class Raw:
        def stream(self, **_: object) -> Iterator[bytes]:
            yield f"<Error><Code>{code}</Code></Error>".encode()

    return lambda request: AWSResponse(request.url, status, {}, Raw())


@pytest.mark.parametrize(
    "fault",
    [lose_answer, lose_request, answer_with(409, "ConditionalRequestConflict"), answer_with(503, "SlowDown")],
    ids=["answer lost", "request lost", "409", "503"],
)
def test_an_append_whose_outcome_is_unknown_is_settled_by_reading(
    opened: Callable[[], Engines], fault: Callable[[AWSPreparedRequest], object]
) -> None:
    engines = opened()
    log = engines.logs.open("l")
    log.append(0, b"0").result()
    once = Once(fault)
    with on_send(engines, once):
        log.append(1, b"mine").result()
    assert once.done
    assert list(opened().logs.open("l").scan(0)) == [(0, b"0"), (1, b"mine")]
    log.append(2, b"next").result()


def test_an_append_that_lost_its_request_to_another_writer_is_a_conflict(opened: Callable[[], Engines]) -> None:
    engines, others = opened(), opened()
    log = engines.logs.open("l")
    log.append(0, b"0").result()

    def overtake(request: AWSPreparedRequest) -> None:
        others.logs.open("l").append(1, b"theirs").result()
        lose_request(request)

    with on_send(engines, Once(overtake)):
        error = log.append(1, b"mine").exception()
    assert isinstance(error, Conflict)
    assert error.head == 2


def test_a_damaged_entry_is_detected(opened: Callable[[], Engines], minio: Minio, s3_url: str) -> None:
    log = opened().logs.open("l")
    log.append(0, b"payload").result()
    bucket, prefix = where(s3_url)
    key = f"{prefix}/log/l/{0:020d}"
    raw = minio.client()
    body = raw.get_object(Bucket=bucket, Key=key)["Body"].read()
    for offset in range(len(body)):
        flipped = body[:offset] + bytes([body[offset] ^ 0xFF]) + body[offset + 1 :]
        raw.put_object(Bucket=bucket, Key=key, Body=flipped)
        with pytest.raises(Corrupt, match=f"log/l/{0:020d}: .* restore it"), log.read(0):
            pass


def test_entries_without_a_floor_are_not_taken_for_a_log(
    opened: Callable[[], Engines], minio: Minio, s3_url: str
) -> None:
    bucket, prefix = where(s3_url)
    minio.client().put_object(Bucket=bucket, Key=f"{prefix}/log/l/{7:020d}", Body=b"left behind")
    engines = opened()
    with pytest.raises(Corrupt, match="drop the log to remove what an interrupted writer left"):
        engines.logs.open("l").head()
    engines.logs.drop("l")
    assert minio.keys(bucket, prefix) == []
    engines.logs.open("l").append(0, b"x").result()


def test_a_bucket_that_is_not_there_is_named(minio: Minio) -> None:
    engines = open_engines(minio.url("no-such-bucket", "p"))
    message = "there is no bucket 'no-such-bucket'; create it, or correct the bucket in the location"
    with pytest.raises(NotFound, match=message):
        engines.blobs.put("k", b"x")
    with pytest.raises(NotFound, match=message):
        engines.logs.open("l").head()
    with pytest.raises(NotFound, match=message):
        list(engines.blobs.list())


def test_wrong_credentials_are_refused(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(Refused, match=r"access denied .* set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
        open_engines(s3_url).blobs.put("k", b"x")


def test_missing_credentials_are_refused(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    with pytest.raises(Refused, match="no credentials; set AWS_ACCESS_KEY_ID"):
        open_engines(s3_url).blobs.put("k", b"x")


def test_an_endpoint_that_does_not_answer_is_unavailable(minio: Minio) -> None:
    engines = open_engines("s3://bucket/p?endpoint=http://127.0.0.1:9")
    with pytest.raises(StorageUnavailable, match="see that the endpoint is right and up"):
        engines.blobs.get("k")
    error = engines.logs.open("l").append(0, b"x").exception()
    assert isinstance(error, StorageUnavailable)
