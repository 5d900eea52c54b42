"""A table gets a constraint only if its existing rows satisfy it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.arrow.engine import ArrowEngine
from delta_ops.ddl import (
    add_constraint,
    drop_constraint,
    drop_not_null,
    set_not_null,
    set_properties,
)
from delta_ops.errors import CommitConflictError, InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.maintenance import optimize
from delta_ops.protocol.row_rules import Check
from tests.support.counting_storage import CountingStorage
from tests.support.tables import rows_by_deltalake


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    """Two files with rows 1 to 4; the second file has one null in p."""
    da.write(tmp_path, pa.table({"id": [1, 2], "p": ["a", "b"]}))
    da.write(tmp_path, pa.table({"id": [3, 4], "p": ["c", None]}))
    return DeltaLog(tmp_path)


def test_a_constraint_that_rows_keep_is_added_and_held(log: DeltaLog) -> None:
    assert add_constraint(log, "Positive", "id > 0").version == 2
    snapshot = log.snapshot()
    assert dict(snapshot.metadata.configuration) == {"delta.constraints.positive": "id > 0"}
    assert snapshot.definition.has("checkConstraints")
    entry = next(log.history())
    assert entry.operation == "ADD CONSTRAINT"
    assert entry.operation_parameters == {"name": "Positive", "expr": "id > 0"}
    broken = pa.table({"id": [-1], "p": ["d"]})
    with pytest.raises(InvalidRequestError, match="positive"):
        da.write(log, broken)
    with pytest.raises(Exception, match="failed validation"):
        write_deltalake(log.uri, broken, mode="append")
    assert len(rows_by_deltalake(Path(log.uri))) == 4
    assert add_constraint(log, "POSITIVE", "id > 0").version is None
    with pytest.raises(InvalidRequestError, match="drop it first"):
        add_constraint(log, "positive", "id > 1")


@pytest.mark.parametrize(
    ("condition", "row"),
    [
        pytest.param("id < 4", "id = 4, p = None", id="false"),
        pytest.param("p < 'x'", "id = 4, p = None", id="null"),
        pytest.param("id <> 2 AND (p IS NOT NULL OR id = 4)", "id = 2, p = 'b'", id="two columns"),
        pytest.param("id IN (1, 2, 3, NULL)", "id = 4, p = None", id="a null in a list"),
        pytest.param("id = 1 OR id >= 3", "id = 2, p = 'b'", id="not the first row"),
        pytest.param("false", "such as id = ", id="no column at all"),
    ],
)
def test_a_row_that_breaks_a_constraint_is_named(log: DeltaLog, condition: str, row: str) -> None:
    for dry_run in (True, False):
        with pytest.raises(InvalidRequestError) as refused:
            add_constraint(log, "rule", condition, dry_run=dry_run)
        assert "CHECK constraint rule" in str(refused.value)
        assert row in str(refused.value)
    assert log.snapshot().version == 1


def test_deleted_rows_do_not_count(log: DeltaLog) -> None:
    da.write(log, pa.table({"id": [1], "p": ["a"]}), "overwrite")
    assert add_constraint(log, "p", "p IS NOT NULL").version == 3


def test_files_that_keep_it_by_their_statistics_are_not_opened(log: DeltaLog) -> None:
    opened: set[str] = set()

    def note(_number: int, _method: str, path: str, _when: str) -> None:
        if path.endswith(".parquet"):
            opened.add(path)

    counted = log.over(CountingStorage(log.storage, note))
    add_constraint(counted, "positive", "id > 0")
    assert opened == set()
    with pytest.raises(InvalidRequestError):
        add_constraint(counted, "p", "p < 'x'")
    assert len(opened) == 1


@pytest.mark.parametrize("condition", ["xxhash64(id) > 0", "id ="])
def test_conditions_outside_our_sql_need_another_engine(tmp_path: Path, condition: str) -> None:
    da.write(tmp_path, pa.table({"id": pa.array([], pa.int64())}))
    with pytest.raises(InvalidRequestError, match="needs the Spark engine"):
        add_constraint(tmp_path, "odd", condition)
    requests: list[Any] = []

    def engine(snapshot: Snapshot, definition: Any, rules: Sequence[Any]) -> None:
        requests.append((snapshot.version, *rules))
        assert rules[0] in definition.row_rules

    assert add_constraint(tmp_path, "odd", condition, engine=engine).version == 1
    assert requests == [(0, Check("odd", condition))]


@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
def test_rows_that_were_added_meanwhile_are_a_conflict(log: DeltaLog, level: str) -> None:
    if level == "WriteSerializable":
        set_properties(log, {"delta.isolationLevel": level})

    def engine(snapshot: Snapshot, definition: Any, rules: Sequence[Any]) -> None:
        da.write(log, pa.table({"id": [-1], "p": ["d"]}))

    with pytest.raises(CommitConflictError) as conflict:
        add_constraint(log, "positive", "id > 0", engine=engine)
    assert conflict.value.kind == "concurrent append"
    assert not log.snapshot().definition.row_rules


def test_an_engine_of_the_port_checks_the_rows(log: DeltaLog) -> None:
    class Watching(ArrowEngine):
        def check_rows(self, snapshot: Snapshot, definition: Any, rules: Sequence[Any]) -> None:
            checked.extend(rules)

    checked: list[Any] = []
    add_constraint(log, "positive", "id > 0", engine=Watching())
    assert checked == [Check("positive", "id > 0")]


def test_rows_that_were_only_rearranged_are_none(log: DeltaLog) -> None:
    def engine(snapshot: Snapshot, definition: Any, rules: Sequence[Any]) -> None:
        assert optimize(log).version == 2
        da.check_rows(snapshot, definition, rules)

    assert add_constraint(log, "positive", "id > 0", engine=engine).version == 3


def test_a_constraint_is_dropped(log: DeltaLog) -> None:
    add_constraint(log, "positive", "id > 0")
    assert drop_constraint(log, "POSITIVE").version == 3
    assert next(log.history()).operation_parameters == {
        "name": "POSITIVE",
        "expr": "id > 0",
        "existed": "true",
    }
    da.write(log, pa.table({"id": [-1], "p": ["d"]}))
    with pytest.raises(InvalidRequestError, match="no constraint"):
        drop_constraint(log, "positive")
    assert drop_constraint(log, "positive", if_exists=True).version is None


def test_one_of_deltalake_is_dropped(log: DeltaLog) -> None:
    DeltaTable(log.uri).alter.add_constraint({"Positive": "id > 0"})
    assert drop_constraint(log, "positive").version == 3
    assert not log.snapshot().metadata.configuration


def test_a_column_is_never_null_from_then_on(log: DeltaLog) -> None:
    assert set_not_null(log, "ID").version == 2
    assert set_not_null(log, "id").version is None
    assert next(log.history()).operation == "CHANGE COLUMN"
    assert not log.snapshot().arrow_schema.field("id").nullable
    with pytest.raises(InvalidRequestError, match="NOT NULL"):
        da.write(log, pa.table({"id": pa.array([None], pa.int64()), "p": ["d"]}))
    assert len(rows_by_deltalake(Path(log.uri))) == 4
    assert drop_not_null(log, "id").version == 3


def test_a_column_that_is_null_somewhere_is_refused_with_a_row(log: DeltaLog) -> None:
    with pytest.raises(InvalidRequestError, match=r"column p is null.*id = 4"):
        set_not_null(log, "p")
    assert log.snapshot().version == 1


@pytest.mark.parametrize(
    ("value", "is_kept"),
    [({"x": 1}, True), (None, True), ({"x": None}, False)],
    ids=["a value", "no struct", "null in a struct"],
)
def test_a_field_may_be_null_where_its_struct_is(tmp_path: Path, value: Any, is_kept: bool) -> None:
    data = pa.array([{"x": 0}, value], pa.struct([("x", pa.int64())]))
    da.write(tmp_path, pa.table({"id": [1, 2], "s": data}))
    if is_kept:
        assert set_not_null(tmp_path, "s.x").version == 1
    else:
        with pytest.raises(InvalidRequestError, match=r"column s\.x is null.*id = 2"):
            set_not_null(tmp_path, "s.x")


@pytest.mark.parametrize("column", ["a.element.c", "m.value.c"])
def test_values_in_arrays_and_maps_are_not_required(tmp_path: Path, column: str) -> None:
    struct = pa.struct([("c", pa.int64())])
    a = pa.array([[{"c": 1}]], pa.list_(struct))
    m = pa.array([[("k", {"c": 1})]], pa.map_(pa.string(), struct))
    da.write(tmp_path, pa.table({"a": a, "m": m}))
    with pytest.raises(InvalidRequestError, match=f"{column} lies within an array or a map"):
        set_not_null(tmp_path, column)
    assert DeltaLog(tmp_path).snapshot().version == 0
