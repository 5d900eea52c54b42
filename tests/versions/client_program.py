"""Calls with a client of Spark Connect, on a Spark that is too old for it.

    python -m tests.versions.client_program FOLDER

The client has no server, because each call is refused before the server is called. Prints the error
of each call as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.connect.session import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops.tables import DeltaTable

_NO_SERVER = "sc://127.0.0.1:9"


def calls(spark: Any, table: str) -> Mapping[str, Callable[[], object]]:
    """One call of each kind, by the name of the function."""
    rows = spark.range(3)
    return {
        "read": lambda: ds.read(spark, table),
        "read_changes": lambda: ds.read_changes(spark, table, 0),
        "read_stream": lambda: ds.read_stream(spark, table),
        "write": lambda: ds.write(rows, table),
        "stage_write": lambda: ds.stage_write(rows, table),
        "write_stream": lambda: ds.write_stream(rows, table, checkpoint_location=f"{table}-c"),
        "delete": lambda: ds.delete(spark, table, "id = 1"),
        "update": lambda: ds.update(spark, table, {"id": "3"}),
        "merge": lambda: ds.merge(table, rows, "target.id = source.id"),
        "rewrite": lambda: ds.rewrite(spark),
        "check_rows": lambda: ds.check_rows(spark),
        "register": lambda: ds.register(spark),
        "DeltaTable.forPath": lambda: DeltaTable.forPath(spark, table),
        "DeltaTable.create": lambda: DeltaTable.create(spark).location(f"{table}-new").execute(),
    }


def main(folder: str) -> None:
    """Make each call."""
    table = str(Path(folder) / "table")
    da.write(table, pa.table({"id": [1, 2]}))
    spark = SparkSession(_NO_SERVER)
    errors = {}
    for name, call in calls(spark, table).items():
        try:
            call()
            errors[name] = "none"
        except Exception as error:
            errors[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(errors))


if __name__ == "__main__":
    main(*sys.argv[1:])
