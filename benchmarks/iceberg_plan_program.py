"""Plans of an Iceberg table, for `plan_beside_iceberg`.

    python iceberg_plan_program.py make CATALOG WAREHOUSE FILES PARTITIONS
    python iceberg_plan_program.py plan CATALOG WAREHOUSE

Needs pyiceberg[sql-sqlite,pyarrow,s3fs]. `make` commits files in ten appends, as manifests without
data. `plan` prints the seconds, the seconds of a core, and the number of files of one partition,
from the call that loads the table. For S3, the environment has the address and the credentials.
"""

import json
import os
import struct
import sys
import time

from pyiceberg.catalog.sql import SqlCatalog  # type: ignore[import-not-found]
from pyiceberg.expressions import EqualTo  # type: ignore[import-not-found]
from pyiceberg.manifest import (  # type: ignore[import-not-found]
    DataFile,
    DataFileContent,
    FileFormat,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec  # type: ignore[import-not-found]
from pyiceberg.schema import Schema  # type: ignore[import-not-found]
from pyiceberg.transforms import IdentityTransform  # type: ignore[import-not-found]
from pyiceberg.typedef import Record  # type: ignore[import-not-found]
from pyiceberg.types import (  # type: ignore[import-not-found]
    DoubleType,
    LongType,
    NestedField,
    StringType,
)

COMMITS = 10
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "x", DoubleType()),
    NestedField(3, "p", StringType()),
)


def main() -> None:
    verb, place, warehouse = sys.argv[1:4]
    options = {"uri": f"sqlite:///{place}", "warehouse": warehouse}
    if "AWS_ENDPOINT_URL" in os.environ:
        options |= {
            "s3.endpoint": os.environ["AWS_ENDPOINT_URL"],
            "s3.access-key-id": os.environ["AWS_ACCESS_KEY_ID"],
            "s3.secret-access-key": os.environ["AWS_SECRET_ACCESS_KEY"],
            "s3.region": "us-east-1",
        }
    catalog = SqlCatalog("c", **options)
    if verb == "make":
        make(catalog, warehouse, int(sys.argv[4]), int(sys.argv[5]))
        return
    begun, cpu = time.perf_counter(), time.process_time()
    scan = catalog.load_table("n.t").scan(row_filter=EqualTo("p", "p00003"))
    number = len(list(scan.plan_files()))
    print(json.dumps([time.perf_counter() - begun, time.process_time() - cpu, number]))


def make(catalog: SqlCatalog, warehouse: str, files: int, partitions: int) -> None:
    catalog.create_namespace("n")
    field = PartitionField(3, 1000, IdentityTransform(), "p")
    table = catalog.create_table("n.t", SCHEMA, partition_spec=PartitionSpec(field))
    for commit in range(COMMITS):
        with table.transaction() as changed, changed.update_snapshot().fast_append() as append:
            for number in range(files // COMMITS):
                low = (commit * files // COMMITS + number) * 1000
                partition = f"p{number % partitions:05d}"
                append.append_data_file(file_of(warehouse, partition, low, commit))


def file_of(warehouse: str, partition: str, low: int, commit: int) -> DataFile:
    name = f"part-{low:012x}-{commit:08x}-c2f3-4b1a-9d35-c000.parquet"
    bounds = [
        {
            1: struct.pack("<q", low + add),
            2: struct.pack("<d", low / 7 + add),
            3: partition.encode(),
        }
        for add in (0, 999)
    ]
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{warehouse}/n/t/data/p={partition}/{name}",
        file_format=FileFormat.PARQUET,
        partition=Record(partition),
        record_count=1000,
        file_size_in_bytes=123_456,
        column_sizes={1: 9000, 2: 9000, 3: 90},
        value_counts={1: 1000, 2: 1000, 3: 1000},
        null_value_counts={1: 0, 2: 0, 3: 0},
        nan_value_counts={},
        lower_bounds=bounds[0],
        upper_bounds=bounds[1],
        key_metadata=None,
        split_offsets=[4],
        equality_ids=None,
        sort_order_id=None,
    )
    file.spec_id = 0
    return file


if __name__ == "__main__":
    main()
