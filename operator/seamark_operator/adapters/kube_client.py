"""One thin door to the Kubernetes API: plain JSON, every call bounded, retries in one place, errors counted.

Two outcomes besides success: `ApiRefused` carries the code of an answer that will not change by asking again
(404, 409, 410, 403, 422), which the adapters turn into the meaning of their port; `ApiUnavailable` says that
the server did not answer, or answered 429 or 5xx, every time it was asked.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlencode

import urllib3
from kubernetes import client, config

from seamark.errors import Refused, Retryable
from seamark_operator.ports import Object

Verb = Literal["get", "list", "create", "update", "patch", "delete"]
METHODS: Mapping[Verb, str] = {
    "get": "GET",
    "list": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}
MANAGER = "seamark-operator"
PAGE = 500
SERVICE_ACCOUNT_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


class ApiUnavailable(Retryable):
    """The API server did not answer, or answered 429 or 5xx, every time it was asked."""


class ApiRefused(Refused):
    """The API server answered with an error that asking again will not change; `code` is its HTTP status."""

    def __init__(self, code: int, message: str, *, served: bool = True) -> None:
        super().__init__(message)
        self.code = code
        self.served = served
        """False when a 404 means that the server does not know the resource at all."""


@dataclass(frozen=True)
class Resource:
    """Where a kind of object lives in the API."""

    group: str
    version: str
    plural: str

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace is not None:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/" + "/".join(quote(part, safe="") for part in parts)


LEASES = Resource("coordination.k8s.io", "v1", "leases")
EVENTS = Resource("", "v1", "events")


@dataclass(frozen=True)
class Limits:
    """How long one call may take before its caller hears that the server is not there."""

    request_seconds: float = 10.0
    attempts: int = 4
    first_backoff_seconds: float = 0.2
    longest_backoff_seconds: float = 5.0


def configuration() -> client.Configuration:
    """KUBECONFIG when it is set, else the pod's service account, else the user's kubeconfig."""
    found = client.Configuration()
    if not os.environ.get("KUBECONFIG") and SERVICE_ACCOUNT_TOKEN.exists():
        config.load_incluster_config(client_configuration=found)  # type: ignore[no-untyped-call]
    else:
        config.load_kube_config(client_configuration=found)  # type: ignore[no-untyped-call]
    found.retries = False
    return found


class Kube:
    """The API server. Safe to use from several threads; every call blocks, so never from an event loop."""

    def __init__(
        self,
        conf: client.Configuration | None = None,
        *,
        limits: Limits | None = None,
        on_error: Callable[[Verb, str], None] = lambda _verb, _code: None,
        stopping: threading.Event | None = None,
    ) -> None:
        self._api = client.ApiClient(conf or configuration())
        self._limits = limits or Limits()
        self._on_error = on_error
        self._stopping = stopping or threading.Event()

    def close(self) -> None:
        self._api.close()  # type: ignore[no-untyped-call]

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        try:
            return self.call("get", resource.path(namespace, name))
        except ApiRefused as refused:
            if refused.code == 404:
                return None
            raise

    def everything(self, resource: Resource, namespaces: Sequence[str], selector: str | None = None) -> list[Object]:
        """Every object in the namespaces (all of the cluster when none is named), fetched by pages."""
        places: Sequence[str | None] = namespaces or [None]
        return [item for place in places for item in self._listed(resource.path(place), selector)]

    def create(self, resource: Resource, body: Object) -> Object:
        namespace = body["metadata"]["namespace"]
        return self.call("create", resource.path(namespace), body=body, query={"fieldManager": MANAGER})

    def update(self, resource: Resource, body: Object) -> Object:
        """Replace; the server refuses with 409 when `resourceVersion` in the body is not the present one."""
        path = resource.path(body["metadata"]["namespace"], body["metadata"]["name"])
        return self.call("update", path, body=body, query={"fieldManager": MANAGER})

    def merge(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str | None = None,
    ) -> Object | None:
        """Merge patch; None when the object is gone."""
        try:
            return self.call(
                "patch",
                resource.path(namespace, name, subresource),
                body=dict(body),
                query={"fieldManager": MANAGER},
                content_type="application/merge-patch+json",
            )
        except ApiRefused as refused:
            if refused.code == 404:
                return None
            raise

    def delete(self, resource: Resource, namespace: str, name: str, body: Mapping[str, Any] | None = None) -> None:
        """Idempotent; dependents go in the background."""
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Background",
            **(body or {}),
        }
        try:
            self.call("delete", resource.path(namespace, name), body=options)
        except ApiRefused as refused:
            if refused.code != 404:
                raise

    def call(
        self,
        verb: Verb,
        path: str,
        *,
        body: Object | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        attempts: int | None = None,
    ) -> Object:
        """One call with its retries.

        Safe to repeat for every verb used here: a create that was carried out answers AlreadyExists, which
        the adapters take as success; an update names the version it replaces; patches and deletes are
        idempotent.
        """
        allowed = attempts or self._limits.attempts
        backoff = self._limits.first_backoff_seconds
        for attempt in range(1, allowed + 1):
            wait, problem = 0.0, ""
            try:
                return self._once(verb, path, body, query, content_type)
            except _Transient as transient:
                wait, problem = transient.retry_after, str(transient)
            if attempt == allowed or self._stopping.is_set():
                raise ApiUnavailable(
                    f"{verb} {path}: the API server did not answer {attempt} times, last: {problem}; "
                    "check that it is up and reachable: the call is made again in a later pass"
                )
            pause = min(max(wait, backoff * random.uniform(0.5, 1.5)), self._limits.longest_backoff_seconds)
            self._stopping.wait(pause)
            backoff *= 2
        raise AssertionError("at least one attempt is allowed")

    def _listed(self, path: str, selector: str | None) -> Sequence[Object]:
        for _ in range(3):
            try:
                return [item for page in self._pages(path, selector) for item in page]
            except ApiRefused as refused:
                if refused.code != 410:
                    raise
        raise ApiUnavailable(
            f"list {path}: the list expired 3 times before its last page was read; "
            "the server compacts faster than pages are read: it is listed again in the next pass"
        )

    def _pages(self, path: str, selector: str | None) -> Iterator[list[Object]]:
        query = {"limit": str(PAGE), **({"labelSelector": selector} if selector else {})}
        while True:
            page = self.call("list", path, query=query)
            yield page.get("items") or []
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return
            query["continue"] = token

    def _once(
        self, verb: Verb, path: str, body: Object | None, query: Mapping[str, str] | None, content_type: str
    ) -> Object:
        conf = self._api.configuration
        headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": MANAGER}
        token = conf.auth_settings().get("BearerToken")
        if token:
            headers["Authorization"] = token["value"]
        url = conf.host + path + ("?" + urlencode(query) if query else "")
        seconds = self._limits.request_seconds
        began = time.monotonic()
        try:
            answer = self._api.rest_client.pool_manager.request(
                METHODS[verb],
                url,
                body=None if body is None else json.dumps(body).encode(),
                headers=headers,
                timeout=urllib3.Timeout(connect=min(3.0, seconds), read=seconds),
                retries=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            self._on_error(verb, "none")
            spent = time.monotonic() - began
            raise _Transient(f"{type(error).__name__} after {spent:.1f} s: {error}") from error
        if answer.status < 300:
            return dict(json.loads(answer.data)) if answer.data else {}
        self._on_error(verb, str(answer.status))
        status, text = _status(answer.data)
        described = f"{verb} {path}: {answer.status} {text}"
        if answer.status == 429 or answer.status >= 500:
            raise _Transient(described, _retry_after(answer.headers.get("Retry-After")))
        raise ApiRefused(answer.status, described, served=status)


class _Transient(Exception):  # an outcome of one attempt; never leaves this module
    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


def _retry_after(header: str | None) -> float:
    return float(header) if header and header.isdecimal() else 0.0


def _status(data: bytes) -> tuple[bool, str]:
    """Whether the body is an API status (an unknown path is answered with plain text), and what it says."""
    try:
        found = json.loads(data)
        return True, str(found.get("message") or found.get("reason") or "")
    except (ValueError, AttributeError):
        return False, data[:200].decode("utf-8", "replace").strip()
