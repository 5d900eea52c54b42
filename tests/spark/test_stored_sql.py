"""SQL of a table's definition has one meaning, however a session reads doubled quotes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops.ddl import add_constraint, create_table, set_default
from delta_ops.errors import BrokenRuleError
from delta_ops.protocol.schema import STRING, StructField, StructType
from delta_ops.spark.expressions.stored_sql import expand_doubled_quotes
from delta_ops.spark.installed_version import VERSION
from delta_ops.spark.session.session import overriding
from delta_ops.spark.versions import CONSECUTIVE_LITERALS

QUOTE = "CAST(X'27' AS STRING)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s = 'it''s'", f"s = concat('it', {QUOTE}, 's')"),
        ("s = ''''", f"s = concat('', {QUOTE}, '')"),
        ("s = ''", "s = ''"),
        ("s IN ('', 'a''b''')", f"s IN ('', concat('a', {QUOTE}, 'b', {QUOTE}, ''))"),
        ('s = "a""b"', 's = concat("a", CAST(X\'22\' AS STRING), "b")'),
        ("s = 'a' 'b''c'", f"s = concat('a', 'b', {QUOTE}, 'c')"),
        ("s = 'a' 'b'", "s = 'a' 'b'"),
        ("s = 'a'\"b\"", "s = 'a'\"b\""),
        (r"s = 'it\'s'", r"s = 'it\'s'"),
        ("`it''s` = 1 -- it''s", "`it''s` = 1 -- it''s"),
        (r"s RLIKE r'\d''x'", r"s RLIKE r'\d''x'"),
    ],
)
def test_a_literal_with_doubled_quotes_becomes_a_call(text: str, expected: str) -> None:
    assert expand_doubled_quotes(text) == expected


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session that reads a doubled quote as two literals; Spark 3.5 always does."""
    settings = {CONSECUTIVE_LITERALS: "true"} if VERSION >= (4, 0) else {}
    with overriding(spark, settings):
        yield spark


@pytest.mark.spark
def test_constraints_generated_columns_and_defaults_have_the_values_of_arrow(
    session: SparkSession, tmp_path: Path
) -> None:
    fields = (
        StructField("id", STRING),
        StructField("s", STRING),
        StructField(
            "g", STRING, metadata={"delta.generationExpression": "concat(id, '''', 'x''y')"}
        ),
    )
    create_table(tmp_path, StructType(fields))
    set_default(tmp_path, "s", "'it''s'")
    add_constraint(tmp_path, "c", "s = 'it''s'")
    da.write(tmp_path, pa.table({"id": ["a"]}), mode="append")
    ds.write(session.createDataFrame([("a",)], "id string"), tmp_path)
    one, other = da.to_table(tmp_path).to_pylist()
    assert one == other == {"id": "a", "s": "it's", "g": "a'x'y"}
    with pytest.raises(BrokenRuleError, match="CHECK constraint c"):
        ds.write(session.createDataFrame([("a", "its")], "id string, s string"), tmp_path)
