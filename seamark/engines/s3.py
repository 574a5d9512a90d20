"""The engine on S3 and what speaks its language: the one place that knows boto3.

Of conditional requests only PUT is relied on: servers are known to ignore conditions on DELETE and COPY. The client
never retries by itself, because a repeated conditional PUT would lose against its own first attempt; an answer that
got lost is settled here by reading the object and comparing bytes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

import boto3
import botocore.session
from botocore import exceptions as failures
from botocore.config import Config
from botocore.loaders import create_loader

from seamark.engines.names import check_name
from seamark.engines.registry import Address
from seamark.engines.s3_blob import S3Blob
from seamark.engines.s3_log import S3Logs
from seamark.errors import InvalidLocation, NotFound, Refused, StorageUnavailable

# Parsed descriptions of the service, which are most of what a new client costs, shared by all clients.
_LOADER = create_loader()
_GRACE = 10.0
_ATTEMPTS = 6
_FIRST_PAUSE = 0.05
_DELETE_BATCH = 1000
_DENIED = {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "AllAccessDisabled"}
_ABSENT = {"NoSuchKey", "404", "NotFound"}
_UNANSWERED = (
    failures.HTTPClientError,
    failures.ConnectionError,
    failures.ResponseStreamingError,
    failures.IncompleteReadError,
)


def connect(address: Address) -> tuple[S3Logs, S3Blob]:
    """The engines under a prefix of a bucket, with the credentials of the environment."""
    if not address.host:
        raise InvalidLocation(f"location {address.url}: the s3 engine needs a bucket: write s3://BUCKET/PREFIX")
    grace = address.number("grace", _GRACE, least=1)
    prefix = address.path.strip("/")
    if prefix:
        check_name("the prefix of an s3 location", prefix)
    endpoint = address.options.get("endpoint")
    try:
        session = botocore.session.get_session()
        session.register_component("data_loader", _LOADER)
        client = boto3.session.Session(botocore_session=session).client(
            "s3",
            endpoint_url=endpoint,
            region_name=address.options.get("region") or (None if endpoint is None else "us-east-1"),
            config=Config(
                s3={"addressing_style": "path" if endpoint else "auto"},
                retries={"total_max_attempts": 1, "mode": "standard"},
                connect_timeout=5,
                read_timeout=20,
                max_pool_connections=32,
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )
    except (failures.BotoCoreError, ValueError) as error:
        raise InvalidLocation(f"location {address.url}: {error}; correct the endpoint or the region") from error
    bucket = Bucket(client, address.host, f"{prefix}/" if prefix else "", endpoint or "its default endpoint")
    return S3Logs(bucket, grace), S3Blob(bucket)


@dataclass(frozen=True, slots=True)
class Row:
    """One object of a listing."""

    key: str
    size: int
    modified: datetime


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a listing, and what the server's clock said when it was made."""

    rows: list[Row]
    folders: list[str]
    server_time: datetime


class Bucket:
    """The objects under a location's prefix; every key here is relative to it."""

    def __init__(self, client: Any, name: str, prefix: str, endpoint: str) -> None:
        self.client = client
        self._name = name
        self._prefix = prefix
        self._endpoint = endpoint

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes | None:
        """The bytes, or None when there is no such object."""
        found = self.get_tagged(key, start, end)
        return None if found is None else found[0]

    def get_tagged(self, key: str, start: int = 0, end: int | None = None) -> tuple[bytes, str] | None:
        """The bytes and the tag that `replace` asks for."""
        wanted = {} if start == 0 and end is None else {"Range": f"bytes={start}-{'' if end is None else end - 1}"}

        def attempt() -> tuple[bytes, str]:
            answer = self.client.get_object(Bucket=self._name, Key=self._prefix + key, **wanted)
            return answer["Body"].read(), answer["ETag"]

        try:
            found: tuple[bytes, str] = self._retrying(f"read of {key}", attempt)
        except failures.ClientError as error:
            if _code(error) in _ABSENT:
                return None
            if _code(error) == "InvalidRange":
                return b"", ""
            raise self._explained(error, f"read of {key}") from error
        return found

    def size(self, key: str) -> int | None:
        """The size, or None when there is no such object."""
        try:
            answer = self._retrying(
                f"look at {key}",
                lambda: self.client.head_object(Bucket=self._name, Key=self._prefix + key),
            )
        except failures.ClientError as error:
            if _code(error) in _ABSENT:
                return None
            raise self._explained(error, f"look at {key}") from error
        return int(answer["ContentLength"])

    def put_if_absent(self, key: str, body: bytes | memoryview) -> bool:
        """Whether `key` holds `body` afterwards; False when it holds other bytes."""
        return self._put(key, bytes(body), {"IfNoneMatch": "*"})

    def replace(self, key: str, body: bytes, tag: str) -> bool:
        """Puts `body` in place of the version with that tag; False when there is another one.

        Tags are hashes of content: bodies must never repeat, else an older version passes for the newer.
        """
        return self._put(key, body, {"IfMatch": tag})

    def _put(self, key: str, body: bytes, condition: dict[str, str]) -> bool:
        what = f"write of {key}"
        last: Exception | None = None
        for attempt in range(_ATTEMPTS):
            _pause(attempt)
            try:
                self.client.put_object(Bucket=self._name, Key=self._prefix + key, Body=body, **condition)
                return True
            except failures.ClientError as error:
                last = error
                status = _status(error)
                if status == 409:
                    continue
                if "IfMatch" in condition and _code(error) in _ABSENT:
                    return False
                if status != 412 and not _transient(error):
                    raise self._explained(error, what) from error
            except _UNANSWERED as error:
                last = error
            except failures.BotoCoreError as error:
                raise self._explained(error, what) from error
            # Lost, or unknown: whose bytes are there decides it.
            found = self.get_tagged(key)
            if found is not None:
                if found[0] == body:
                    return True
                if condition.get("IfMatch") != found[1]:
                    return False
            elif "IfMatch" in condition:
                return False
        raise self._explained(last, what) from last

    def delete(self, keys: Sequence[str]) -> None:
        """Deletes the objects, present or not."""
        for first in range(0, len(keys), _DELETE_BATCH):
            batch = keys[first : first + _DELETE_BATCH]
            what = f"deletion of {batch[0]}" + (f" and {len(batch) - 1} more" if len(batch) > 1 else "")
            names = [{"Key": self._prefix + key} for key in batch]
            request = partial(self.client.delete_objects, Bucket=self._name, Delete={"Objects": names, "Quiet": True})
            try:
                answer = self._retrying(what, request)
            except failures.ClientError as error:
                raise self._explained(error, what) from error
            for refused in answer.get("Errors", ()):
                raise StorageUnavailable(
                    f"s3://{self._name}: {refused.get('Key')} was not deleted: {refused.get('Code')} "
                    f"{refused.get('Message')}; see to the bucket's rights and try again"
                )

    def pages(self, prefix: str, *, after: str = "", flat: bool = False, limit: int = 1000) -> Iterator[Page]:
        """The objects that begin with `prefix`, in order; `flat` leaves out what is in folders below it."""
        asked: dict[str, Any] = {"Prefix": self._prefix + prefix, "MaxKeys": limit}
        if after:
            asked["StartAfter"] = self._prefix + after
        if flat:
            asked["Delimiter"] = "/"
        cut = len(self._prefix)
        while True:
            try:
                answer = self._retrying(
                    f"listing of {prefix}",
                    lambda: self.client.list_objects_v2(Bucket=self._name, **asked),
                )
            except failures.ClientError as error:
                raise self._explained(error, f"listing of {prefix}") from error
            yield Page(
                [Row(row["Key"][cut:], row["Size"], row["LastModified"]) for row in answer.get("Contents", ())],
                [folder["Prefix"][cut:] for folder in answer.get("CommonPrefixes", ())],
                _server_time(answer),
            )
            if not answer.get("IsTruncated"):
                return
            asked["ContinuationToken"] = answer["NextContinuationToken"]

    def _retrying(self, what: str, attempt: Callable[[], Any]) -> Any:
        """An idempotent request, tried again while the server does not answer or is too busy."""
        last: Exception | None = None
        for number in range(_ATTEMPTS):
            _pause(number)
            try:
                return attempt()
            except failures.ClientError as error:
                if not _transient(error):
                    raise
                last = error
            except _UNANSWERED as error:
                last = error
            except failures.BotoCoreError as error:
                raise self._explained(error, what) from error
        raise self._explained(last, what) from last

    def _explained(self, error: Exception | None, what: str) -> Exception:
        where = f"s3://{self._name} at {self._endpoint}: {what}"
        if isinstance(error, failures.ClientError):
            code = _code(error)
            if code == "NoSuchBucket":
                return NotFound(
                    f"{where}: there is no bucket {self._name!r}; create it, or correct the bucket in the location"
                )
            if code in _DENIED or _status(error) == 403:
                return Refused(
                    f"{where}: access denied ({code}); set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to "
                    "credentials that may read, write, list and delete there"
                )
            if not _transient(error) and _status(error) not in (409, 412, 404):
                return Refused(f"{where}: {error}; correct the location or the bucket's settings")
        if isinstance(error, failures.NoCredentialsError | failures.PartialCredentialsError):
            return Refused(
                f"{where}: no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, "
                "or use the cloud's own credential chain"
            )
        return StorageUnavailable(
            f"{where}: no answer after {_ATTEMPTS} tries ({error}); see that the endpoint is right and up, "
            "then try again"
        )


def _pause(attempt: int) -> None:
    if attempt:
        time.sleep(_FIRST_PAUSE * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _status(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _transient(error: Any) -> bool:
    return _status(error) >= 500 or _status(error) == 429 or _code(error) in ("SlowDown", "RequestTimeout")


def _server_time(answer: Any) -> datetime:
    said = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    if said is None:
        raise StorageUnavailable("the S3 server sends no Date: the age of entries cannot be told")
    return parsedate_to_datetime(said).astimezone(UTC)
