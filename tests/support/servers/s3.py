"""An S3 server for tests, and its recorded requests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
import uuid
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

ACCESS_KEY, SECRET_KEY = "access-of-the-test", "secret-of-the-test"
PYTHON_WITH_MOTO = "DELTA_OPS_PYTHON_WITH_MOTO"
"""Variable with the Python that runs the server, if the tests run on an older client of S3."""
_OF_A_BUCKET = re.compile(r"[^/]+/?")


class Request(NamedTuple):
    """A request as the server saw it."""

    kind: str
    """LIST, or the HTTP method; with BUCKET before it for requests about a bucket."""
    path: str
    """Bucket and key."""
    query: str
    byte_range: str
    """As in its header; "" for the whole object."""
    authorization: str
    """As in its header."""


class Failure(NamedTuple):
    """The answer to a write."""

    status: int
    code: str
    lands: bool = False
    """Whether the write still happens, so that only its answer is lost."""
    of: str = ""
    """A part of the paths whose writes fail, with a condition or without; "" for any conditional
    write."""


class S3Server:
    """moto's server in a process of its own."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    @property
    def storage_options(self) -> dict[str, Any]:
        return {"key": ACCESS_KEY, "secret": SECRET_KEY, "endpoint_url": self.url}

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables with the server's address and credentials."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
        }

    def new_bucket(self, prefix: str = "") -> str:
        """An empty bucket; for "careless-" and "half-careless-" see `s3_program`."""
        name = f"{prefix}bucket-{uuid.uuid4().hex}"
        self.make_bucket(name)
        return name

    def make_bucket(self, name: str) -> None:
        self._ask("PUT", f"/{name}", b"")

    def put(self, bucket: str, objects: Mapping[str, bytes]) -> None:
        """Put objects by key, in one request."""
        encoded = {key: b64encode(data).decode() for key, data in objects.items()}
        body = json.dumps({"bucket": bucket, "objects": encoded}).encode()
        self._ask("PUT", "/_objects", body)

    @contextmanager
    def recording(self) -> Iterator[list[Request]]:
        """The requests during the context, in order of arrival; filled at its end."""
        found: list[Request] = []
        self._ask("DELETE", "/_requests")
        yield found
        found += self.recorded()

    def recorded(self) -> list[Request]:
        """The requests since `recording` began, in order of arrival."""
        return [*map(_request, json.loads(self._ask("GET", "/_requests")))]

    @contextmanager
    def failing(self, *failures: Failure) -> Iterator[None]:
        """Let the next writes of each `of` fail one after another; later writes succeed."""
        self._ask("PUT", "/_answers", json.dumps([each._asdict() for each in failures]).encode())
        try:
            yield
        finally:
            self._ask("PUT", "/_answers", b"[]")

    @contextmanager
    def holding(self, until: int, *, lists: bool = False) -> Iterator[None]:
        """Hold GETs of objects, or listings, until this many are concurrent."""
        self._ask("PUT", "/_hold_lists" if lists else "/_hold", str(until).encode())
        yield
        self._ask("PUT", "/_hold", b"0")

    @property
    def most_held(self) -> int:
        """The most concurrent requests of that kind since `holding` began."""
        return int(self._ask("GET", "/_hold"))

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(self.url + path, data=body, method=method)
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.read()  # type: ignore[no-any-return]


def kinds(requests: list[Request]) -> Counter[str]:
    """The number of requests of each kind."""
    return Counter(request.kind for request in requests)


def _request(seen: Mapping[str, str]) -> Request:
    kind = seen["method"]
    if "list-type=2" in seen["query"]:
        kind = "LIST"
    elif _OF_A_BUCKET.fullmatch(seen["path"]):
        kind = f"BUCKET {kind}"
    return Request(kind, seen["path"], seen["query"], seen["range"], seen["authorization"])


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    python = os.environ.get(PYTHON_WITH_MOTO, sys.executable)
    with subprocess.Popen(
        [python, "-W", "ignore", "-m", "tests.support.servers.s3_program"],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    ) as process:
        try:
            assert process.stdout is not None
            yield S3Server(int(process.stdout.readline()))
        finally:
            process.kill()  # the process may have inherited ignored signals
