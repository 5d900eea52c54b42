"""An S3 server of the test's own, and what it was asked."""

from __future__ import annotations

import json
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
_OF_A_BUCKET = re.compile(r"[^/]+/?")


class Request(NamedTuple):
    """A request as the server saw it."""

    kind: str
    """LIST, or the HTTP method; with BUCKET before it where it asks about one."""
    path: str
    """Bucket and key."""
    query: str
    byte_range: str
    """As in its header; "" asks for all."""
    authorization: str
    """As in its header."""


class Failure(NamedTuple):
    """How a conditional write is answered."""

    status: int
    code: str
    lands: bool = False
    """Whether it is carried out all the same, so that its answer is what gets lost."""


class S3Server:
    """moto's server in a process of its own."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    @property
    def storage_options(self) -> dict[str, Any]:
        return {"key": ACCESS_KEY, "secret": SECRET_KEY, "endpoint_url": self.url}

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which clients find the server."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
        }

    def new_bucket(self, prefix: str = "") -> str:
        """An empty bucket; `s3_program` tells what "careless-" and "half-careless-" do."""
        name = f"{prefix}bucket-{uuid.uuid4().hex}"
        self.make_bucket(name)
        return name

    def make_bucket(self, name: str) -> None:
        self._ask("PUT", f"/{name}", b"")

    def put(self, bucket: str, objects: Mapping[str, bytes]) -> None:
        """Objects by key, in one request."""
        encoded = {key: b64encode(data).decode() for key, data in objects.items()}
        body = json.dumps({"bucket": bucket, "objects": encoded}).encode()
        self._ask("PUT", "/_objects", body)

    @contextmanager
    def recording(self) -> Iterator[list[Request]]:
        """The requests during the context, in the order of their arrival; filled at its end."""
        found: list[Request] = []
        self._ask("DELETE", "/_requests")
        yield found
        found += map(_request, json.loads(self._ask("GET", "/_requests")))

    @contextmanager
    def failing(self, *failures: Failure) -> Iterator[None]:
        """The next conditional writes fail one after another, those after them do not."""
        self._ask("PUT", "/_answers", json.dumps([each._asdict() for each in failures]).encode())
        yield
        self._ask("PUT", "/_answers", b"[]")

    @contextmanager
    def holding(self, until: int, *, lists: bool = False) -> Iterator[None]:
        """GETs of objects, or listings, wait for one another, until so many are under way."""
        self._ask("PUT", "/_hold_lists" if lists else "/_hold", str(until).encode())
        yield
        self._ask("PUT", "/_hold", b"0")

    @property
    def most_held(self) -> int:
        """The most of those under way at once since `holding` began."""
        return int(self._ask("GET", "/_hold"))

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(self.url + path, data=body, method=method)
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.read()  # type: ignore[no-any-return]


def kinds(requests: list[Request]) -> Counter[str]:
    """How many requests there were of each kind."""
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
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.support.servers.s3_program"],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    ) as process:
        try:
            assert process.stdout is not None
            yield S3Server(int(process.stdout.readline()))
        finally:
            process.kill()  # it may have inherited that other signals are ignored
