"""Environments that an install line of the documentation filled, and nothing else.

`.peers/installed-<extras>-<hash>/` holds the packages of a line in their versions of
`constraints.txt`. It is made by the first test that needs it. Each run of the tests installs the
code of the checkout again, with the same line.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.peers.environment import PEERS
from tests.support.process_groups import end_group

PROJECT = Path(__file__).resolve().parents[2]
_PINS = (PROJECT / "pyproject.toml", PROJECT / "constraints.txt")
_NO_REGISTRY = re.compile(
    r"Failed to establish a new connection|Name or service not known|name resolution|"
    r"ConnectTimeout|Network is unreachable"
)
_ADDRESS = re.compile(r"Serving dagster-webserver on (http://[\w.:]+)")
_LONGEST_INSTALLATION_S = 1800
_LONGEST_START_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """An environment, and an empty folder where a user works."""

    programs: Path
    """The folder with `python`, `dagster` and the other commands."""
    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a shell with the environment, and without the tests' packages."""
        path = f"{self.programs}{os.pathsep}/usr/local/bin:/usr/bin:/bin"
        own = {"PATH": path, "HOME": str(self.folder), "DAGSTER_DISABLE_TELEMETRY": "yes"}
        return {**own, **self.variables}

    def run(self, script: str) -> str:
        """Run lines of a shell, which must succeed; return the output."""
        done = subprocess.run(
            ["bash", "-ec", script],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout[-6000:]}"
        return done.stdout

    @contextmanager
    def serving(self, command: str) -> Iterator[str]:
        """Run a command that serves Dagster's UI within the block; yields the address."""
        log = self.folder / "served.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                ["bash", "-ec", f"exec {command}"],
                cwd=self.folder,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield _wait_for_address(log, process)
        finally:
            end_group(process)


def _wait_for_address(log: Path, process: subprocess.Popen[bytes]) -> str:
    ends = time.monotonic() + _LONGEST_START_S
    while time.monotonic() < ends:
        address = _ADDRESS.search(log.read_text())
        if address is not None:
            with suppress(OSError), urllib.request.urlopen(f"{address[1]}/server_info", timeout=30):
                return address[1]
        assert process.poll() is None, log.read_text()[-6000:]
        time.sleep(0.2)
    raise AssertionError(log.read_text()[-6000:])


@contextmanager
def installed(
    extras: str,
    folder: Path,
    variables: Mapping[str, str] = {},
    packages: Sequence[str] = (),
) -> Iterator[Installed]:
    """Install `delta_ops[extras]` and other packages, and keep the environment for the block only.

    Skips the test if no package registry answers.
    """
    pins = hashlib.sha256(b"".join(pin.read_bytes() for pin in _PINS)).hexdigest()[:12]
    place = PEERS / f"installed-{extras.replace(',', '-')}-{pins}"
    PEERS.mkdir(exist_ok=True)
    source, home = folder / "delta_ops", folder / "home"
    _copy_checkout(source)
    home.mkdir()
    with (PEERS / f"lock-of-{place.name}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            shutil.rmtree(place, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        _install(place / "bin" / "python", f"{source}[{extras}]", *packages)
        (place / "complete").touch()
        yield Installed(programs=place / "bin", folder=home, variables=variables)


def _copy_checkout(into: Path) -> None:
    into.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, into)
    unused = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PROJECT / "delta_ops", into / "delta_ops", ignore=unused)


def _install(python: Path, *lines: str) -> None:
    options = ["--quiet", "--no-compile", "--constraint", str(PROJECT / "constraints.txt")]
    done = subprocess.run(
        [str(python), "-m", "pip", "install", *options, *lines],
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_LONGEST_INSTALLATION_S,
        check=False,
    )
    if done.returncode and _NO_REGISTRY.search(done.stdout):
        pytest.skip("no package registry answers")
    assert done.returncode == 0, done.stdout[-6000:]
