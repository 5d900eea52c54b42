"""An Azure Blob Storage for tests: Azurite, from npm, in a folder of the checkout."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shutil
import subprocess
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

VERSION = "3.37.0"
_FOLDER = Path(__file__).resolve().parents[3] / ".servers" / f"azurite-{VERSION}"
_PROGRAM = _FOLDER / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
_LISTENS = re.compile(rb"listens on http://[^:]*:([0-9]+)")
_ACCOUNT = "devstoreaccount1"
OTHER_ACCOUNT, _REFUSING_ACCOUNT = "otheraccount1", "refusingaccount1"
_ACCOUNTS = (_ACCOUNT, OTHER_ACCOUNT, _REFUSING_ACCOUNT)
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The documented key of every Azurite."""


class AzuriteMissingError(Exception):
    """Node.js is missing, or its registry does not have Azurite."""


class AzureServer:
    """A server in a process of its own, which keeps its blobs in memory."""

    def __init__(self, port: int) -> None:
        self._connection = (
            f"DefaultEndpointsProtocol=http;AccountName={_ACCOUNT};AccountKey={_KEY};"
            f"BlobEndpoint=http://127.0.0.1:{port}/{_ACCOUNT};"
        )
        self._port = port

    @property
    def storage_options(self) -> dict[str, Any]:
        return {"connection_string": self._connection}

    def new_container(self) -> str:
        from azure.storage.blob import BlobServiceClient

        name = f"container-{uuid.uuid4().hex}"
        with BlobServiceClient.from_connection_string(self._connection) as client:
            client.create_container(name)
        return name

    @contextlib.contextmanager
    def taking_no(self, end: str) -> Iterator[TakesNone]:
        """A server in front of this one, which fails at each PUT of a blob with this end."""
        with TakesNone(self._port, end) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield server
            finally:
                server.shutdown()
                thread.join()


class TakesNone(ThreadingHTTPServer):
    """Passes requests on, and answers 500 to writes of some blobs."""

    def __init__(self, port: int, end: str) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.target, self.end = port, end
        self.num_refused = 0

    @property
    def storage_options(self) -> dict[str, Any]:
        """Options for an account of its own: Hadoop has one endpoint for each account."""
        account = f"AccountName={_REFUSING_ACCOUNT};AccountKey={_KEY}"
        return {
            "connection_string": f"DefaultEndpointsProtocol=http;{account};"
            f"BlobEndpoint=http://127.0.0.1:{self.server_address[1]}/{_REFUSING_ACCOUNT};"
        }


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: TakesNone

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.command == "PUT" and self.path.partition("?")[0].endswith(self.server.end):
            self.server.num_refused += 1
            self._answer(500, [], b"")
            return
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.server.target)) as to:
            to.request(self.command, self.path, body, dict(self.headers))
            answer = to.getresponse()
            self._answer(answer.status, answer.getheaders(), answer.read())

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass  # noqa: N815

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            is_ours = name.lower() in ("transfer-encoding", "connection", "content-length")
            if not is_ours or (self.command == "HEAD" and name.lower() == "content-length"):
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="session")
def azure_server() -> Iterator[AzureServer]:
    node = shutil.which("node")
    try:
        program = ensure_azurite()
    except AzuriteMissingError as error:
        pytest.skip(str(error))
    assert node is not None
    place = ["--blobHost", "127.0.0.1", "--blobPort", "0"]
    quietly = ["--inMemoryPersistence", "--disableTelemetry", "--silent", "--skipApiVersionCheck"]
    with subprocess.Popen(
        [node, str(program), *place, *quietly],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={**os.environ, "AZURITE_ACCOUNTS": ";".join(f"{each}:{_KEY}" for each in _ACCOUNTS)},
    ) as process:
        try:
            assert process.stdout is not None
            ports = (_LISTENS.search(line) for line in process.stdout)
            yield AzureServer(int(next(found[1] for found in ports if found)))
        finally:
            process.kill()  # the process may have inherited ignored signals


def ensure_azurite() -> Path:
    """The program of Azurite; installed on first use.

    Raises:
        AzuriteMissingError: Node.js is missing, or npm cannot install Azurite.
    """
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise AzuriteMissingError("Azurite needs Node.js and npm")
    if not _PROGRAM.exists():
        _install(npm)
    return _PROGRAM


def _install(npm: str) -> None:
    """Install, and rename the complete folder: several processes may install at once."""
    folder = _FOLDER.with_name(f".{_FOLDER.name}-{uuid.uuid4().hex}")
    folder.mkdir(parents=True)
    command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund"]
    try:
        done = subprocess.run(
            [*command, f"azurite@{VERSION}"], check=False, capture_output=True, timeout=600
        )
        if done.returncode:
            output = done.stderr.decode(errors="replace")
            raise AzuriteMissingError(f"npm cannot install Azurite: {output[-300:]}")
        with contextlib.suppress(OSError):  # another run was faster
            os.replace(folder, _FOLDER)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
