"""A Dagster home with a code location, and its daemon as a process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.process_groups import end_group

PATIENCE_S = 300


class DaemonHome:
    """The folder of an instance, beside the code that it runs.

    Args:
        root: The folder.
        definitions: The code of the location.
        settings: The instance's settings.
        variables: Environment variables of the location.
    """

    def __init__(
        self, root: Path, definitions: str, settings: str, variables: Mapping[str, str]
    ) -> None:
        root.mkdir(exist_ok=True)
        self.root, self.code = root, root / "location.py"
        self.code.write_text(definitions)
        (root / "dagster.yaml").write_text(settings)
        self.environment = {**os.environ, "DAGSTER_HOME": str(root), **variables}

    def command(self, program: str, *arguments: str) -> list[str]:
        """A Dagster command for the location."""
        return [str(Path(sys.executable).parent / program), *arguments, "-f", str(self.code)]

    def run(self, *arguments: str) -> None:
        """Run such a command to completion."""
        command = self.command("dagster", *arguments)
        subprocess.run(command, env=self.environment, check=True, capture_output=True)

    @contextmanager
    def daemon(self) -> Iterator[None]:
        """Run a daemon within the block; its code server and runs share its process group."""
        with (self.root / "daemon.log").open("a") as output:
            process = subprocess.Popen(
                self.command("dagster-daemon", "run"),
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield
        finally:
            end_group(process)

    def wait_until(self, is_so: Callable[[], object]) -> None:
        """Poll until the condition holds; a timeout fails with the end of the daemon's log."""
        ends = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < ends, (self.root / "daemon.log").read_text()[-5000:]
            time.sleep(0.2)
