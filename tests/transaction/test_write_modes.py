"""Write modes and schema changes in the Arrow engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.errors import CommitConflictError, InvalidRequestError, TableExistsError
from delta_ops.events import CommitAttempted, DataFilesStaged, Event, OnEvent
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.schema import schema_from_json
from tests.support.tables import PROTOCOL, metadata, rows, rows_by_deltalake

MODES = ("append", "overwrite", "error", "ignore")


def data(*ids: int, p: str | None = "a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array([p] * len(ids), pa.string())})


def before_the_commit(act: Callable[[], object]) -> OnEvent:
    """Let others act after the files are written and before the commit."""
    pending = [act]

    def on_event(event: Event) -> None:
        if isinstance(event, CommitAttempted | DataFilesStaged) and pending:
            pending.pop()()

    return on_event


def ids(root: Path) -> list[int]:
    return [row["id"] for row in rows(da.to_table(root, ["id"]))]


def data_files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*.parquet")}


def live_files(root: Path) -> set[str]:
    return set(DeltaLog(root).snapshot().files(["path"])["path"].to_pylist())


def last_commit(root: Path) -> list[Any]:
    path = max((root / "_delta_log").glob("*.json"))
    return [json.loads(line) for line in path.read_text().splitlines()]


def set_property(root: Path) -> None:
    transaction = begin(root)
    transaction.set_properties({"owner": "a team"})
    transaction.commit(operation="SET TBLPROPERTIES")


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_properties_that_an_existing_table_lacks_are_reported(
    tmp_path: Path, mode: Any, caplog: pytest.LogCaptureFixture
) -> None:
    own = {
        "delta.appendOnly": "false",
        "owner": "a team",
        "delta.feature.checkConstraints": "supported",
    }
    da.write(tmp_path, data(1), configuration=own)
    da.write(tmp_path, data(2), mode, configuration=own)
    assert caplog.messages == []
    others = {"DELTA.appendOnly": "true", "owner": "a team", "new": "x"}
    da.write(tmp_path, data(3), mode, configuration=others)
    assert [
        each.partition(", and this table ")[2].partition(";")[0] for each in caplog.messages
    ] == [
        "has 'false'",
        "does not have it",
    ]
    assert all("ddl.set_properties" in each and str(tmp_path) in each for each in caplog.messages)
    assert DeltaLog(tmp_path).snapshot().metadata.configuration["delta.appendOnly"] == "false"
    with pytest.raises(InvalidRequestError, match=r"no table property delta\.appendOnlyy"):
        da.write(tmp_path, data(4), mode, configuration={"delta.appendOnlyy": "true"})


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_creates_the_requested_table(tmp_path: Path, mode: Any) -> None:
    result = da.write(
        tmp_path,
        data(1),
        mode,
        ["p"],
        txn=("app", 1),
        configuration={"delta.checkpointInterval": "7", "owner": "a team"},
        user_metadata="why",
    )
    assert (result.version, result.ignored) == (0, False)
    snapshot = DeltaLog(tmp_path).snapshot()
    assert snapshot.partition_columns == ("p",)
    assert snapshot.metadata.configuration == {"delta.checkpointInterval": "7", "owner": "a team"}
    assert snapshot.transactions()["app"].version == 1
    info = last_commit(tmp_path)[0]["commitInfo"]
    names = {"error": "ErrorIfExists", "ignore": "Ignore"}
    assert info["operationParameters"]["mode"] == names.get(mode, mode.capitalize())
    assert info["userMetadata"] == "why"


def test_a_table_that_is_there_is_an_error_or_left_alone(tmp_path: Path) -> None:
    da.write(tmp_path, data(1))
    before = data_files(tmp_path)
    with pytest.raises(TableExistsError, match=r"is already a table\. Nothing was written"):
        da.write(tmp_path, data(2), "error")
    result = da.write(tmp_path, pa.table({"of other columns": [2]}), "ignore")
    assert (result.ignored, result.version, result.already_committed) == (True, None, False)
    assert (ids(tmp_path), data_files(tmp_path)) == ([1], before)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda root: da.write(root, data(9)), id="the same columns"),
        pytest.param(lambda root: da.write(root, data(), "error"), id="no rows"),
        pytest.param(lambda root: da.write(root, pa.table({"id": [9]})), id="other columns"),
    ],
)
def test_a_table_that_appears_before_the_commit_counts_as_there(
    tmp_path: Path, other: Callable[[Path], object]
) -> None:
    appears = before_the_commit(lambda: other(tmp_path / "t"))
    with pytest.raises(TableExistsError):
        da.write(tmp_path / "t", data(1), "error", on_event=appears)
    assert data_files(tmp_path / "t") == live_files(tmp_path / "t")
    appears = before_the_commit(lambda: other(tmp_path / "u"))
    assert da.write(tmp_path / "u", data(1), "ignore", on_event=appears).ignored
    assert data_files(tmp_path / "u") == live_files(tmp_path / "u")
    assert 1 not in ids(tmp_path / "u")


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_a_table_that_another_run_of_the_same_work_made_is_done(tmp_path: Path, mode: Any) -> None:
    def twin() -> None:
        da.write(tmp_path, data(5))
        da.write(tmp_path, data(1), txn=("app", 1))

    result = da.write(tmp_path, data(1), mode, txn=("app", 1), on_event=before_the_commit(twin))
    assert (result.version, result.already_committed) == (1, True)
    assert ids(tmp_path) == [1, 5]


PARTITION_VALUES: Mapping[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "byte": (pa.int8(), [-128, 127]),
    "long": (pa.int64(), [-(2**63), 2**63 - 1]),
    "float": (pa.float32(), [0.1, 1e-7]),
    "double": (pa.float64(), [1.5e300, float("inf")]),
    "decimal": (pa.decimal128(20, 4), [Decimal("-1234567890123456.7890"), Decimal("0.1000")]),
    "text": (pa.string(), ["a b/c=d:e%f", "ü€😀"]),
    "binary": (pa.binary(), [b"\x01a/b", "é".encode()]),
    "date": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [datetime(2024, 2, 29, 23, 59, 59, 123456, UTC), datetime(1, 1, 1, tzinfo=UTC)],
    ),
    "local time": (pa.timestamp("us"), [datetime(2024, 2, 29, 1), datetime(1, 1, 1)]),
}


@pytest.mark.some_cases(5)
@pytest.mark.parametrize(("data_type", "values"), PARTITION_VALUES.values(), ids=PARTITION_VALUES)
def test_only_the_partitions_of_the_data_are_replaced(
    tmp_path: Path, data_type: pa.DataType, values: list[Any]
) -> None:
    def of(number: int, *parts: Any) -> pa.Table:
        columns = {"n": [number] * len(parts), "q": ["x"] * len(parts)}
        return pa.table(columns).append_column("p", pa.array(parts, data_type))

    first, second = values
    da.write(tmp_path, of(0, first, second, None), partition_by=["q", "p"])
    for number, part in ((1, first), (2, None)):
        da.write(tmp_path, of(number, part), "overwrite", partition_overwrite_mode="dynamic")
    table = da.to_table(tmp_path, ["n", "p"])
    found = {repr(row["p"]): row["n"] for row in table.to_pylist()}
    parts = of(0, first, second, None)["p"].to_pylist()
    expected = dict(zip(map(repr, parts), (1, 0, 2), strict=True))
    assert (len(table), found) == (3, expected)


def test_a_partition_is_all_of_its_columns(tmp_path: Path) -> None:
    old = pa.table({"id": [1, 2, 3, 4], "p": ["a", "a", "b", None], "q": [1, 2, 1, 1]})
    da.write(tmp_path, old, partition_by=["p", "q"])
    new = pa.table({"id": [10, 40], "p": ["a", None], "q": [1, 1]})
    da.write(tmp_path, new, "overwrite", partition_overwrite_mode="dynamic")
    assert sorted(ids(tmp_path)) == [2, 3, 10, 40]
    parameters = last_commit(tmp_path)[0]["commitInfo"]["operationParameters"]
    assert parameters["isDynamicPartitionOverwrite"] is True


def test_without_partitions_a_dynamic_overwrite_replaces_all_rows(tmp_path: Path) -> None:
    da.write(tmp_path, data(1, 2))
    da.write(tmp_path, data(3), "overwrite", partition_overwrite_mode="dynamic")
    assert ids(tmp_path) == [3]


def test_data_without_rows_replace_no_partition(tmp_path: Path) -> None:
    da.write(tmp_path, data(1), partition_by=["p"])
    da.write(tmp_path, data(), "overwrite", partition_overwrite_mode="dynamic")
    assert ids(tmp_path) == [1]


@pytest.mark.parametrize(
    ("rival", "conflicts"),
    [
        pytest.param(lambda root: da.write(root, data(9, p="a")), True, id="an append to it"),
        pytest.param(lambda root: da.write(root, data(9, p="b")), False, id="an append beside"),
        pytest.param(lambda root: da.write(root, data(9, p=None)), False, id="an append to null"),
        pytest.param(
            lambda root: da.write(
                root, data(9, p="b"), "overwrite", partition_overwrite_mode="dynamic"
            ),
            False,
            id="an overwrite beside",
        ),
        pytest.param(
            lambda root: da.write(
                root, data(9, p="a"), "overwrite", partition_overwrite_mode="dynamic"
            ),
            True,
            id="an overwrite of it",
        ),
    ],
)
def test_a_dynamic_overwrite_rests_on_its_partitions_alone(
    tmp_path: Path, rival: Callable[[Path], object], conflicts: bool
) -> None:
    da.write(tmp_path, data(1), partition_by=["p"])
    da.write(tmp_path, data(2, p="b"))

    def overwrite() -> None:
        da.write(
            tmp_path,
            data(10),
            "overwrite",
            partition_overwrite_mode="dynamic",
            on_event=before_the_commit(lambda: rival(tmp_path)),
        )

    if conflicts:
        with pytest.raises(CommitConflictError):
            overwrite()
        assert 10 not in ids(tmp_path)
    else:
        overwrite()
        assert 10 in ids(tmp_path)
        assert 9 in ids(tmp_path)
        assert 1 not in ids(tmp_path)


def test_new_columns_are_added_with_the_rows(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1], "s": [{"x": 1}]}))
    new = pa.table({"N": ["n"], "ID": [2], "s": [{"Y": 2.5, "X": 2}]})
    with pytest.raises(InvalidRequestError, match="merge_schema=True to add it"):
        da.write(tmp_path, new)
    result = da.write(tmp_path, new, merge_schema=True)
    assert result.version == 1
    expected = [
        {"id": 2, "s": {"x": 2, "Y": 2.5}, "N": "n"},
        {"id": 1, "s": {"x": 1, "Y": None}, "N": None},
    ]
    assert rows(da.to_table(tmp_path)) == expected == rows_by_deltalake(tmp_path)
    actions = [next(iter(action)) for action in last_commit(tmp_path)]
    assert actions == ["commitInfo", "metaData", "add"]
    parameters = last_commit(tmp_path)[0]["commitInfo"]["operationParameters"]
    assert parameters["canMergeSchema"] is True


def test_rows_that_are_added_meanwhile_are_no_obstacle_to_new_columns(tmp_path: Path) -> None:
    da.write(tmp_path, data(1))
    rival = before_the_commit(lambda: da.write(tmp_path, data(2)))
    new = pa.table({"id": [3], "n": [5]})
    assert da.write(tmp_path, new, merge_schema=True, on_event=rival).version == 2
    assert sorted(ids(tmp_path)) == [1, 2, 3]


def test_data_without_new_columns_change_no_metadata(tmp_path: Path) -> None:
    da.write(tmp_path, data(1))
    da.write(tmp_path, pa.table({"ID": [2], "p": pa.nulls(1)}), merge_schema=True)
    assert "metaData" not in [next(iter(action)) for action in last_commit(tmp_path)]
    assert ids(tmp_path) == [1, 2]


def test_a_type_that_the_table_has_stays(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": pa.array([1], pa.int32())}))
    da.write(tmp_path, pa.table({"id": pa.array([2], pa.int64())}), merge_schema=True)
    too_wide = pa.table({"id": pa.array([2**40], pa.int64())})
    for unfit in (too_wide, pa.table({"id": ["x"]}), pa.table({"id": [{"x": 1}]})):
        with pytest.raises(InvalidRequestError, match="column 'id' is int32 in the table"):
            da.write(tmp_path, unfit, merge_schema=True)
    assert ids(tmp_path) == [1, 2]


@pytest.mark.parametrize("replaced", [None, col("id") == 2, col("id") >= 2])
def test_an_overwrite_may_bring_columns_too(tmp_path: Path, replaced: Any) -> None:
    da.write(tmp_path, data(1, 2))
    new = pa.table({"id": [2], "n": [5]})
    da.write(tmp_path, new, "overwrite", replace_where=replaced, merge_schema=True)
    kept = [{"id": 1, "p": "a", "n": None}] if replaced is not None else []
    assert rows(da.to_table(tmp_path)) == [*kept, {"id": 2, "p": None, "n": 5}]


@pytest.mark.parametrize("options", [{"merge_schema": True}, {"overwrite_schema": True}])
@pytest.mark.parametrize(
    "rival",
    [
        pytest.param(
            lambda root: da.write(root, pa.table({"id": [5], "k": [1]}), merge_schema=True),
            id="columns were added",
        ),
        pytest.param(set_property, id="a property was set"),
    ],
)
def test_a_schema_that_was_changed_meanwhile_wins(
    tmp_path: Path, rival: Callable[[Path], object], options: dict[str, Any]
) -> None:
    da.write(tmp_path, data(1))
    with pytest.raises(CommitConflictError, match="changed the schema"):
        da.write(
            tmp_path,
            pa.table({"id": [2], "n": [5]}),
            "overwrite",
            on_event=before_the_commit(lambda: rival(tmp_path)),
            **options,
        )
    assert live_files(tmp_path) <= data_files(tmp_path)
    assert 2 not in ids(tmp_path)


def test_rows_that_an_append_brings_meanwhile_are_not_lost_to_a_new_schema(tmp_path: Path) -> None:
    da.write(tmp_path, data(1), configuration={"delta.isolationLevel": "WriteSerializable"})
    with pytest.raises(CommitConflictError, match="added rows"):
        da.write(
            tmp_path,
            pa.table({"n": [5]}),
            "overwrite",
            overwrite_schema=True,
            on_event=before_the_commit(lambda: da.write(tmp_path, data(2))),
        )
    assert ids(tmp_path) == [1, 2]


@pytest.mark.parametrize(
    ("partition_by", "expected"),
    [(None, ("p",)), ([], ()), (["id"], ("id",)), (["p", "id"], ("p", "id"))],
)
def test_an_overwrite_may_give_the_table_other_columns_and_partitions(
    tmp_path: Path, partition_by: Any, expected: tuple[str, ...]
) -> None:
    da.write(tmp_path, data(1), partition_by=["p"], configuration={"owner": "a team"})
    table_id = DeltaLog(tmp_path).snapshot().metadata.id
    new = pa.table({"p": [7, 8], "id": ["x", "y"], "n": [1.5, 2.5]})
    da.write(tmp_path, new, "overwrite", partition_by, overwrite_schema=True)
    snapshot = DeltaLog(tmp_path).snapshot()
    assert [field.name for field in snapshot.schema.fields] == ["p", "id", "n"]
    assert snapshot.partition_columns == expected
    assert (snapshot.metadata.id, snapshot.metadata.configuration) == (
        table_id,
        {"owner": "a team"},
    )
    assert rows(da.to_table(tmp_path)) == rows(new) == rows_by_deltalake(tmp_path)
    assert rows(da.to_table(DeltaLog(tmp_path).snapshot(0))) == rows(data(1))


def test_the_same_schema_again_is_no_change_of_it(tmp_path: Path) -> None:
    da.write(tmp_path, data(1), partition_by=["p"])
    da.write(tmp_path, data(2), "overwrite", overwrite_schema=True)
    assert "metaData" not in [next(iter(action)) for action in last_commit(tmp_path)]
    assert ids(tmp_path) == [2]


DYNAMIC = {"partition_overwrite_mode": "dynamic"}
WHERE = {"replace_where": col("p") == "a"}
BOTH_SCHEMAS = {"merge_schema": True, "overwrite_schema": True}


@pytest.mark.parametrize(
    ("mode", "options", "message"),
    [
        ("upsert", {}, "mode 'upsert' is unknown; choose append, overwrite, error, ignore"),
        ("overwrite", {"partition_overwrite_mode": "some"}, "'some' is unknown; choose static or"),
        ("append", WHERE, "replace_where needs mode=\"overwrite\", not 'append'"),
        ("error", DYNAMIC, 'partition_overwrite_mode="dynamic" needs mode="overwrite"'),
        ("append", {"overwrite_schema": True}, 'overwrite_schema needs mode="overwrite"'),
        (
            "overwrite",
            {**WHERE, **DYNAMIC},
            "both choose the rows to replace; leave one of them out",
        ),
        (
            "overwrite",
            {**WHERE, "overwrite_schema": True},
            "the whole table, but replace_where only a",
        ),
        ("overwrite", {**DYNAMIC, "overwrite_schema": True}, "the whole table, but partition_over"),
        ("overwrite", BOTH_SCHEMAS, "merge_schema keeps the table's columns, but overwrite_schema"),
        ("overwrite", {"partition_by": ["id"]}, "is partitioned by p, not by id; leave"),
        ("append", {"merge_schema": "yes"}, "merge_schema is 'yes', of type str; give True or"),
        ("overwrite", {"replace_where": col("z") == 1, "merge_schema": True}, "no column z"),
    ],
)
def test_words_that_make_no_sense_are_refused(
    tmp_path: Path, mode: Any, options: dict[str, Any], message: str
) -> None:
    da.write(tmp_path, data(1), partition_by=["p"])
    before = data_files(tmp_path)
    with pytest.raises(InvalidRequestError) as refused:
        da.write(tmp_path, data(2), mode, **options)
    assert message in str(refused.value)
    assert (ids(tmp_path), data_files(tmp_path)) == ([1], before)


LOCAL_TIMES = pa.table({"id": [1], "p": ["a"], "t": pa.array([0], pa.timestamp("us"))})


@pytest.mark.parametrize(
    ("new", "options", "message"),
    [
        (pa.table({"id": [1], "n": [1], "N": [2]}), {"merge_schema": True}, "that differ only in"),
        (pa.table({"id": [1], "a b": [1]}), {"merge_schema": True}, "'a b' has a character"),
        (LOCAL_TIMES, {"merge_schema": True}, "needs the feature timestampNtz that the table's"),
        (LOCAL_TIMES, {"overwrite_schema": True}, "needs the feature timestampNtz that the"),
        (pa.table({"id": [1]}), {"overwrite_schema": True}, "partitioned by p, which the data do"),
        (
            pa.table({"id": [1], "p": [[1]]}),
            {"overwrite_schema": True},
            "partition column 'p' is nested",
        ),
    ],
)
def test_columns_that_cannot_be_made_are_refused(
    tmp_path: Path, new: pa.Table, options: dict[str, Any], message: str
) -> None:
    da.write(tmp_path, data(1), partition_by=["p"])
    before = data_files(tmp_path)
    with pytest.raises(InvalidRequestError) as refused:
        da.write(tmp_path, new, "overwrite", **options)
    assert message in str(refused.value)
    assert data_files(tmp_path) == before


def test_a_constraint_of_a_new_table_is_visible_to_other_writers(tmp_path: Path) -> None:
    rule = {"delta.constraints.positive": "id > 0"}
    da.write(tmp_path / "t", data(1), configuration=rule)
    assert DeltaLog(tmp_path / "t").snapshot().protocol.min_writer_version == 3
    local = pa.table({"id": [1], "t": pa.array([0], pa.timestamp("us"))})
    da.write(tmp_path / "u", local, configuration=rule)
    features = DeltaLog(tmp_path / "u").snapshot().protocol.writer_features
    assert set(features or ()) == {"appendOnly", "invariants", "timestampNtz", "checkConstraints"}


def test_a_constraint_is_not_set_on_rows_that_nobody_looked_at(tmp_path: Path) -> None:
    da.write(tmp_path, data(-1))
    with pytest.raises(InvalidRequestError, match="without a check of the existing rows"):
        begin(tmp_path).set_properties({"delta.constraints.positive": "id > 0"})


def test_a_constraint_may_be_dropped(tmp_path: Path) -> None:
    da.write(tmp_path, data(1), configuration={"delta.constraints.positive": "id > 0"})
    transaction = begin(tmp_path)
    transaction.set_properties({"delta.constraints.positive": None})
    transaction.commit(operation="DROP CONSTRAINT")
    da.write(tmp_path, data(-1))
    assert ids(tmp_path) == [-1, 1]


def test_existing_names_are_no_obstacle_to_new_names(tmp_path: Path) -> None:
    log = DeltaLog(tmp_path)
    odd = replace(metadata(), schema_string=metadata().schema_string.replace('"p"', '"a b"'))
    create_commit(log.storage, log.log_directory, 0, [PROTOCOL, odd])
    da.write(tmp_path, pa.table({"id": [1], "a b": ["x"], "n": [1]}), merge_schema=True)
    assert rows(da.to_table(tmp_path)) == [{"id": 1, "a b": "x", "n": 1}]


def test_a_column_that_must_not_be_null_stays_so(tmp_path: Path) -> None:
    strict = metadata().schema_string.replace('"nullable":true', '"nullable":false', 1)
    log = DeltaLog(tmp_path)
    create_commit(
        log.storage, log.log_directory, 0, [PROTOCOL, replace(metadata(), schema_string=strict)]
    )
    with pytest.raises(InvalidRequestError, match="column id has a null"):
        da.write(tmp_path, pa.table({"n": [1]}), merge_schema=True)
    da.write(tmp_path, pa.table({"id": [1], "n": [1]}), merge_schema=True)
    schema = schema_from_json(DeltaLog(tmp_path).snapshot().metadata.schema_string)
    assert [field.nullable for field in schema.fields] == [False, True, True]
