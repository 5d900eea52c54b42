"""Dagster's UI in Chromium, served by `dagster dev` on a free port.

Actions under test are clicks in the browser. GraphQL only prepares and asserts.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.support.process_groups import end_group

PROJECT = Path(__file__).resolve().parents[2]
PATIENCE_S = 300
INSTANCE = """
telemetry:
  enabled: false
nux:
  enabled: false
run_coordinator:
  module: dagster.core.run_coordinator
  class: DefaultRunCoordinator
"""
"""Runs begin at once; the queue checks for them every few seconds."""
_REPOSITORIES = "{ repositoriesOrError { ... on RepositoryConnection { nodes { id } } } }"
_ADDRESS = re.compile(r"Serving dagster-webserver on (http://[\w.:]+)")
_WORKSPACE = """
load_from:
  - python_file:
      relative_path: {code}
      location_name: {location}
      working_directory: {project}
"""


class DagsterUI:
    """`dagster dev` with one code location."""

    def __init__(self, home: Path, code: Path, location: str) -> None:
        self.home, self.location = home, location
        self.url = ""  # Dagster chooses a free port when it starts
        workspace = home / "workspace.yaml"
        workspace.write_text(_WORKSPACE.format(code=code, location=location, project=PROJECT))
        (home / "dagster.yaml").write_text(INSTANCE)

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Run `dagster dev` within the block, in its own process group."""
        command = [str(Path(sys.executable).parent / "dagster"), "dev", "-h", "127.0.0.1"]
        with (self.home / "dagster.log").open("a") as output:
            process = subprocess.Popen(
                [*command, "-w", str(self.home / "workspace.yaml")],
                env={**os.environ, "DAGSTER_HOME": str(self.home), "PYTHONPATH": str(PROJECT)},
                cwd=self.home,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield
        finally:
            end_group(process)

    def wait_until(self, is_so: Callable[[], object]) -> None:
        """Poll until the condition holds; a timeout fails with the end of the log."""
        ends = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < ends, (self.home / "dagster.log").read_text()[-5000:]
            time.sleep(0.1)

    def is_up(self) -> bool:
        """Whether Dagster has logged its address and loaded the code location."""
        address = _ADDRESS.search((self.home / "dagster.log").read_text())
        if address is None:
            return False
        self.url = address[1]
        try:
            answer = self.query(_REPOSITORIES)
        except OSError:
            return False
        return bool(answer["repositoriesOrError"].get("nodes"))

    def query(self, query: str, **variables: Any) -> Mapping[str, Any]:
        """Run a GraphQL query and return its data."""
        request = urllib.request.Request(
            f"{self.url}/graphql",
            data=json.dumps({"query": query, "variables": variables}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            answer = json.load(response)
        assert not answer.get("errors"), answer["errors"]
        data: Mapping[str, Any] = answer["data"]
        return data


@contextmanager
def open_chromium() -> Iterator[Browser]:
    """A headless browser; without an installed browser, the failure says how to install it."""
    script = PROJECT / "scripts" / "ensure_chromium.sh"
    found = subprocess.run(
        [str(script), "--look-only"], capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.fail(found.stderr.strip(), pytrace=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found.stdout.strip(),
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ],
        )
        yield browser
        browser.close()
