"""An environment of delta-spark's own, made in the checkout when the first test needs it.

`.peers/<what is pinned>/` holds a virtual environment with the newest PySpark that delta-spark
takes, which is older than the project's, and the jars that PySpark does not bring. It is made once:
later runs, and processes that come meanwhile, find it complete.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).resolve().parent
PEERS = _HERE.parents[1] / ".peers"
_PINS = (_HERE / "pom.xml", _HERE / "constraints.txt")
_LONGEST_STEP_S = 1200
_NO_REPOSITORY = re.compile(r"Could not transfer (?!.*[Cc]hecksum)|in offline mode")
"""Maven's message for an unreachable repository; a missing artifact says "could not find"."""


class MavenMissingError(Exception):
    """Maven is missing, or none of its repositories answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSparkEnvironment:
    """The Python and the jars of a delta-spark process."""

    python: Path
    jars: tuple[Path, ...]


def ensure_delta_spark(peers: Path = PEERS) -> DeltaSparkEnvironment:
    """The environment in a folder of `peers`; created on first use.

    Raises:
        MavenMissingError: A tool is missing; the text names it.
        RuntimeError: A step failed; the text has the end of its output.
    """
    pins = hashlib.sha256(b"".join(pin.read_bytes() for pin in _PINS)).hexdigest()[:12]
    folder = peers / f"delta-spark-{pins}"
    python, jars, complete = folder / "bin" / "python", folder / "delta-jars", folder / "complete"
    peers.mkdir(exist_ok=True)
    with (peers / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            copy_jars(_HERE / "pom.xml", jars)
            run_step([sys.executable, "-m", "venv", str(folder)])
            install = ["-m", "pip", "install", "--quiet", "--requirement"]
            run_step([str(python), *install, str(_HERE / "constraints.txt")])
            complete.touch()
    return DeltaSparkEnvironment(python=python, jars=tuple(sorted(jars.glob("*.jar"))))


def copy_jars(pom: Path, into: Path) -> None:
    """Copy the dependencies of a pom into a folder.

    Raises:
        MavenMissingError: A tool is missing; the text names it.
        RuntimeError: Maven failed; the text has the end of its output.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise MavenMissingError(f"{pom} gets jars by Maven, and there is no mvn on the path")
    command = [maven, "--batch-mode", "--quiet", "--file", str(pom)]
    copy = ["dependency:copy-dependencies", f"-DoutputDirectory={into}", "-DincludeScope=runtime"]
    try:
        run_step([*command, *copy])
    except RuntimeError as error:
        if _NO_REPOSITORY.search(str(error)):
            raise MavenMissingError(f"Maven reaches no repository: {error}") from error
        raise


def run_step(command: list[str]) -> None:
    """Run a step of an installation.

    Raises:
        RuntimeError: It failed; the text has the end of its output.
    """
    done = subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_LONGEST_STEP_S,
    )
    if done.returncode:
        output = done.stdout.decode(errors="replace")
        raise RuntimeError(f"{' '.join(command)} failed: {output[-2000:]}")
