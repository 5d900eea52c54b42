"""Columns with a collation: compared by the collation, or rejected."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col, parse_predicate
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import LONG, STRING, StructField, StructType
from tests.arrow.foreign_table import create, data_file, stats


def text(name: str, collation: str) -> StructField:
    return StructField(name, STRING, metadata={"__COLLATIONS": {name: collation}})


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    """Rows that differ only in case, with bytes outside the bounds of the statistics."""
    c, p = text("c", "spark.UTF8_LCASE"), text("p", "icu.UNICODE_CI")
    s = StructField("s", StructType((text("t", "UTF8_LCASE_RTRIM"),)))
    schema = StructType((StructField("id", LONG), c, text("b", "spark.UTF8_BINARY"), s, p))
    rows = pa.table({"id": [1, 2], "c": ["b", "B"], "b": ["x", "y"], "s": [{"t": "q"}, None]})
    recorded = stats(numRecords=2, minValues={"c": "B"}, maxValues={"c": "b"}, nullCount={"c": 0})
    add = data_file(tmp_path, "x", rows, partition_values={"p": "nl"}, stats=recorded)
    return create(tmp_path, schema, [add], partition_by=("p",))


@pytest.mark.parametrize(
    "predicate",
    [
        pytest.param(col("c") == "B", id="equal"),
        pytest.param(col("c") > "A", id="above"),
        pytest.param(col("c").isin(["B"]), id="in"),
        pytest.param(col("s", "t") == "Q", id="a field of a struct"),
        pytest.param(col("p") == "NL", id="a partition column"),
        pytest.param((col("id") == 1) | ~(col("C") == "B"), id="within others"),
        pytest.param(parse_predicate("c = 'B'"), id="as text"),
    ],
)
def test_a_comparison_by_another_collation_is_refused(log: DeltaLog, predicate: Predicate) -> None:
    for read in (da.to_table, da.count_rows):
        with pytest.raises(InvalidRequestError, match=r"has the collation .*(LCASE|UNICODE_CI)"):
            read(log, predicate=predicate)
    with pytest.raises(InvalidRequestError, match="filter the rows"):
        log.snapshot().files(["path"], predicate)


def test_other_columns_of_such_a_table_are_compared(log: DeltaLog) -> None:
    assert da.to_table(log, ["id"], col("b") == "y")["id"].to_pylist() == [2]
    assert da.to_table(log, ["c"], col("c").is_not_null())["c"].to_pylist() == ["b", "B"]
