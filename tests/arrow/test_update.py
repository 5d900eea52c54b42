"""Updates, compared with plain Python rows: changed files and rejected calls."""

from __future__ import annotations

import tempfile
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops import begin, col, lit, parse_expression
from delta_ops.errors import CommitConflictError, InvalidRequestError
from delta_ops.protocol.predicate import Predicate
from tests.arrow.test_delete import as_rows, data, last_info, two_partitions, typed
from tests.protocol.test_predicate_properties import (
    SCHEMA,
    Row,
    evaluate,
    predicates,
)
from tests.protocol.test_predicate_properties import rows as random_rows
from tests.support.examples import check_examples, few_or_many
from tests.support.tables import live_paths, rows, rows_by_deltalake


@st.composite
def assignments(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of `update`, and for each column a function of the old row or a value."""
    by_expression = {
        "i": (parse_expression("coalesce(tiny, small, 7)"), lambda r: first(r, "tiny", "small", 7)),
        "n": (parse_expression("CASE WHEN flag THEN tiny ELSE n END"), by_flag),
        "s": (parse_expression("p || s"), lambda r: joined(r["p"], r["s"])),
        "st": (parse_expression("st"), lambda r: r["st"]),
        "flag": (parse_expression("tiny IS NULL"), lambda r: r["tiny"] is None),
    }
    chosen = draw(st.lists(st.sampled_from(list(by_expression)), unique=True))
    data: dict[str, Any] = {name: by_expression[name][0] for name in chosen}
    models: dict[str, Any] = {name: by_expression[name][1] for name in chosen}
    new = draw(random_rows)
    others = [f.name for f in SCHEMA.fields if f.name not in by_expression]
    for name in draw(st.lists(st.sampled_from(others), unique=True, min_size=1)):
        models[name] = new[name]
        data[name] = lit(new[name]) if isinstance(new[name], str) else new[name]
    return data, models


def first(row: Row, *names: Any) -> Any:
    return next((v for v in (row.get(n, n) for n in names) if v is not None), None)


def by_flag(row: Row) -> Any:
    return row["tiny"] if row["flag"] else row["n"]


def joined(one: Any, other: Any) -> Any:
    return None if one is None or other is None else one + other


def updated(row: Row, models: dict[str, Any]) -> Row:
    return {**row, **{name: m(row) if callable(m) else m for name, m in models.items()}}


@few_or_many(8, 40)
def test_an_update_changes_the_rows_that_match(
    num_examples: int,
) -> None:
    check_examples(
        num_examples,
        check_update,
        assignments(),
        predicates(),
        st.lists(st.lists(random_rows, min_size=1, max_size=4), min_size=1, max_size=3),
        st.booleans(),
    )


def check_update(
    values: tuple[dict[str, Any], dict[str, Any]],
    predicate: Predicate,
    files: list[list[Row]],
    is_partitioned: bool,
) -> None:
    data, models = values
    with tempfile.TemporaryDirectory() as root:
        for listed in files:
            da.write(root, typed(listed), partition_by=["flag"] if is_partitioned else None)
        before = da.to_table(root).to_pylist()
        da.update(root, data, predicate)
        expected = [updated(r, models) if evaluate(predicate, r) is True else r for r in before]
        found = da.to_table(root)
        assert as_rows(found.to_pylist()) == as_rows(typed(expected).to_pylist())


def test_files_without_a_matching_row_stay(tmp_path: Path) -> None:
    log = two_partitions(tmp_path)
    before = live_paths(log)
    result = da.update(log, {"id": parse_expression("id * 10")}, col("id") == 2)
    assert len(before & live_paths(log)) == 2
    assert rows(da.to_table(log)) == rows_by_deltalake(tmp_path)
    assert [result.metrics[name] for name in ("numUpdatedRows", "numCopiedRows")] == [1, 2]
    assert last_info(log)["operation"] == "UPDATE"


def test_rows_move_to_the_partition_of_their_new_value(tmp_path: Path) -> None:
    log = two_partitions(tmp_path)
    da.update(log, {"p": lit("b")}, col("id") <= 2)
    assert da.count_rows(log, col("p") == "b") == 4
    assert rows(da.to_table(log)) == rows_by_deltalake(tmp_path)


def test_expressions_see_the_old_values(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"a": [1], "b": [2]}))
    da.update(tmp_path, {"a": parse_expression("b"), "B": parse_expression("a")})
    assert da.to_table(tmp_path).to_pylist() == [{"a": 2, "b": 1}]


def test_python_values_are_taken_as_they_are(tmp_path: Path) -> None:
    columns = {
        "text": pa.array(["x"]),
        "day": pa.array([None], pa.date32()),
        "amount": pa.array([None], pa.decimal128(10, 2)),
        "tags": pa.array([["a"]]),
        "place": pa.array([{"x": 1}]),
    }
    new = {
        "text": lit("a + b"),
        "day": date(2026, 1, 31),
        "amount": 1.5,
        "tags": ["b"],
        "place": None,
    }
    da.write(tmp_path, pa.table(columns))
    da.update(tmp_path, {**new, "text": lit("a + b")})
    assert da.to_table(tmp_path).to_pylist() == [
        {**new, "text": "a + b", "amount": Decimal("1.50")}
    ]


@pytest.mark.some_cases(9)
@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"nope": 1}, "no column nope"),
        ({"id": 1, "ID": 2}, "set twice"),
        ({"id": b"x"}, "cannot hold b'x'"),
        ({"id": lit("x")}, "is int64 in the table and string"),
        ({"p": "Anna"}, "no column Anna"),
        ({"id": 2**63}, "cannot hold"),
        ({"id": col("id")}, "expression of SQL"),
        ({"id": parse_expression("p")}, "is int64 in the table and string"),
        ({"id": parse_expression("id / 2")}, "does not fit"),
        ({"id": parse_expression("id * 9223372036854775807")}, "overflow"),
        ({"id": parse_expression("id / 0")}, "divide by zero"),
        ({"id": parse_expression("nope")}, "no column nope"),
        ({}, "no column gets a value"),
        ({1: 2}, "not a column"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_and_leave_no_files(
    tmp_path: Path, argument: Any, message: str
) -> None:
    log = two_partitions(tmp_path)
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    with pytest.raises(InvalidRequestError, match=message) as refused:
        da.update(log, argument)
    assert "\n" not in str(refused.value)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before


def test_new_values_keep_the_rules_of_the_table(tmp_path: Path) -> None:
    never_null = pa.field("n", pa.int64(), nullable=False)
    da.write(
        tmp_path,
        pa.table({"id": [1, 2], "n": [1, 2]}, schema=pa.schema([("id", pa.int64()), never_null])),
        configuration={"delta.constraints.positive": "id > 0"},
    )
    with pytest.raises(InvalidRequestError, match="CHECK constraint positive"):
        da.update(tmp_path, {"id": parse_expression("-id")}, col("id") == 2)
    with pytest.raises(InvalidRequestError, match="NOT NULL"):
        da.update(tmp_path, {"n": None}, col("id") == 2)
    assert len(list(tmp_path.glob("*.parquet"))) == 1
    da.update(tmp_path, {"id": parse_expression("id + 1")})
    assert da.to_table(tmp_path)["id"].to_pylist() == [2, 3]


def test_a_concurrent_append_that_matches_wins(tmp_path: Path) -> None:
    log = two_partitions(tmp_path)
    transaction = begin(log)
    da.write(log, data(2))
    with pytest.raises(CommitConflictError, match="added rows"):
        da.update(transaction, {"id": 0}, col("id") == 2)


def test_the_time_of_a_statement_is_one_for_all_its_rows(tmp_path: Path) -> None:
    times = pa.array([None, None], pa.timestamp("us", "UTC"))
    days = pa.array([None, None], pa.date32())
    da.write(tmp_path, pa.table({"id": [1, 2], "a": times, "b": times, "day": days}))
    before = datetime.now(UTC).replace(microsecond=0)
    new = {"a": "current_timestamp()", "b": "now()", "day": "date_sub(current_date(), 1)"}
    da.update(
        tmp_path, new, parse_expression("a IS NULL AND now() > TIMESTAMP '2026-01-01 00:00:00Z'")
    )
    found = da.to_table(tmp_path).to_pylist()
    assert len({each["a"] for each in found} | {each["b"] for each in found}) == 1
    assert before <= found[0]["a"] <= datetime.now(UTC)
    assert found[0]["day"] == found[0]["a"].date() - timedelta(days=1)


def test_rows_are_merged_with_the_time_of_the_merge(tmp_path: Path) -> None:
    times = pa.array([None], pa.timestamp("us", "UTC"))
    da.write(tmp_path, pa.table({"id": [1], "at": times}))
    merge = da.merge(tmp_path, pa.table({"id": [1, 2]}), "target.id = source.id")
    merge = merge.when_matched_update(
        {"at": "current_timestamp()"}, "current_date() > '2026-01-01'"
    )
    merge.when_not_matched_insert({"id": "source.id", "at": "now()"}).execute()
    found = da.to_table(tmp_path)["at"].to_pylist()
    assert len(found) == 2
    assert found[0] is not None
    assert found[0] == found[1]


def test_decimals_beside_floating_point_numbers_are_doubles(tmp_path: Path) -> None:
    floats = pa.array([2.0, 0.1], pa.float32())
    da.write(tmp_path, pa.table({"price": [1.0, 3.0], "f": floats, "made": [0.0, 0.0]}))
    da.update(tmp_path, {"price": "price * 1.1", "made": "f * 1.1"}, "price > 1.5")
    assert da.to_table(tmp_path)["price"].to_pylist() == [1.0, 3.0 * 1.1]
    assert da.to_table(tmp_path)["made"].to_pylist() == [0.0, floats[1].as_py() * 1.1]
    da.delete(tmp_path, "f = 0.1")  # which no FLOAT is
    da.delete(tmp_path, "price < 2 * 1.5 - 1.9")
    assert da.to_table(tmp_path)["price"].to_pylist() == [3.0 * 1.1]
