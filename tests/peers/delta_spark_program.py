"""The peer: a process with delta-spark that runs the requests on its standard input.

    python delta_spark_program.py JARS FOLDER

A line of input is `{"do": NAME, ...}`, a line of output `{"done": RESULT}` or `{"failed": TEXT}`,
each with `"warnings"`: the messages that delta-spark logged meanwhile. Every request opens its
table again from its files. Rows travel as Parquet files, which keep their types. Runs on PySpark
alone.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

_HERE = Path(__file__).resolve().parent
_DISK = "fs.AbstractFileSystem.file.impl"
"""Hadoop's file system class for the local disk, by setting name."""

STRICT = {
    # After each commit, delta-spark compares the state from the previous checksum with the replayed
    # state, ...
    "spark.databricks.delta.incremental.commit.verify": "true",
    # ... a checksum that does not agree is an error, and so is a checkpoint that fails.
    "spark.databricks.delta.checksum.mismatch.fatal": "true",
    "spark.databricks.delta.checkpoint.exceptionThrowing.enabled": "true",
    "spark.databricks.delta.allFilesInCrc.verificationMode.enabled": "true",
    "spark.databricks.delta.commitValidation.enabled": "true",
}


def session(jars: str, folder: Path) -> SparkSession:
    """A Spark session whose `delta` format is the reference implementation."""
    logging = (_HERE / "log4j2.properties").as_uri()
    java = f"-Dlog4j2.configurationFile={logging} -Dpeer.warnings={folder / 'warnings.txt'}"
    builder = SparkSession.builder.master("local[2]").appName("delta-spark peer")
    settings: dict[str, bool | float | int | str | None] = {
        "spark.jars": jars,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Tables of tests are small: compiled code and parallel work would cost more than they save.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": java,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        # Otherwise vacuum lists with 10,000 tasks.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **STRICT,
    }
    return builder.config(map=settings).getOrCreate()


class Peer:
    """The requests that the peer supports."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def stream(self, source: str, target: str, checkpoint: str, options: dict[str, str]) -> None:
        rows = self._spark.readStream.format("delta").options(**options).load(source)
        writer = rows.writeStream.format("delta").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start(target).awaitTermination()

    def sql(self, text: str) -> list[dict[str, Any]]:
        return [row.asDict(recursive=True) for row in self._spark.sql(text).collect()]

    def read(self, table: str, into: str, options: dict[str, str]) -> None:
        frame = self._spark.read.format("delta").options(**options).load(table)
        frame.coalesce(1).write.parquet(into)

    def write(
        self,
        table: str,
        source: str,
        mode: str,
        partition_by: list[str],
        options: dict[str, str],
    ) -> None:
        rows = self._spark.read.parquet(source).coalesce(1)
        writer = rows.write.format("delta").mode(mode).options(**options)
        (writer.partitionBy(*partition_by) if partition_by else writer).save(table)

    def write_paused(self, pause: str, **request: Any) -> None:
        """Run `write`; pause it once between its last check of the version and its rename."""
        conf = self._spark.sparkContext._jsc.hadoopConfiguration()
        loader, disk = conf.getClassLoader(), conf.get(_DISK)
        compiler = self._spark._jvm.org.codehaus.janino.SimpleCompiler()  # type: ignore[union-attr]
        compiler.setParentClassLoader(loader)
        compiler.cook((_HERE / "PausedDisk.java").read_text())
        conf.setClassLoader(compiler.getClassLoader())
        conf.set(_DISK, "PausedDisk")
        conf.set("peer.pause", pause)
        try:
            self.write(**request)
        finally:
            conf.set(_DISK, disk)
            conf.setClassLoader(loader)

    def checkpoint(self, table: str) -> None:
        self._log(table).checkpoint()

    def validate(self, table: str) -> dict[str, Any]:
        """The replayed state, compared with the version's `.crc` if it has one.

        A wrong checksum raises, because of the settings above.
        """
        log = self._log(table)
        snapshot = log.update(False, self._none(), self._none())
        has_checksum = log.readChecksum(snapshot.version(), self._none()).isDefined()
        if has_checksum:
            snapshot.validateChecksum(getattr(snapshot, "validateChecksum$default$1")())
        return {
            "version": snapshot.version(),
            "num_files": snapshot.numOfFiles(),
            "size_bytes": snapshot.sizeInBytes(),
            "has_checksum": has_checksum,
            "transactions": {
                each.appId(): each.version() for each in self._listed(snapshot.setTransactions())
            },
        }

    def _log(self, table: str) -> Any:
        delta_log = self._spark._jvm.org.apache.spark.sql.delta.DeltaLog  # type: ignore[union-attr]
        return delta_log.forTable(self._spark._jsparkSession, table)

    def _none(self) -> Any:
        return self._spark._jvm.scala.Option.empty()  # type: ignore[union-attr]

    def _listed(self, scala: Any) -> list[Any]:
        return [scala.apply(i) for i in range(scala.size())]

    def forget(self) -> None:
        """Let the next request open its table as a new process would."""
        self._spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]


def serve(peer: Peer, warnings: Path, requests: Any, answers: Any) -> None:
    """Answer each line of the input, in order, until it ends."""
    for line in requests:
        request = json.loads(line)
        before = warnings.stat().st_size
        try:
            peer.forget()
            verb: Callable[..., Any] = getattr(peer, request.pop("do"))
            answer: dict[str, Any] = {"done": verb(**request)}
        except Exception as error:  # the test decides whether it was expected
            reported = [line for line in str(error).splitlines() if not line.startswith("\t")]
            answer = {"failed": "\n".join([type(error).__name__, *reported])}
        with warnings.open(encoding="utf-8") as logged:
            logged.seek(before)
            answer["warnings"] = logged.read()
        answers.write(json.dumps(answer, default=str) + "\n")
        answers.flush()


if __name__ == "__main__":
    # Spark's own output must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    where = Path(sys.argv[2])
    peer = Peer(session(sys.argv[1], where))
    serve(peer, where / "warnings.txt", sys.stdin, answers)
