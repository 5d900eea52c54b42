"""Deletes, compared with plain Python rows: changed files and commit info."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col, parse_expression
from delta_ops.errors import (
    CommitConflictError,
    InvalidRequestError,
    StorageError,
    TableNotFoundError,
)
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from delta_ops.storage import open_storage
from tests.protocol.test_predicate_properties import SCHEMA, Row, evaluate, predicates
from tests.protocol.test_predicate_properties import rows as random_rows
from tests.support.counting_storage import CountingStorage
from tests.support.examples import check_examples, few_or_many
from tests.support.tables import live_paths, rows, rows_by_deltalake

ARROW_SCHEMA = arrow_schema_from_schema(SCHEMA)


def data(*ids: int | None, p: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array([p] * len(ids))})


def two_partitions(root: Path, **configuration: str) -> DeltaLog:
    """Three files, a version each."""
    source_data = {f"delta.{name}": value for name, value in configuration.items()}
    da.write(root, data(1, 2, None), partition_by=["p"], configuration=source_data)
    da.write(root, data(3, 4))
    da.write(root, data(1, 5, p="b"))
    return DeltaLog(root)


def last_info(log: DeltaLog) -> dict[str, Any]:
    return dict(next(iter(log.history(limit=1))).commit_info)


def as_rows(found: Sequence[Row]) -> list[str]:
    """Rows to compare; NaN and the sign of zero as texts."""
    return sorted(repr(dict(row)) for row in pa.Table.from_pylist(list(found)).to_pylist())


def typed(listed: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(listed), schema=ARROW_SCHEMA)


@few_or_many(10, 40)
def test_a_delete_keeps_the_rows_that_do_not_match(
    num_examples: int,
) -> None:
    check_examples(
        num_examples,
        check_delete,
        predicates(),
        st.lists(st.lists(random_rows, min_size=1, max_size=4), min_size=1, max_size=3),
        st.booleans(),
    )


def check_delete(predicate: Predicate, files: list[list[Row]], is_partitioned: bool) -> None:
    with tempfile.TemporaryDirectory() as root:
        for listed in files:
            da.write(root, typed(listed), partition_by=["flag"] if is_partitioned else None)
        before = da.to_table(root).to_pylist()
        da.delete(root, predicate)
        left = da.to_table(root).to_pylist()
        assert as_rows(left) == as_rows([r for r in before if evaluate(predicate, r) is not True])


def test_files_that_hold_no_matching_row_stay(tmp_path: Path) -> None:
    log = two_partitions(tmp_path)
    before = live_paths(log)
    result = da.delete(log, col("id") == 2)
    assert len(before & live_paths(log)) == 2
    assert rows(da.to_table(log)) == rows_by_deltalake(tmp_path)
    assert [result.metrics[name] for name in ("numRemovedFiles", "numAddedFiles")] == [1, 1]
    assert [result.metrics[name] for name in ("numDeletedRows", "numCopiedRows")] == [1, 2]


def test_a_file_whose_rows_all_match_is_removed_alone(tmp_path: Path) -> None:
    log = two_partitions(tmp_path)
    result = da.delete(log, parse_expression("id + 0 >= 3 AND p = 'a'"))
    assert result.metrics["numAddedFiles"] == 0
    assert result.metrics["numDeletedRows"] == 2


def test_a_text_is_a_condition_in_sql(tmp_path: Path) -> None:
    log = two_partitions(tmp_path)
    result = da.delete(log, "id + 0 >= 3 AND p = 'a'")
    assert result.metrics["numDeletedRows"] == 2
    da.update(log, {"id": "id + 100"}, "id < 2")
    assert 101 in da.to_table(log)["id"].to_pylist()


def test_a_delete_of_a_partition_opens_no_file(tmp_path: Path) -> None:
    two_partitions(tmp_path)
    opened: list[str] = []
    storage = CountingStorage(
        open_storage(str(tmp_path)), lambda _n, _m, path, _w: opened.append(path)
    )
    da.delete(DeltaLog("", storage=storage), col("p") == "a", hooks=())
    assert not [path for path in opened if path.endswith(".parquet")]
    assert rows_by_deltalake(tmp_path) == [{"id": 1, "p": "b"}, {"id": 5, "p": "b"}]


def test_where_no_row_matches_nothing_is_committed(tmp_path: Path) -> None:
    log = two_partitions(tmp_path)
    assert da.delete(log, col("id") == 99).version is None
    assert log.snapshot().version == 2


def test_all_rows_are_deleted_without_a_predicate(tmp_path: Path) -> None:
    log = two_partitions(tmp_path)
    assert da.delete(log).metrics["numDeletedRows"] == 7
    assert da.to_table(log).num_rows == 0


def test_a_delete_with_a_txn_is_done_once_even_where_no_row_matches(tmp_path: Path) -> None:
    log = two_partitions(tmp_path)
    assert da.delete(log, col("id") == 99, txn=("app", 1)).version == 3
    da.write(log, data(99))
    again = da.delete(log, col("id") == 99, txn=("app", 1))
    assert (again.already_committed, again.version) == (True, 3)
    assert da.count_rows(log, col("id") == 99) == 1


@pytest.mark.parametrize(
    ("appended", "conflicts"),
    [
        pytest.param(data(2), True, id="a matching row"),
        pytest.param(data(50), False, id="another row"),
    ],
)
def test_a_concurrent_append_that_matches_wins(
    tmp_path: Path, appended: pa.Table, conflicts: bool
) -> None:
    log = two_partitions(tmp_path)
    transaction = begin(log)
    da.write(log, appended)
    before = {path.name for path in tmp_path.rglob("*.parquet")}
    if not conflicts:
        assert da.delete(transaction, col("id") == 2).version == 4
        return
    with pytest.raises(CommitConflictError, match="added rows"):
        da.delete(transaction, col("id") == 2)
    assert {path.name for path in tmp_path.rglob("*.parquet")} == before


def test_a_failing_store_leaves_no_file_behind(tmp_path: Path) -> None:
    two_partitions(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    made: list[str] = []

    def fail(_number: int, method: str, path: str, when: str) -> None:
        if method == "create_from_stream" and when == "before":
            made.append(path)
            if len(made) == 2:
                raise StorageError(path, "created", "no space")

    storage = CountingStorage(open_storage(str(tmp_path)), fail)
    with pytest.raises(StorageError):
        da.delete(DeltaLog("", storage=storage), parse_expression("id = 1 OR id = 3"))
    assert len(made) >= 2
    assert [p for p in sorted(tmp_path.rglob("*")) if p.is_file()] == [
        p for p in before if p.is_file()
    ]


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        (col("nope") == 1, "no column nope"),
        (parse_expression("id + 1"), "A condition is of type long"),
        (parse_expression("upper(id) = 'A'"), "needs the Spark engine"),
        ("id + 1", "A condition is of type long"),
        ("upper(id) = 'A'", "needs the Spark engine"),
        ("id = ", "id = "),
        (parse_expression("1 / id > 0 AND id / 0 = 1"), "divide by zero"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_in_one_sentence(
    tmp_path: Path, predicate: Any, message: str
) -> None:
    log = two_partitions(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidRequestError, match=message):
        da.delete(log, predicate)
    assert sorted(tmp_path.rglob("*")) == before


def test_there_must_be_a_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        da.delete(tmp_path / "none")


def test_a_char_column_is_compared_as_readers_see_it(tmp_path: Path) -> None:
    from delta_ops.protocol.schema import STRING, StructField, StructType
    from delta_ops.transaction import Staged

    metadata = {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}
    transaction = begin(DeltaLog(tmp_path))
    transaction.create_table(StructType((StructField("c", STRING, metadata=metadata),)))
    definition = transaction.definition
    transaction.stage(Staged(adds=(), schema=definition.schema, partition_columns=(), num_rows=0))
    transaction.commit(operation="CREATE TABLE")
    da.write(tmp_path, pa.table({"c": ["a", "b"]}))
    da.delete(tmp_path, col("c") == "a")
    assert da.to_table(tmp_path)["c"].to_pylist() == ["b  "]


def test_a_file_with_more_rows_than_its_statistics_say_keeps_them(tmp_path: Path) -> None:
    log = two_partitions(tmp_path)
    (add,) = (
        each for each in log.snapshot().add_files() if '"maxValues":{"id":4}' in str(each.stats)
    )
    recorded = replace(add, stats='{"numRecords":1}', data_change=False)
    create_commit(log.storage, log.log_directory, 3, [recorded])
    da.delete(log, col("id") == 3)
    assert da.count_rows(log, col("id") == 4) == 1
