"""delta-spark, the reference implementation, in one process for all tests of a run."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.peers.environment import MavenMissingError, ensure_delta_spark
from tests.support.class_archive import java_options

T = TypeVar("T")

_PROGRAM = Path(__file__).resolve().parent / "delta_spark_program.py"
_STDERR = "stderr.txt"
_LONGEST_PAUSE_S = 120
_OURS = ("PYTHON", "PYSPARK", "SPARK")
"""Prefixes of environment variables for our own Python and Spark."""


class DeltaSparkError(Exception):
    """An error of delta-spark, with its own text."""


class DeltaSpark:
    """A delta-spark process. Every call opens the table from its files."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process, self._folder = process, folder
        self.warnings = ""
        """Warnings and errors that it logged during the last call."""

    def read(self, table: Path, version: int | None = None) -> pa.Table:
        """The rows, in any order."""
        into = self._new_path()
        options = {} if version is None else {"versionAsOf": str(version)}
        self._call("read", table=str(table), into=str(into), options=options)
        return pq.ParquetDataset(into).read()

    def changes(self, table: Path, **options: str) -> pa.Table:
        """Read the change data feed, in any order; `options` are reader options."""
        into = self._new_path()
        feed = {"readChangeFeed": "true", **options}
        self._call("read", table=str(table), into=str(into), options=feed)
        return pq.ParquetDataset(into).read()

    def write(
        self,
        table: Path,
        rows: pa.Table,
        mode: str = "append",
        *,
        partition_by: Sequence[str] = (),
        **options: str,
    ) -> None:
        """Commit rows as `df.write.format("delta")` does; `options` are writer options."""
        source = self._new_path()
        pq.write_table(rows, source)
        self._call(
            "write",
            table=str(table),
            source=str(source),
            mode=mode,
            partition_by=list(partition_by),
            options=options,
        )

    def append_meanwhile(self, table: Path, rows: pa.Table, act: Callable[[], T]) -> T:
        """Append rows; `act` runs after the last check of the version's name, before the rename."""
        source, pause = self._new_path(), self._new_path()
        pause.mkdir()
        pq.write_table(rows, source)
        self._send(
            "write_paused",
            pause=str(pause),
            table=str(table),
            source=str(source),
            mode="append",
            partition_by=[],
            options={},
        )
        try:
            ends = time.monotonic() + _LONGEST_PAUSE_S
            while not (pause / "looked").exists() and self._process.poll() is None:
                assert time.monotonic() < ends, "delta-spark has not come to its rename"
                time.sleep(0.01)
            return act()
        finally:
            (pause / "go").touch()
            self._answer()

    def stream(self, source: Path, target: Path, checkpoint: Path, **options: str) -> None:
        """Run an available-now query from one table to another; `options` are reader options."""
        places = {"source": str(source), "target": str(target), "checkpoint": str(checkpoint)}
        self._call("stream", **places, options=options)

    def sql(self, text: str) -> list[dict[str, Any]]:
        """The rows of a statement; values without a JSON type become text."""
        done: list[dict[str, Any]] = self._call("sql", text=text)
        return done

    def history(self, table: Path) -> list[dict[str, Any]]:
        """DESCRIBE HISTORY, newest first."""
        return self.sql(f"DESCRIBE HISTORY delta.`{table}`")

    def checkpoint(self, table: Path) -> None:
        """Write a checkpoint of the latest version."""
        self._call("checkpoint", table=str(table))

    def validate(self, table: Path) -> dict[str, Any]:
        """Its replayed state, after a comparison with the `.crc` file if one exists."""
        done: dict[str, Any] = self._call("validate", table=str(table))
        return done

    def _new_path(self) -> Path:
        return self._folder / uuid.uuid4().hex

    def _call(self, verb: str, **arguments: Any) -> Any:
        self._send(verb, **arguments)
        return self._answer()

    def _send(self, verb: str, **arguments: Any) -> None:
        stdin, _ = _pipes(self._process)
        stdin.write(json.dumps({"do": verb, **arguments}) + "\n")
        stdin.flush()

    def _answer(self) -> Any:
        _, stdout = _pipes(self._process)
        line = stdout.readline()
        assert line, f"delta-spark ended: {(self._folder / _STDERR).read_text()[-2000:]}"
        answer = json.loads(line)
        self.warnings = answer["warnings"]
        if "failed" in answer:
            raise DeltaSparkError(answer["failed"])
        return answer["done"]


@pytest.fixture(scope="session")
def delta_spark() -> Iterator[DeltaSpark]:
    try:
        environment = ensure_delta_spark()
    except MavenMissingError as error:
        pytest.skip(str(error))
    jars = ",".join(str(jar) for jar in environment.jars)
    variables = {k: v for k, v in os.environ.items() if not k.startswith(_OURS)}
    variables["JAVA_TOOL_OPTIONS"] = java_options(environment.python)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            (folder / _STDERR).open("wb") as stderr,
            subprocess.Popen(
                [str(environment.python), str(_PROGRAM), jars, name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                cwd=name,
                env=variables,
            ) as process,
        ):
            try:
                yield DeltaSpark(process, folder)
            finally:
                process.terminate()


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout
