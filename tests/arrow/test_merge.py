"""Merges: rewritten files, commit info, and rejected calls."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import delta_ops.arrow as da
from delta_ops import begin, col, lit, parse_expression
from delta_ops.errors import CommitConflictError, InvalidRequestError
from delta_ops.planning.key_ranges import cover_keys
from delta_ops.protocol.predicate import Or, to_arrow
from delta_ops.protocol.schema.arrow_types import schema_from_arrow
from tests.arrow.test_delete import data, last_info, two_partitions
from tests.support.tables import live_paths, rows, rows_by_deltalake
from tests.support.tiers import seeded


def upsert(target: Any, source: pa.Table, on: str = "target.id = source.id", **options: Any) -> Any:
    merge = da.merge(target, source, on, **options)
    return merge.when_matched_update_all().when_not_matched_insert_all().execute()


def test_the_first_clause_whose_condition_holds_decides(tmp_path: Path) -> None:
    da.write(tmp_path, data(*range(6)))
    merge = da.merge(tmp_path, data(*range(9)), "target.id = source.id")
    merge = merge.when_matched_update({"p": lit("first")}, "source.id < 2")
    merge = merge.when_matched_update({"p": lit("second")}, "source.id < 3")
    merge = merge.when_matched_delete("source.id = 3").when_matched_delete("source.id = 4")
    merge = merge.when_not_matched_insert({"id": 100, "p": lit("one")}, "source.id < 8")
    merge.when_not_matched_insert({"id": 100, "p": lit("other")}).execute()
    assert da.to_table(tmp_path)["p"].to_pylist() == [
        *("first", "first", "second", "a", "one", "one", "other")
    ]


def test_columns_of_nulls_alone_take_the_types_of_the_table(tmp_path: Path) -> None:
    nested = pa.struct([("x", pa.int64()), ("l", pa.list_(pa.string()))])
    by_key = pa.map_(pa.string(), pa.int64())
    s, m = pa.array([{"x": 1, "l": ["a"]}], nested), pa.array([[("k", 1)]], by_key)
    da.write(tmp_path, pa.table({"id": [1], "note": ["a"], "s": s, "m": m}))
    data = {
        "id": [1, 2],
        "Note": pa.nulls(2),
        "s": pa.array([{"x": None, "l": [None]}, None]),
        "m": pa.array([[("k", None)], None], pa.map_(pa.string(), pa.null())),
    }
    upsert(tmp_path, pa.table(data))
    assert rows(da.to_table(tmp_path)) == [
        {"id": 1, "note": None, "s": {"x": None, "l": [None]}, "m": [("k", None)]},
        {"id": 2, "note": None, "s": None, "m": None},
    ]
    upsert(tmp_path, pl.DataFrame({"id": [3], "note": [None], "s": [None], "m": [None]}))
    assert len(da.to_table(tmp_path)) == 3
    upsert(tmp_path, pa.table({"id": [1], "other": pa.nulls(1)}), merge_schema=True)
    assert da.to_table(tmp_path)["other"].null_count == 3


def test_files_that_no_row_of_the_source_meets_stay(tmp_path: Path) -> None:
    log = two_partitions(tmp_path)
    before = live_paths(log)
    result = upsert(log, data(2, 99))
    assert len(before & live_paths(log)) == 2
    assert result.metrics["numTargetRowsUpdated"] == 1
    assert result.metrics["numTargetRowsInserted"] == 1
    assert result.metrics["numTargetRowsCopied"] == 2
    assert result.metrics["numTargetFilesRemoved"] == 1


def test_rows_of_a_file_of_several_batches_keep_their_columns_together(tmp_path: Path) -> None:
    ids = [number * 7919 % 300_007 for number in range(300_000)]
    texts = [f"text {number}" for number in ids]
    da.write(tmp_path, pa.table({"x": texts, "id": ids, "y": [-number for number in ids]}))
    chosen = [ids[place] for place in (0, 131_071, 131_072, 262_144, 299_999)]
    source = pa.table({"id": chosen, "x": ["new"] * len(chosen)})
    merge = da.merge(tmp_path, source, "target.id = source.id and target.y < source.id")
    merge.when_matched_update({"x": "source.x"}).execute()
    assert da.to_table(tmp_path).to_pydict() == {
        "x": ["new" if each in chosen and each else f"text {each}" for each in ids],
        "id": ids,
        "y": [-number for number in ids],
    }


def test_an_insert_alone_removes_no_file(tmp_path: Path) -> None:
    log = two_partitions(tmp_path)
    before = live_paths(log)
    merge = da.merge(log, data(2, 99, None), "target.id = source.id")
    merge.when_not_matched_insert_all().execute()
    assert before < live_paths(log)
    assert da.count_rows(log) == 9
    assert last_info(log)["operationMetrics"]["numTargetFilesRemoved"] == "0"


def test_a_source_is_taken_once(tmp_path: Path) -> None:
    log = two_partitions(tmp_path)
    reader = data(2, 99).to_reader()
    merge = da.merge(log, reader, "target.id = source.id")
    merge.when_matched_delete().when_not_matched_insert_all().execute()
    assert da.count_rows(log, col("id") == 99) == 1


def test_several_rows_for_one_are_refused_with_their_key(tmp_path: Path) -> None:
    log = two_partitions(tmp_path)
    before = sorted(tmp_path.rglob("*.parquet"))
    with pytest.raises(InvalidRequestError, match="id = 2 matches 3 source rows"):
        upsert(log, data(2, 2, 2, 3))
    assert sorted(tmp_path.rglob("*.parquet")) == before


def test_floating_point_keys_meet_as_spark_compares_them(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"x": [0.0, float("nan"), 1.5], "n": [1, 2, 3]}))
    source = pa.table({"x": [-0.0, float("nan"), 7.0], "n": [10, 20, 30]})
    da.merge(tmp_path, source, "target.x = source.x").when_matched_update(
        {"n": parse_expression("source.n")}
    ).execute()
    assert da.to_table(tmp_path)["n"].to_pylist() == [10, 20, 3]


def test_keys_may_be_fields_and_values_of_the_source(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"st": [{"x": 1}, {"x": 2}, None], "n": [1, 2, 3]}))
    source = pa.table({"y": pa.array([2, 9], pa.int8()), "m": pa.array([20, 90], pa.int16())})
    da.merge(tmp_path, source, "st.x = y * 1").when_matched_update(
        {"target.n": parse_expression("m")}
    ).execute()
    assert da.to_table(tmp_path)["n"].to_pylist() == [1, 20, 3]


def test_new_columns_of_the_source_are_added_on_request(tmp_path: Path) -> None:
    log = two_partitions(tmp_path)
    source = data(2, 99).append_column("extra", pa.array(["x", "y"]))
    with pytest.raises(InvalidRequestError, match="no column 'extra'"):
        upsert(log, source)
    upsert(log, source, merge_schema=True)
    found = da.to_table(log)
    assert found.schema.names == ["id", "p", "extra"]
    assert {(r["id"], r["extra"]) for r in found.to_pylist() if r["extra"]} == {(2, "x"), (99, "y")}
    assert rows_by_deltalake(tmp_path) == rows(found)


def test_a_column_that_only_the_source_has_is_added_where_a_clause_sets_it(tmp_path: Path) -> None:
    log = two_partitions(tmp_path)
    source = (
        data(2, 99)
        .append_column("Extra", pa.array([7, 8]))
        .append_column("left", data(2, 99)["id"])
    )
    merge = da.merge(log, source, "target.id = source.id", merge_schema=True)
    merge.when_matched_update({"target.extra": "source.extra + 1"}).execute()
    found = da.to_table(log)
    assert found.schema.names == ["id", "p", "Extra"]
    assert [r["Extra"] for r in found.to_pylist() if r["id"] == 2] == [8]
    with pytest.raises(InvalidRequestError, match="nowhere"):
        da.merge(log, source, "target.id = source.id", merge_schema=True).when_matched_update(
            {"nowhere": "1"}
        ).execute()


def test_updated_rows_move_to_the_partition_of_their_new_value(tmp_path: Path) -> None:
    log = two_partitions(tmp_path)
    upsert(log, data(3, 4, p="c"))
    assert da.count_rows(log, col("p") == "c") == 2
    assert rows_by_deltalake(tmp_path) == rows(da.to_table(log))


@pytest.mark.parametrize(
    ("appended", "conflicts"),
    [
        pytest.param(data(2), True, id="a row that the source meets"),
        pytest.param(data(50), False, id="another row"),
    ],
)
def test_a_concurrent_append_that_the_source_meets_wins(
    tmp_path: Path, appended: pa.Table, conflicts: bool
) -> None:
    log = two_partitions(tmp_path)
    transaction = begin(log)
    da.write(log, appended)
    before = {path.name for path in tmp_path.rglob("*.parquet")}
    if not conflicts:
        assert upsert(transaction, data(2)).version == 4
        return
    with pytest.raises(CommitConflictError, match="added rows"):
        upsert(transaction, data(2))
    assert {path.name for path in tmp_path.rglob("*.parquet")} == before


def test_rows_keep_the_rules_of_the_table(tmp_path: Path) -> None:
    configuration = {"delta.constraints.positive": "id > 0"}
    da.write(tmp_path, data(1, 2), configuration=configuration)
    for source in (data(-1), pa.table({"id": [1], "p": ["a"], "m": [-5]})):
        merge = da.merge(tmp_path, source, "target.id = source.id")
        values = (
            {"id": parse_expression("source.m")} if "m" in source.schema.names else {"p": lit("b")}
        )
        merge = merge.when_matched_update(values).when_not_matched_insert_all(except_cols=[])
        if "m" in source.schema.names:
            merge = da.merge(tmp_path, source, "target.id = source.id").when_matched_update(values)
        with pytest.raises(InvalidRequestError, match="CHECK constraint positive"):
            merge.execute()
    assert len(list(tmp_path.glob("*.parquet"))) == 1


ID = "target.id = source.id"


@pytest.mark.some_cases(9)
@pytest.mark.parametrize(
    ("on", "build", "message"),
    [
        ("target.id > source.id", lambda m: m.when_matched_delete(), "no equality"),
        ("id = source.id", lambda m: m.when_matched_delete(), "in both target and source"),
        (f"{ID} OR true", lambda m: m.when_matched_delete(), "no equality"),
        ("target.nope = source.id", lambda m: m.when_matched_delete(), "no column nope"),
        (
            "target.id = source.nope",
            lambda m: m.when_matched_delete(),
            "In the source of the merge: There is no column nope",
        ),
        ("target.p = source.id", lambda m: m.when_matched_delete(), "cast it"),
        (ID, lambda m: m, "no clause"),
        (ID, lambda m: m.when_matched_delete("source.id"), "A condition is of type long"),
        (ID, lambda m: m.when_matched_delete("rand() > 1"), "needs the Spark engine"),
        (ID, lambda m: m.when_matched_update({"p": "source.nope"}), "no column"),
        (ID, lambda m: m.when_matched_update({"id": lit("x")}), "string"),
        (
            ID,
            lambda m: m.when_not_matched_insert({"id": parse_expression("target.id")}),
            "no row in this clause",
        ),
        (
            ID,
            lambda m: m.when_not_matched_by_source_delete("source.id = 1"),
            "no row in this clause",
        ),
        (ID, lambda m: m.when_matched_update_all(except_cols=["nope"]), "no column nope"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_in_one_sentence(
    tmp_path: Path, on: str, build: Callable[[da.Merge], da.Merge], message: str
) -> None:
    log = two_partitions(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidRequestError, match=message) as refused:
        build(da.merge(log, data(2), on)).execute()
    assert "\n" not in str(refused.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_name_without_an_alias_is_of_the_side_that_has_a_row(tmp_path: Path) -> None:
    log = two_partitions(tmp_path)
    merge = da.merge(log, data(77, 88), ID).when_not_matched_by_source_delete("id < 5")
    merge.when_not_matched_insert({"id": "id + 1", "p": "p"}, "id = 77").execute()
    assert sorted(da.to_table(log, ["id"])["id"].drop_null().to_pylist()) == [5, 78]


@pytest.mark.parametrize("values", [["a", "b"], [1, 2], [0.0, 1.5], [date(2026, 1, 1), None]])
def test_partition_columns_among_the_keys_stay_and_others_move(
    tmp_path: Path, values: list[Any]
) -> None:
    p = pa.array([*values, values[0]])
    table = pa.table({"p": p, "id": [1, 2, 3], "v": [0, 0, 0]})
    da.write(tmp_path, table, partition_by=["p"])
    minus = pc.if_else(pc.equal(p, 0.0), -0.0, p) if pa.types.is_floating(p.type) else p
    source = pa.table({"p": minus, "id": [1, 2, 4], "v": [5, 6, 7]})
    keys = "target.p = source.p AND target.id = source.id"
    merge = da.merge(tmp_path, source, keys).when_matched_update_all()
    merge.when_not_matched_insert_all().execute()
    met = {(2, 6)} if values[1] is not None else {(2, 0), (2, 6)}
    expected = {(1, 5), (3, 0), (4, 7)} | met
    found = da.to_table(tmp_path)
    assert set(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True)) == expected
    assert found.num_rows == len(expected)
    other = {"p": "source.q", "v": "source.v"}
    moved = pa.table({"p": minus, "id": [1, 2, 4], "v": [9, 9, 9], "q": p.take([1, 0, 1])})
    da.merge(tmp_path, moved, keys).when_matched_update(other).execute()
    first = da.to_table(tmp_path, predicate=col("id") == 1).to_pylist()
    assert first == [{"p": values[1], "id": 1, "v": 9}]


@pytest.mark.parametrize(
    "data_type",
    [
        *(pa.int8(), pa.int64(), pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us")),
        *(pa.string(), pa.binary(), pa.decimal128(20, 2), pa.float64(), pa.bool_()),
    ],
    ids=str,
)
def test_files_are_chosen_by_ranges_that_hold_every_key(data_type: pa.DataType) -> None:
    for count in (0, 3, 500):
        check_ranges(data_type, count)


def check_ranges(data_type: pa.DataType, count: int) -> None:
    random = seeded(count)
    numbers = pa.array([random.choice([7, 1_000]) * random.randrange(10**5) for _ in range(count)])
    if data_type in (pa.int8(), pa.bool_()):
        numbers = pa.array([random.randrange(2) for _ in range(count)], pa.int64())
    by_text = data_type in (pa.string(), pa.binary(), pa.decimal128(20, 2))
    width = pa.int32() if data_type == pa.date32() else pa.int64()
    keys = numbers.cast(pa.string() if by_text else width).cast(data_type)
    rows_of_keys = pa.table({"k": keys})
    predicate = cover_keys([("k",)], [pa.concat_arrays([keys, pa.nulls(1, data_type)])])
    kept = rows_of_keys.filter(to_arrow(predicate, schema_from_arrow(rows_of_keys.schema)))
    assert len(kept) == count
    assert not isinstance(predicate, Or) or len(predicate.operands) == 64


def test_a_file_of_several_groups_of_rows_is_merged_in_one(tmp_path: Path) -> None:
    count = 1_300_000
    da.write(tmp_path, pa.table({"id": pa.arange(0, count), "n": pa.repeat(0, count)}))
    wanted = [5, 131_072, 1_048_576, 1_299_999]
    upsert(tmp_path, pa.table({"id": wanted, "n": [1] * 4}))
    found = da.to_table(tmp_path, predicate=col("n") == 1)
    assert found["id"].to_pylist() == wanted
    assert da.count_rows(tmp_path) == count


@pytest.mark.parametrize(
    ("of_table", "of_source", "fits", "fits_not"),
    [
        (pa.int8(), pa.int64(), 5, [2**40, -300]),
        (pa.int32(), pa.float64(), 5.0, [0.5, 1e300]),
        (pa.float32(), pa.float64(), 0.5, [0.1, 1e300]),
        (pa.decimal128(5, 1), pa.decimal128(9, 3), Decimal("1.5"), [Decimal("1.501")]),
        (pa.decimal128(5, 1), pa.int64(), 5, [2**40]),
    ],
)
def test_a_key_that_the_table_cannot_have_meets_no_row(
    tmp_path: Path, of_table: Any, of_source: Any, fits: Any, fits_not: list[Any]
) -> None:
    kept = pa.array([Decimal(fits) if pa.types.is_decimal(of_table) else fits], of_table)
    da.write(tmp_path, pa.table({"id": kept, "v": [0]}))
    keys = [fits_not[0], None, fits, *fits_not[1:]]
    source = pa.table({"id": pa.array(keys, of_source), "v": range(1, len(keys) + 1)})
    merge = da.merge(tmp_path, source, "target.id = source.id")
    merge.when_matched_update({"v": "source.v"}).execute()
    assert da.to_table(tmp_path)["v"].to_pylist() == [3]
    assert sorted(row["v"] for row in rows_by_deltalake(tmp_path)) == [3]
    with pytest.raises(InvalidRequestError, match="does not fit"):
        upsert(tmp_path, source)


def test_keys_that_are_floats_in_the_table_alone_must_be_its_values(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [2.0**53], "v": [0]}))
    source = pa.table({"id": [2**53 + 1], "v": [1]})
    merge = da.merge(tmp_path, source, "target.id = source.id")
    with pytest.raises(InvalidRequestError, match=r"'id' is double .* does not fit"):
        merge.when_matched_update_all().execute()


def test_a_key_beyond_the_type_of_the_table_widens_it(tmp_path: Path) -> None:
    widening = {"delta.enableTypeWidening": "true"}
    target = pa.table({"id": pa.array([1, 2], pa.int16()), "v": [0, 0]})
    da.write(tmp_path, target, configuration=widening)
    upsert(tmp_path, pa.table({"id": [2, 2**40], "v": [1, 1]}), merge_schema=True)
    found = da.to_table(tmp_path).sort_by("id")
    assert found.to_pylist() == [{"id": n, "v": int(n > 1)} for n in (1, 2, 2**40)]
    assert found.schema.field("id").type == pa.int64()
