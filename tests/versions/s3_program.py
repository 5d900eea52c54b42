"""Commits of the Spark engine to a table on S3, on the Spark of this Python.

    python -m tests.versions.s3_program URI OPTIONS

`OPTIONS` are the storage options as JSON. Spark has Hadoop's connector on its class path. Prints
the version of the table, the rows that both engines read, and the warnings of delta_ops as JSON.
"""

from __future__ import annotations

import json
import logging
import sys

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.ddl import set_properties
from delta_ops.spark.versions import arrow_of
from tests.versions.spark_program import Warnings, new_session, numbers


def main(uri: str, options: str) -> None:
    """Write, append, delete with a vector, and read."""
    warnings = Warnings()
    logging.getLogger("delta_ops").addHandler(warnings)
    spark = new_session()
    table = DeltaLog(uri, json.loads(options))
    ds.write(numbers(spark, 0, 30), table, partition_by=["p"])
    ds.write(numbers(spark, 30, 40), table)
    set_properties(table, {"delta.enableDeletionVectors": "true"})
    ds.delete(spark, table, "id = 31")
    found = {
        "version": table.snapshot().version,
        "by Spark": sorted(map(repr, arrow_of(ds.read(spark, table)).to_pylist())),
        "by Arrow": sorted(map(repr, da.to_table(table).to_pylist())),
        "warnings": warnings.texts,
    }
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
