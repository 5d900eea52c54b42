"""Memory limits of the kernel: programs run in a control group of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")


class NoLimitError(Exception):
    """Control groups cannot be created here."""


@contextmanager
def memory_limit(num_bytes: int) -> Iterator[Path]:
    """A control group with this memory limit below our own group, without swap. Cached files count,
    too.

    Raises:
        NoLimitError: No control group can be created.
    """
    group = _make_group(num_bytes)
    try:
        yield group
    finally:
        group.rmdir()


def run_within(group: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The result of a Python program; the kernel kills it above the limit."""
    enter = f'echo $$ > {group}/cgroup.procs && exec "$@"'
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(
        ["/bin/sh", "-c", enter, "sh", *command], capture_output=True, text=True, check=False
    )


def _make_group(num_bytes: int) -> Path:
    for parent, limits in _places():
        group = parent / f"test-{uuid.uuid4()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            for name, value in limits:
                if (group / name).exists():
                    (group / name).write_text(str(num_bytes if value is None else value))
        except OSError:
            group.rmdir()
            continue
        if (group / limits[0][0]).exists():
            return group
        group.rmdir()
    raise NoLimitError


def _places() -> Iterator[tuple[Path, Sequence[tuple[str, int | None]]]]:
    """Possible parent groups, with the files that limit their children; None means the limit."""
    for line in Path("/proc/self/cgroup").read_text().splitlines() if os.name == "posix" else ():
        _, controllers, path = line.split(":", 2)
        inside = path.lstrip("/")
        if "memory" in controllers.split(","):
            limits = ("memory.limit_in_bytes", None), ("memory.memsw.limit_in_bytes", None)
            yield _ROOT / "memory" / inside, limits
        elif not controllers:
            limits_v2 = ("memory.max", None), ("memory.swap.max", 0)
            yield _ROOT / inside, limits_v2
            yield (_ROOT / inside).parent, limits_v2
