"""An empty partition value is null when it is written, read, compared and checked.

Source: PROTOCOL.md, "Partition Value Serialization".
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import delta_ops.arrow as da
from delta_ops import DeltaLog, col, lit
from delta_ops.ddl import add_constraint, create_table
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import LONG, STRING, StructField, StructType
from delta_ops.protocol.values.partition_values import HIVE_DEFAULT_PARTITION
from tests.support.tables import rows, rows_by_deltalake

EMPTY_AND_FILLED = pa.table({"id": [1, 2], "p": ["", "a"]})
NULL_AND_FILLED = [{"id": 1, "p": None}, {"id": 2, "p": "a"}]


def partitioned(root: Path, p: pa.DataType | None = None) -> Path:
    """A table of id and p, partitioned by p."""
    create_table(root, pa.schema([("id", pa.int64()), ("p", p or pa.string())]), partition_by=["p"])
    return root


def generated(name: str, expression: str) -> StructField:
    return StructField(name, STRING, metadata={"delta.generationExpression": expression})


def files_under(root: Path) -> set[Path]:
    return {each for each in root.rglob("*") if each.is_file()}


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda t: da.write(t, EMPTY_AND_FILLED), id="append"),
        pytest.param(lambda t: da.write(t, EMPTY_AND_FILLED, "overwrite"), id="overwrite"),
        pytest.param(
            lambda t: (
                da.write(t, pa.table({"id": [1, 2], "p": ["x", "a"]})),
                da.update(t, {"p": "''"}, "id = 1"),
            ),
            id="update",
        ),
        pytest.param(
            lambda t: (
                da.write(t, pa.table({"id": [1, 2], "p": ["x", "a"]})),
                da.merge(t, EMPTY_AND_FILLED, "target.id = source.id")
                .when_matched_update_all()
                .execute(),
            ),
            id="merge that updates",
        ),
        pytest.param(
            lambda t: (
                da.merge(t, EMPTY_AND_FILLED, "target.id = source.id")
                .when_not_matched_insert_all()
                .execute()
            ),
            id="merge that inserts by other keys",
        ),
    ],
)
def test_an_empty_text_is_stored_as_null(tmp_path: Path, write: Callable[[Path], object]) -> None:
    write(partitioned(tmp_path))
    assert rows(da.to_table(tmp_path)) == NULL_AND_FILLED == rows_by_deltalake(tmp_path)


@pytest.mark.parametrize(
    ("predicate", "found"),
    [
        pytest.param(col("p") == "", [], id="an empty text is no value"),
        pytest.param(col("p") != "", [2], id="null differs from nothing"),
        pytest.param(col("p").is_null(), [1], id="it is null"),
        pytest.param(col("p").isin(["", "a"]), [2], id="in a list"),
    ],
)
def test_an_empty_text_of_deltalake_is_read_as_null(
    tmp_path: Path, predicate: Any, found: list[int]
) -> None:
    write_deltalake(tmp_path, EMPTY_AND_FILLED, partition_by=["p"])
    texts = {add.partition_values["p"] for add in DeltaLog(tmp_path).snapshot().add_files()}
    assert texts == {"", "a"}
    assert da.to_table(tmp_path, predicate=predicate)["id"].to_pylist() == found


def test_partitions_of_an_empty_text_and_of_null_are_replaced_together(tmp_path: Path) -> None:
    write_deltalake(tmp_path, EMPTY_AND_FILLED, partition_by=["p"])
    new = pa.table({"id": [9], "p": [""]})
    da.write(tmp_path, new, "overwrite", partition_overwrite_mode="dynamic")
    assert rows(da.to_table(tmp_path)) == [{"id": 2, "p": "a"}, {"id": 9, "p": None}]
    da.delete(tmp_path, "p IS NULL")
    assert rows(da.to_table(tmp_path)) == [{"id": 2, "p": "a"}]


@pytest.mark.parametrize(
    ("replaced", "is_taken"),
    [
        pytest.param(col("p").is_null(), True, id="null"),
        pytest.param(col("p") == "", False, id="the empty text"),
        pytest.param(col("p") != "x", False, id="what differs from a text"),
    ],
)
def test_replace_where_sees_null(tmp_path: Path, replaced: Any, *, is_taken: bool) -> None:
    da.write(partitioned(tmp_path), EMPTY_AND_FILLED)
    new = pa.table({"id": [9], "p": [""]})
    if not is_taken:
        with pytest.raises(InvalidRequestError, match="is not true, so they are outside"):
            da.write(tmp_path, new, "overwrite", replace_where=replaced)
        return
    for _ in range(2):
        da.write(tmp_path, new, "overwrite", replace_where=replaced)
    assert rows(da.to_table(tmp_path)) == [{"id": 2, "p": "a"}, {"id": 9, "p": None}]


@pytest.mark.parametrize("rule", ["p IS NOT NULL", "p <> 'b'", "length(p) < 3"])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda t: da.write(t, pa.table({"id": [3], "p": [""]})), id="write"),
        pytest.param(lambda t: da.update(t, {"p": "''"}, "id = 2"), id="update"),
    ],
)
def test_constraints_see_null(tmp_path: Path, rule: str, change: Callable[[Path], object]) -> None:
    da.write(partitioned(tmp_path), pa.table({"id": [2], "p": ["a"]}))
    add_constraint(tmp_path, "c", rule)
    with pytest.raises(InvalidRequestError, match="is not true"):
        change(tmp_path)
    assert rows(da.to_table(tmp_path)) == [{"id": 2, "p": "a"}]


def test_columns_generated_from_an_empty_text_match_null(tmp_path: Path) -> None:
    fields = (StructField("p", STRING), StructField("id", LONG))
    create_table(
        tmp_path,
        StructType((*fields, generated("g", "coalesce(p, 'none')"))),
        partition_by=["p"],
    )
    da.write(tmp_path, EMPTY_AND_FILLED)
    da.update(tmp_path, {"p": "''"}, "id = 2")
    assert da.to_table(tmp_path)["g"].to_pylist() == ["none", "none"]


def test_a_generated_partition_column_may_be_empty(tmp_path: Path) -> None:
    fields = (StructField("s", STRING), generated("p", "substring(s, 1, 1)"))
    create_table(tmp_path, StructType(fields), partition_by=["p"])
    da.write(tmp_path, pa.table({"s": ["", "ab"]}))
    da.write(tmp_path, pa.table({"s": [""], "p": [""]}))
    da.update(tmp_path, {"s": "''"}, "s = 'ab'")
    assert da.to_table(tmp_path).to_pylist() == [{"s": "", "p": None}] * 3


def test_an_empty_default_of_a_partition_column_is_null(tmp_path: Path) -> None:
    default = StructField("p", STRING, metadata={"CURRENT_DEFAULT": "''"})
    create_table(
        tmp_path,
        StructType((StructField("id", LONG), default)),
        partition_by=["p"],
        properties={"delta.feature.allowColumnDefaults": "supported"},
    )
    add_constraint(tmp_path, "c", "p IS NULL")
    ids = pa.table({"id": [1]})
    da.write(tmp_path, ids)
    merge = da.merge(tmp_path, pa.table({"id": [2]}), "target.id = source.id")
    merge.when_not_matched_insert_all().execute()
    assert rows(da.to_table(tmp_path)) == [{"id": 1, "p": None}, {"id": 2, "p": None}]


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param("target.p = source.p AND target.id = source.id", id="two keys"),
        pytest.param("upper(source.p) = target.p", id="a key that is computed"),
    ],
)
@pytest.mark.parametrize("empty", ["", b""])
def test_a_merge_never_inserts_a_row_that_its_own_key_would_not_meet(
    tmp_path: Path, empty: str | bytes, condition: str
) -> None:
    source = pa.table({"id": [1], "p": [empty]})
    filled: Any = lit("none")
    if isinstance(empty, bytes):
        condition, filled = condition.replace("upper(source.p)", "source.p"), b"none"
    da.write(partitioned(tmp_path, source["p"].type), source)
    before = files_under(tmp_path)
    merge = da.merge(tmp_path, source, condition).when_matched_update_all()
    with pytest.raises(InvalidRequestError, match="rows with an empty p, which partition col"):
        merge.when_not_matched_insert_all().execute()
    with pytest.raises(InvalidRequestError, match="each merge would insert them again"):
        merge.when_not_matched_insert({"p": "source.p"}).execute()
    assert files_under(tmp_path) == before
    assert merge.when_not_matched_insert_all("source.id > 5").execute().version is None
    merge.when_not_matched_insert({"id": "source.id", "p": filled}).execute()
    assert sorted(da.to_table(tmp_path)["id"].to_pylist()) == [1, 1]


def test_a_merge_never_inserts_a_row_that_the_rest_of_its_condition_would_not_match(
    tmp_path: Path,
) -> None:
    da.write(partitioned(tmp_path), EMPTY_AND_FILLED)
    before = files_under(tmp_path)
    condition = "target.id = source.id AND concat(target.p, '') = source.p"
    merge = da.merge(tmp_path, EMPTY_AND_FILLED, condition).when_matched_update_all()
    with pytest.raises(InvalidRequestError, match="rows with an empty p, which partition col"):
        merge.when_not_matched_insert_all().execute()
    assert files_under(tmp_path) == before
    merge.when_not_matched_insert_all("source.p <> ''").execute()
    assert rows(da.to_table(tmp_path)) == NULL_AND_FILLED


@pytest.mark.parametrize(
    "condition",
    [
        "target.id = source.id AND coalesce(target.p, '') = source.p",
        "target.id = source.id AND target.p = 'b'",
        "target.id = source.id AND lower(target.p) = source.p AND source.id > 5",
    ],
)
def test_an_empty_text_is_inserted_where_the_condition_does_not_turn_on_it(
    tmp_path: Path, condition: str
) -> None:
    partitioned(tmp_path)
    da.merge(tmp_path, EMPTY_AND_FILLED, condition).when_not_matched_insert_all().execute()
    assert rows(da.to_table(tmp_path)) == NULL_AND_FILLED


def test_rows_whose_key_is_empty_are_left_out_of_an_update(tmp_path: Path) -> None:
    da.write(partitioned(tmp_path), EMPTY_AND_FILLED)
    source = pa.table({"id": [7, 8], "p": ["", "a"]})
    da.merge(tmp_path, source, "target.p = source.p").when_matched_update_all().execute()
    assert rows(da.to_table(tmp_path)) == [{"id": 1, "p": None}, {"id": 8, "p": "a"}]


@pytest.mark.parametrize("text", [HIVE_DEFAULT_PARTITION, HIVE_DEFAULT_PARTITION.encode()])
def test_the_text_that_means_null_in_directories_is_refused(
    tmp_path: Path, text: str | bytes
) -> None:
    data = pa.table({"id": [1, 2], "p": [text, None]})
    refused = pytest.raises(
        InvalidRequestError, match=f"'p' has the value {HIVE_DEFAULT_PARTITION}"
    )
    partitioned(tmp_path, data["p"].type)
    with refused:
        da.write(tmp_path, data)
    with refused:
        da.merge(tmp_path, data, "target.id = source.id").when_not_matched_insert_all().execute()
    da.write(tmp_path, data.slice(1))
    if isinstance(text, str):
        with refused:
            da.update(tmp_path, {"p": lit(text)})
    assert da.to_table(tmp_path).to_pylist() == [{"id": 2, "p": None}]
    da.write(tmp_path / "t", data)  # a column like others
    assert len(da.to_table(tmp_path / "t")) == 2
