"""Finds the engine that a URL asks for, so that where data lives is a choice of one string.

Engines are imported when they are used: the libraries that one needs are no cost of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from seamark.engines.ports import Blob, Logs
from seamark.errors import InvalidLocation


@dataclass(frozen=True, slots=True)
class Engines:
    """The log and the blob engine of one location."""

    url: str
    logs: Logs
    blobs: Blob

    def close(self) -> None:
        self.logs.close()
        self.blobs.close()


@dataclass(frozen=True, slots=True)
class Address:
    """A URL taken apart: what an engine's `connect` is given."""

    url: str
    scheme: str
    host: str
    path: str
    options: Mapping[str, str] = field(default_factory=dict)

    def number(self, option: str, default: float, *, least: float) -> float:
        """The value of a numeric option."""
        text = self.options.get(option)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = least - 1
        if not least <= value < float("inf"):
            raise InvalidLocation(f"location {self.url}: {option}={text!r} is not a number from {least:g} up")
        return value


@dataclass(frozen=True, slots=True)
class _Engine:
    module: str
    """Has `connect(address) -> (Logs, Blob)`."""
    example: str
    options: tuple[str, ...] = ()
    extra: str = ""
    """The extra of the distribution that brings what the module imports."""


_ENGINES = {
    "mem": _Engine("seamark.engines.mem", "mem:NAME"),
    "disk": _Engine("seamark.engines.disk", "disk:PATH", ("segment",)),
    "s3": _Engine(
        "seamark.engines.s3",
        "s3://BUCKET/PREFIX?endpoint=URL&region=NAME&grace=SECONDS",
        ("endpoint", "region", "grace"),
        "s3",
    ),
}
_SECRET_WORDS = ("password", "passwd", "secret", "token", "credential", "access_key", "accesskey", "apikey")


def open_engines(url: str, options: Mapping[str, str] | None = None) -> Engines:
    """The engines at `url`. `options` are what the query part of the URL may say as well."""
    address = parse_url(url, options)
    engine = _ENGINES[address.scheme]
    try:
        module: Any = import_module(engine.module)
    except ModuleNotFoundError as error:
        if not engine.extra or (error.name or "").startswith("seamark"):
            raise
        raise InvalidLocation(
            f"location {url}: the {address.scheme} engine needs {error.name}, which is not installed: "
            f"pip install seamark[{engine.extra}]"
        ) from error
    logs, blobs = module.connect(address)
    return Engines(url, logs, blobs)


def parse_url(url: str, options: Mapping[str, str] | None = None) -> Address:
    """`url` and `options` as an address, or `InvalidLocation` that says what would be understood."""
    scheme, colon, _ = url.partition(":")
    engine = _ENGINES.get(scheme) if colon else None
    if engine is None:
        _refuse_secrets(url)
        raise InvalidLocation(
            f"location {url!r}: no engine has the scheme {scheme!r}; "
            f"known are {', '.join(known.example for known in _ENGINES.values())}"
        )
    _refuse_secrets(url)
    parts = urlsplit(url)
    found: dict[str, str] = {}
    for name, value in [*parse_qsl(parts.query, keep_blank_values=True), *(options or {}).items()]:
        _refuse_secret_option(scheme, name, value)
        if name not in engine.options:
            known = f"known are {', '.join(engine.options)}" if engine.options else "it has none"
            raise InvalidLocation(f"location {url}: the {scheme} engine has no option {name!r}; {known}")
        if found.setdefault(name, value) != value:
            raise InvalidLocation(
                f"location {url}: option {name} is given twice, as {found[name]!r} and as {value!r}; give it once"
            )
    if parts.fragment:
        raise InvalidLocation(f"location {url}: '#{parts.fragment}' means nothing here; leave it out")
    return Address(url, scheme, parts.netloc, unquote(parts.path), found)


def _refuse_secrets(url: str) -> None:
    """A URL is shown in status, logs and errors: no secret may be in it, nor in this message."""
    if "@" in urlsplit(url).netloc:
        raise InvalidLocation(f"the {url.partition(':')[0]} location has a user or password before '@'; {_INSTEAD}")


def _refuse_secret_option(scheme: str, name: str, value: str) -> None:
    plain = name.lower().replace("-", "_")
    if any(word in plain for word in _SECRET_WORDS):
        raise InvalidLocation(f"the {scheme} location has a secret in its option {name!r}; {_INSTEAD}")
    if "@" in urlsplit(value).netloc:
        raise InvalidLocation(
            f"the {scheme} location has a user or password before '@' in its option {name!r}; {_INSTEAD}"
        )


_INSTEAD = (
    "a location never carries secrets: take it out and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in "
    "the environment, or use the cloud's own credential chain"
)
