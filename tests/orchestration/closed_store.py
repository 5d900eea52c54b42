"""An S3 server that rejects all credentials."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import dagster as dg

from delta_ops.orchestration import TableRef

_ANSWER = b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>InvalidAccessKeyId</Code><Message>The key does not exist.</Message></Error>"""


class _Refusal(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(403)
        self.send_header("Content-Length", str(len(_ANSWER)))
        self.end_headers()
        self.wfile.write(_ANSWER if self.command != "HEAD" else b"")

    do_HEAD = do_PUT = do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@contextmanager
def closed_table(name: str) -> Iterator[TableRef]:
    """A table in a store that rejects the credentials; the secret is `s3cr3t`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Refusal)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = {
        "key": "nobody",
        "secret": "s3cr3t",
        "endpoint_url": f"http://127.0.0.1:{server.server_port}",
    }
    try:
        yield TableRef(
            asset_key=dg.AssetKey(name), uri="s3://bucket/closed", storage_options=options
        )
    finally:
        server.shutdown()
        server.server_close()
