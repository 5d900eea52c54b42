"""CHAR columns: readers get padded values even if the writer did not pad."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.ddl import create_table
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import (
    LONG,
    STRING,
    ArrayType,
    MapType,
    StructField,
    StructType,
)
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from tests.arrow.foreign_table import create, data_file, stats
from tests.support.limited_texts import FULL, LONGER, create_limited, of_type, rows_of

FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    """Two partitions, one with a padded value and one without padding."""
    nested = StructType((StructField("f", STRING),))
    schema = StructType(
        (
            StructField("id", LONG),
            of_type("c", "char(3)"),
            of_type("v", "varchar(3)"),
            of_type("s", "struct<f:char(3)>", nested),
            of_type("p", "char(4)"),
        )
    )

    def file(name: str, p: str | None, ids: list[int], texts: list[str | None]) -> object:
        rows = pa.table({"id": ids, "c": texts, "v": texts, "s": [{"f": t} for t in texts]})
        known = [t for t in texts if t is not None]
        recorded = stats(
            numRecords=len(ids),
            minValues={"c": min(known), "v": min(known)},
            maxValues={"c": max(known), "v": max(known)},
            nullCount={"c": len(texts) - len(known)},
        )
        return data_file(tmp_path, name, rows, partition_values={"p": p}, stats=recorded)

    adds = [file("x", "nl", [1, 2], ["a", None]), file("y", "be  ", [3, 4], ["a  ", "é"])]
    adds.append(file("z", None, [5], ["abc"]))
    return create(tmp_path, schema, adds, FEED, ("p",))  # type: ignore[arg-type]


def test_values_come_with_their_padding(log: DeltaLog) -> None:
    found = da.to_table(log)
    assert found["c"].to_pylist() == ["a  ", None, "a  ", "é  ", "abc"]
    assert found["p"].to_pylist() == ["nl  ", "nl  ", "be  ", "be  ", None]
    assert found["v"].to_pylist() == ["a", None, "a  ", "é", "abc"]
    (first, *_) = da.to_batches(log, ["c"])
    assert first["c"][0].as_py() == "a  "
    changes = da.read_changes(log, 0, columns=["c", "p"]).read_all()
    assert changes.to_pylist()[0] == {"c": "a  ", "p": "nl  "}


@pytest.mark.parametrize(
    ("predicate", "ids"),
    [
        pytest.param(col("c") == "a", [1, 3], id="equal, without padding"),
        pytest.param(col("c") == "a  ", [1, 3], id="equal, with padding"),
        pytest.param(col("c") == "a     ", [1, 3], id="equal, with more padding"),
        pytest.param(col("c") == "abcd", [], id="longer than the type"),
        pytest.param(col("c") != "a", [4, 5], id="not equal"),
        pytest.param(col("c") <= "a", [1, 3], id="at most"),
        pytest.param(col("c") > "a", [4, 5], id="above"),
        pytest.param(col("c").isin(["a", "é    "]), [1, 3, 4], id="in"),
        pytest.param(~col("c").isin(["a", None]), [], id="in, with null"),
        pytest.param(col("c").is_null(), [2], id="null"),
        pytest.param(col("p") == "nl", [1, 2], id="a partition, without padding"),
        pytest.param(col("p") == "be", [3, 4], id="a partition that is stored with it"),
        pytest.param(col("p").isin(["be ", "nl "]), [1, 2, 3, 4], id="partitions"),
        pytest.param(col("v") == "a", [1], id="a VARCHAR is compared as it is"),
    ],
)
def test_comparisons_are_padded(log: DeltaLog, predicate: Predicate, ids: list[int]) -> None:
    assert da.to_table(log, ["id"], predicate)["id"].to_pylist() == ids
    assert da.count_rows(log, predicate) == len(ids)


def test_partitions_are_left_out_by_their_padded_values(log: DeltaLog) -> None:
    assert len(log.snapshot().files(["path"], col("p") == "be")) == 1
    assert len(log.snapshot().files(["path"], col("p") > "nl")) == 0


@pytest.mark.parametrize(("literal", "ids"), [("a", []), ("a  ", [1, 3]), ("a   ", [])])
def test_a_field_is_padded_and_what_it_is_compared_with_is_not(
    log: DeltaLog, literal: str, ids: list[int]
) -> None:
    assert da.to_table(log, ["id"], col("s", "f") == literal)["id"].to_pylist() == ids


def test_members_at_every_depth_come_with_their_padding(tmp_path: Path) -> None:
    inner = StructType((StructField("a.b", STRING), StructField("v", STRING)))
    nested = StructType(
        (
            StructField("l", ArrayType(inner)),
            StructField("m", MapType(STRING, STRING)),
            StructField("a", ArrayType(STRING)),
        )
    )
    sql_type = (
        "struct<l:array<struct<`a.b`:char(2),v:varchar(9)>>,m:map<char(3),string>,"
        "a:array<char(1)>,gone:decimal(10,2)>"
    )
    schema = StructType((StructField("id", LONG), of_type("s", sql_type, nested)))
    stored: list[object] = [
        None,
        {"l": [{"a.b": "x", "v": "y"}, None], "m": [("k", "w")], "a": ["", None]},
        {"l": None, "m": None, "a": []},
        {"l": [{"a.b": None, "v": None}], "m": [("kkkk", None)], "a": None},
    ]
    s_type = arrow_schema_from_schema(schema).field("s").type
    rows = pa.table({"id": [0, 1, 2, 3], "s": pa.array(stored, s_type)})
    log = create(tmp_path, schema, [data_file(tmp_path, "x", rows)])
    expected: list[object] = [
        None,
        {"l": [{"a.b": "x ", "v": "y"}, None], "m": [("k  ", "w")], "a": [" ", None]},
        {"l": None, "m": None, "a": []},
        {"l": [{"a.b": None, "v": None}], "m": [("kkkk", None)], "a": None},
    ]
    assert da.to_table(log)["s"].to_pylist() == expected
    found = da.to_table(log, predicate=col("id") >= 2)
    assert found["s"].to_pylist() == expected[2:]


@pytest.fixture
def limited(tmp_path: Path) -> DeltaLog:
    return create_limited(tmp_path / "limited")


@pytest.mark.parametrize("path", LONGER)
def test_a_longer_value_than_the_type_allows_is_refused(limited: DeltaLog, path: str) -> None:
    column, value = path.partition(".")[0], LONGER[path]
    before = da.to_table(limited)
    longer = rows_of(FULL, {"id": 3, column: value}, {"id": 4, column: value})
    merged = rows_of({"id": 2, column: value})
    expected = rf"column {path} holds at most 3 characters, .*first such row: id = "
    with pytest.raises(InvalidRequestError, match=f"{expected}3"):
        da.write(limited, longer)
    with pytest.raises(InvalidRequestError, match=f"{expected}3"):
        da.merge(
            limited, longer, "t.id = s.id", target_alias="t", source_alias="s"
        ).when_not_matched_insert_all().execute()
    with pytest.raises(InvalidRequestError, match=f"{expected}2"):
        da.merge(
            limited, merged, "t.id = s.id", target_alias="t", source_alias="s"
        ).when_matched_update_all().execute()
    assert limited.snapshot().version == 1
    assert da.to_table(limited).equals(before)


def test_an_update_to_a_longer_value_is_refused(limited: DeltaLog) -> None:
    with pytest.raises(InvalidRequestError, match="column v holds at most 3 characters"):
        da.update(limited, {"v": "'abcd'"}, col("id") == 2)
    da.update(limited, {"v": "'éöü'", "c": "'a'"}, col("id") == 2)
    found = da.to_table(limited, ["c", "v"], col("id") == 2)
    assert found.to_pylist() == [{"c": "a  ", "v": "éöü"}]


def test_longer_values_that_are_there_do_not_hinder(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "c": ["abcd", "a"]})
    schema = StructType((StructField("id", LONG), of_type("c", "char(3)")))
    log = create(tmp_path, schema, [data_file(tmp_path, "x", rows)])
    da.update(log, {"id": "3"}, col("id") == 2)
    assert da.to_table(log)["c"].to_pylist() == ["abcd", "a  "]


def test_a_copy_is_what_readers_see(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3], "c": ["a", "b  ", None], "t": ["", "", ""]})
    nested = StructType((StructField("f", STRING),))
    schema = StructType(
        (
            StructField("id", LONG),
            of_type("c", "char(3)"),
            StructField("t", STRING),
            StructField("s", nested),
        )
    )
    log = create(tmp_path, schema, [data_file(tmp_path, "x", rows)])
    da.update(log, {"t": "c", "s.f": "c"})
    found = da.to_table(log, ["t", "s"]).to_pylist()
    assert found == [{"t": each, "s": {"f": each}} for each in ("a  ", "b  ", None)]
    merge = da.merge(log, pa.table({"id": [1, 3]}), "target.id = source.id")
    merge.when_matched_update({"t": "target.c", "id": "10"}).execute()
    assert sorted(da.to_table(log, ["id", "t"])["t"].drop_null().to_pylist()) == ["a  ", "b  "]


def upsert(table: Path, key: str, on: str = "t.c = s.c") -> None:
    source = pa.table({"id": [1], "c": [key]})
    merge = da.merge(table, source, on, target_alias="t", source_alias="s")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


@pytest.mark.parametrize("partition_by", [(), ("c",)], ids=["a column", "a partition column"])
def test_a_merge_matches_a_key_only_with_its_padding(
    tmp_path: Path, partition_by: tuple[str, ...]
) -> None:
    create_table(
        tmp_path,
        StructType((StructField("id", LONG), of_type("c", "char(3)"))),
        partition_by=partition_by,
    )
    da.write(tmp_path, pa.table({"id": [0], "c": ["a"]}))
    upsert(tmp_path, "a  ")
    assert da.to_table(tmp_path).to_pylist() == [{"id": 1, "c": "a  "}]
    with pytest.raises(InvalidRequestError, match=r"a shorter c than its .*spaces to 3 characters"):
        upsert(tmp_path, "a")
    for _ in range(2):
        upsert(tmp_path, "b", "t.c = concat(s.c, '  ')")
    assert sorted(da.to_table(tmp_path)["c"].to_pylist()) == ["a  ", "b  "]
