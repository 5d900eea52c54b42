"""A program: moto's S3 server on a free port of loopback, which records its requests.

Prints its port. Besides S3 it answers requests of the tests: GET /_requests returns the requests
since the last DELETE of it, PUT /_objects puts many objects at once, PUT /_hold holds each GET of
an object until this many are concurrent or a second has passed, PUT /_hold_lists does so with
listings, and PUT /_answers sets how the next writes fail.

An access key that begins with "wrong-" is rejected; moto knows any other key.

moto checks first and writes then, so conditional writes run one by one. In a bucket whose name
begins with "careless-" they are made unconditional, and with "half-careless-" only the writes that
complete an upload in parts.
"""

from __future__ import annotations

import json
import threading
from base64 import b64decode
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

from moto.backends import get_backend
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

_LONGEST_HOLD_S = 1.0


class RecordingApp:
    """moto's WSGI application behind an application that records each request."""

    def __init__(self) -> None:
        self._s3 = DomainDispatcherApplication(create_backend_app)
        self._requests: list[dict[str, str]] = []
        self._lock = threading.Condition()
        self._under_way = 0
        self._most_under_way = 0
        self._awaited = 0
        self._holds_lists = False
        self._one_by_one = threading.Lock()
        self._failures: list[dict[str, Any]] = []

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path.startswith("/_"):
            answer = self._administer(environ["REQUEST_METHOD"], path, environ)
            start_response("200 OK", [("Content-Length", str(len(answer)))])
            return [answer]
        request = {
            "method": environ["REQUEST_METHOD"],
            "path": unquote(path).lstrip("/"),
            "query": environ.get("QUERY_STRING", ""),
            "range": environ.get("HTTP_RANGE", ""),
            "authorization": environ.get("HTTP_AUTHORIZATION", ""),
        }
        with self._lock:
            self._requests.append(request)
        if "Credential=wrong-" in request["authorization"]:
            return _answer(start_response, "403 Forbidden", "InvalidAccessKeyId")
        is_list = "list-type" in request["query"]
        if request["method"] == "GET" and is_list == self._holds_lists:
            self._hold()
        is_conditional = environ.get("HTTP_IF_NONE_MATCH") == "*"
        failure = self._failure_of(request, is_conditional=is_conditional)
        if is_conditional or failure is not None:
            return self._write(environ, start_response, failure)
        return self._s3(environ, start_response)  # type: ignore[no-any-return]

    def _failure_of(
        self, request: dict[str, str], *, is_conditional: bool
    ) -> dict[str, Any] | None:
        """Take the next failure of the request's path."""
        if not is_conditional and request["method"] not in ("PUT", "POST"):
            return None
        with self._lock:
            for number, failure in enumerate(self._failures):
                if failure["of"] in request["path"] if failure["of"] else is_conditional:
                    return self._failures.pop(number)
        return None

    def _write(
        self, environ: dict[str, Any], start_response: Any, failure: dict[str, Any] | None
    ) -> Iterable[bytes]:
        prefixes = ("/careless-", *(["/half-careless-"] if environ["QUERY_STRING"] else []))
        if environ["PATH_INFO"].startswith(prefixes):
            environ.pop("HTTP_IF_NONE_MATCH", None)
        if failure is None:
            with self._one_by_one:
                return list(self._s3(environ, start_response))
        if failure["lands"]:
            with self._one_by_one:
                list(self._s3(environ, lambda *_: None))
        else:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        return _answer(start_response, f"{failure['status']} {failure['code']}", failure["code"])

    def _hold(self) -> None:
        with self._lock:
            if not self._awaited:
                return
            self._under_way += 1
            self._most_under_way = max(self._most_under_way, self._under_way)
            self._lock.notify_all()
            self._lock.wait_for(lambda: self._most_under_way >= self._awaited, _LONGEST_HOLD_S)
            self._under_way -= 1

    def _administer(self, method: str, path: str, environ: dict[str, Any]) -> bytes:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        match method, path:
            case "GET", "/_requests":
                with self._lock:
                    return json.dumps(self._requests).encode()
            case "DELETE", "/_requests":
                with self._lock:
                    self._requests.clear()
            case "PUT", "/_objects":
                given = json.loads(body)
                backend = get_backend("s3")[DEFAULT_ACCOUNT_ID]["aws"]
                for key, data in given["objects"].items():
                    backend.put_object(given["bucket"], key, b64decode(data))
            case "PUT", "/_answers":
                with self._lock:
                    self._failures = json.loads(body)
            case "PUT", "/_hold" | "/_hold_lists":
                with self._lock:
                    self._holds_lists = path == "/_hold_lists"
                    self._awaited, self._most_under_way = json.loads(body), 0
            case "GET", "/_hold":
                with self._lock:
                    return json.dumps(self._most_under_way).encode()
        return b""


def _answer(start_response: Any, status: str, code: str) -> Iterable[bytes]:
    answer = f"<Error><Code>{code}</Code><Message>as told</Message></Error>".encode()
    headers = [("Content-Length", str(len(answer))), ("Content-Type", "application/xml")]
    start_response(status, headers)
    return [answer]


class QuietHandler(MotoRequestHandler):
    """Keeps connections open, and logs nothing."""

    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002
        """Log no requests: a request of the tests returns them."""


def main() -> None:
    """Serve until killed."""
    server = make_server(
        "127.0.0.1", 0, RecordingApp(), threaded=True, request_handler=QuietHandler
    )
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
