"""Invalid data and definitions: rejected with the column name before a file is written."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, ddl, lit, parse_expression
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import LONG, VARIANT, MapType, StructField, StructType

Call = Callable[[Path], Any]
NAN = "CAST('NaN' AS DOUBLE)"
FEED = {"delta.enableChangeDataFeed": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
ROWS = pa.table(
    {
        "id": pa.array([1], pa.int32()),
        "x": [1.5],
        "price": pa.array([Decimal("1.5")], pa.decimal128(4, 1)),
        "p": [2.5],
    }
)


def columns(name: str, key: str, text: str) -> StructType:
    return StructType((StructField("id", LONG), StructField(name, LONG, metadata={key: text})))


def new(data_type: Any = "int", **options: Any) -> ddl.NewColumn:
    return ddl.NewColumn(name="n", data_type=data_type, **options)


def nested(arrays: int) -> str:
    return "array<" * arrays + "int" + ">" * arrays


def merge(table: Path, updates: dict[str, str]) -> da.Merge:
    source = pa.table({"id": pa.array([1], pa.int32()), "y": [math.nan]})
    return da.merge(table, source, "target.id = source.id").when_matched_update(updates)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(
            lambda t: da.write(t, pa.table({"id": [1], "p": [math.nan]})),
            "'p' has the value NaN",
            id="a NaN partition",
        ),
        pytest.param(
            lambda t: da.update(t, {"p": parse_expression(NAN)}),
            "'p' has the value NaN",
            id="rows updated into one",
        ),
        pytest.param(
            lambda t: merge(t, {"p": "source.y"}).execute(),
            "'p' has the value NaN",
            id="rows merged into one",
        ),
        pytest.param(
            lambda t: da.write(t, pa.table({"id": [2**40], "p": [1.0]})),
            "column 'id' .* does not fit",
            id="an overflow",
        ),
        pytest.param(
            lambda t: da.write(t, pa.table({"price": [Decimal("12345.1")], "p": [1.0]})),
            "column 'price' .* does not fit",
            id="a decimal with too many digits",
        ),
        pytest.param(
            lambda t: da.write(t, pa.table({"id": [1.5], "p": [1.0]})),
            "column 'id' .* would be changed",
            id="a cast that loses",
        ),
        pytest.param(
            lambda t: da.update(t, {"id": "2147483647 + id"}),
            "overflow|does not fit",
            id="an overflow of an update",
        ),
        pytest.param(
            lambda t: da.write(t, pa.table([[1], [2], [1.0]], names=["id", "ID", "p"])),
            "'id' is in the data twice",
            id="names that differ by case only",
        ),
        pytest.param(
            lambda t: ddl.add_columns(t, [ddl.NewColumn(name="_change_type", data_type="string")]),
            "_change_type",
            id="a name that the change feed needs",
        ),
        pytest.param(
            lambda t: ddl.add_constraint(t, "c", "soundex(id) = 'a'"),
            "SOUNDEX",
            id="a rule that our SQL cannot say",
        ),
        pytest.param(
            lambda t: ddl.add_constraint(t, "c", "pp > 0"),
            r"c \(pp > 0\) names the column pp, which does not exist; the columns are id",
            id="a rule about a column that is not there",
        ),
        pytest.param(
            lambda t: ddl.set_default(t, "x", "id + 1"),
            r"default of column x \(id \+ 1\) refers to the column id",
            id="a default that refers to a column",
        ),
        pytest.param(
            lambda t: ddl.drop_columns(t, ["p"]),
            "column p cannot be dropped",
            id="a drop of a column in use",
        ),
        pytest.param(
            lambda t: da.delete(t, parse_expression("id > 0 AND nope = 1")),
            "nope",
            id="a column that is not there",
        ),
        *(
            pytest.param(
                lambda t, mode=mode: da.write(t, pa.table({}), mode),
                "the data have no columns",
                id=f"data without columns, {mode}",
            )
            for mode in ("append", "overwrite")
        ),
        pytest.param(
            lambda t: ddl.add_columns(t, [new(data_type=pa.struct([]))]),
            "'n' is a struct without fields",
            id="a struct without fields",
        ),
        pytest.param(
            lambda t: ddl.add_columns(t, [new(data_type=nested(50))]),
            "'n' is nested too deeply",
            id="a file that readers would refuse",
        ),
        pytest.param(
            lambda t: ddl.add_columns(t, [new(data_type=nested(2000))]),
            "nested too deeply",
            id="a type whose text Python cannot parse",
        ),
        pytest.param(
            lambda t: ddl.add_columns(t, [new(comment=5)]),
            "comment is 5, of type int; give a string or None",
            id="a comment that is no text",
        ),
        pytest.param(
            lambda t: ddl.add_columns(t, [new(data_type=None)]),
            "data_type is None",
            id="no type",
        ),
        pytest.param(
            lambda t: da.update(t, {"x": lit("\ud800")}),
            "half of a surrogate pair",
            id="a text that no file can hold",
        ),
        pytest.param(
            lambda t: da.delete(t, "CAST(x AS STRING) = '\ud800'"),
            "half of a surrogate pair",
            id="a condition with such a text",
        ),
        pytest.param(
            lambda t: ddl.create_table(t, ROWS.schema, if_exists=cast(Any, "keep")),
            "if_exists is 'keep'; give 'error', 'ignore', 'replace'",
            id="an unknown word",
        ),
    ],
)
def test_data_that_do_not_fit_are_refused_before_a_file_is_written(
    tmp_path: Path, call: Call, message: str
) -> None:
    da.write(tmp_path, ROWS, partition_by=["p"], configuration={**FEED, **MAPPED})
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidRequestError, match=message):
        call(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(
            lambda t: da.write(t, pa.table({"id": [1], "p": [math.nan]}), partition_by=["p"]),
            "'p' has the value NaN",
            id="a NaN partition",
        ),
        pytest.param(
            lambda t: da.write(t, pa.table({"id": [1]}), partition_by=["nope"]),
            "'nope' is not in the data",
            id="a partition column that is not there",
        ),
        pytest.param(
            lambda t: da.write(t, pa.table([[1], [2]], names=["a", "A"])),
            "a and A",
            id="names that differ by case only",
        ),
        pytest.param(
            lambda t: ddl.create_table(t, pa.schema([("_change_type", "string")]), properties=FEED),
            "_change_type",
            id="a name that the change feed needs",
        ),
        pytest.param(
            lambda t: ddl.create_table(t, columns("d", "CURRENT_DEFAULT", "id + 1")),
            r"d \(id \+ 1\) refers to the column id",
            id="a default that refers to a column",
        ),
        pytest.param(
            lambda t: ddl.create_table(t, columns("g", "delta.generationExpression", "g + 1")),
            "g is generated from g",
            id="a column generated from itself",
        ),
        pytest.param(
            lambda t: ddl.create_table(t, pa.schema([("s", pa.struct([]))])),
            "'s' is a struct without fields",
            id="a struct without fields",
        ),
        pytest.param(
            lambda t: ddl.create_table(
                t, ROWS.schema, properties={"delta.constraints.c": "nope > 1"}
            ),
            r"c \(nope > 1\) names the column nope",
            id="a rule about a column that is not there",
        ),
        pytest.param(
            lambda t: ddl.create_table(
                t, StructType((StructField("m", MapType(VARIANT, LONG, True)),))
            ),
            "'m' is a map with variants in its keys",
            id="variants as keys",
        ),
        pytest.param(
            lambda t: ddl.create_table(
                t,
                StructType(
                    (
                        StructField(
                            "m",
                            MapType(StructType((StructField("v", VARIANT),)), LONG, True),
                        ),
                    )
                ),
            ),
            "'m' is a map with variants in its keys",
            id="variants inside of keys",
        ),
    ],
)
def test_a_table_that_cannot_be_is_not_made(tmp_path: Path, call: Call, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        call(tmp_path)
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == []


def test_a_table_with_a_column_of_the_feed_gets_no_feed(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"_change_type": ["x"]}))
    with pytest.raises(InvalidRequestError, match="_change_type"):
        ddl.set_properties(tmp_path, FEED)
    da.write(tmp_path, pa.table({"_change_type": ["y"]}))
    assert da.to_table(tmp_path).num_rows == 2


def test_a_generated_column_takes_no_other_value(tmp_path: Path) -> None:
    ddl.create_table(tmp_path, columns("g", "delta.generationExpression", "id * 2"))
    da.write(tmp_path, pa.table({"id": [1]}))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidRequestError, match="generated column g"):
        da.update(tmp_path, {"g": "7"})
    assert sorted(tmp_path.rglob("*")) == before


def test_a_column_of_a_constraint_is_not_lost_by_an_overwrite(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS)
    ddl.add_constraint(tmp_path, "positive", "X > 0")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidRequestError, match=r"no column X, .*constraint positive \(X > 0\)"):
        da.write(tmp_path, pa.table({"id": [1]}), "overwrite", overwrite_schema=True)
    assert sorted(tmp_path.rglob("*")) == before
    da.write(tmp_path, pa.table({"x": [2]}), "overwrite", overwrite_schema=True)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"merge_schema": True}, id="merged"),
        pytest.param({"mode": "overwrite", "overwrite_schema": True}, id="overwritten"),
    ],
)
def test_a_default_of_another_column_is_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    da.write(tmp_path, ROWS, configuration={"delta.feature.allowColumnDefaults": "supported"})
    field = pa.field("d", pa.int64(), metadata={"CURRENT_DEFAULT": "id + 1"})
    schema = pa.schema([("id", pa.int32()), field])
    with pytest.raises(InvalidRequestError, match="refers to the column id"):
        da.write(tmp_path, pa.table([[1], [2]], schema=schema), **options)
    assert DeltaLog(tmp_path).snapshot().version == 0
