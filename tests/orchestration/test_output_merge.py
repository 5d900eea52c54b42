"""delta/mode merge: an output is merged into its table, by either engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.errors import DeltaOpsError, InvalidRequestError
from delta_ops.events import DataFilesStaged, Event
from delta_ops.orchestration import DeltaIOManager, SourcePart, TableRef, build_commit_sensor
from delta_ops.orchestration.io_manager.merge_settings import UPSERT, MergeSettings
from delta_ops.orchestration.io_manager.output_merge import OutputMerge, merge_rows
from delta_ops.orchestration.io_manager.output_settings import settings_from
from delta_ops.transaction import Txn
from tests.support.tables import rows_by_deltalake

DAYS = dg.DailyPartitionsDefinition("2026-01-01")
BY_ID = {"delta/mode": "merge", "delta/merge_keys": "id"}
BY_ID_AND_DAY: Mapping[str, Any] = {**BY_ID, "partition_expr": "day", "delta/partition_by": "day"}
ToRows = Callable[[pa.Table], Any]
NO_METADATA: Mapping[str, Any] = {}


# Spark on its main path: tests/examples/test_merging_chapter.py, which has a JVM.
@pytest.fixture(
    params=["arrow", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.full])]
)
def to_rows(request: pytest.FixtureRequest) -> ToRows:
    """Makes an output of Arrow data, for an engine."""
    if request.param == "arrow":
        return lambda rows: rows
    spark = request.getfixturevalue("spark")
    to_frame: ToRows = spark.createDataFrame
    return to_frame


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as real:
        yield real


class Asset:
    """An asset of one name, materialized by several outputs, one after the other."""

    def __init__(self, lake: Path, instance: dg.DagsterInstance, metadata: Any) -> None:
        self.lake, self.instance, self.metadata = lake, instance, metadata
        self.key = dg.AssetKey(lake.name)
        self.uri = str(lake / self.key.path[0])

    def materialize(
        self, rows: Any, day: str | None = None, more: Mapping[str, Any] = NO_METADATA
    ) -> Mapping[str, Any]:
        """Metadata of the materialization of these rows."""

        @dg.asset(
            name=self.key.path[0],
            metadata={**self.metadata, **more},
            partitions_def=DAYS if day else None,
        )
        def asset() -> Any:
            return rows

        defs = dg.Definitions(
            assets=[asset], resources={"io_manager": DeltaIOManager(root=str(self.lake))}
        )
        job = defs.resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(instance=self.instance, partition_key=day)
        (event,) = result.get_asset_materialization_events()
        return {name: each.value for name, each in event.materialization.metadata.items()}

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        found = [tuple(row.values()) for row in rows_by_deltalake(Path(self.uri))]
        return sorted(found, key=repr)


def table(**columns: list[Any]) -> pa.Table:
    return pa.table(columns)


def test_rows_of_equal_keys_take_the_new_values_and_others_are_added(
    tmp_path: Path, instance: dg.DagsterInstance, to_rows: ToRows
) -> None:
    properties = {"delta.checkpointInterval": "7"}
    asset = Asset(tmp_path, instance, {**BY_ID, "delta/configuration": properties})
    first = asset.materialize(to_rows(table(id=[1, 2], v=["a", "b"])))
    second = asset.materialize(to_rows(table(id=[2, 3], v=["B", "C"])))
    assert asset.rows == [(1, "a"), (2, "B"), (3, "C")]
    figures = ("delta/rows_written", "delta/rows_inserted", "delta/rows_updated", "delta/version")
    assert [first[name] for name in figures] == [2, 2, 0, 0]
    assert [second[name] for name in figures] == [2, 1, 1, 1]
    assert second["dagster/row_count"] == 3
    snapshot = DeltaLog(asset.uri).snapshot()
    assert snapshot.metadata.configuration["delta.checkpointInterval"] == "7"


def test_clauses_decide_in_their_order(
    tmp_path: Path, instance: dg.DagsterInstance, to_rows: ToRows
) -> None:
    clauses = [
        {"when": "matched", "then": "delete", "if": "s.gone"},
        {"when": "matched", "then": "update", "set": {"n": "t.n + s.n"}, "if": "s.n > 0"},
        {"when": "not matched", "then": "insert", "if": "NOT s.gone", "except": ["gone"]},
        {"when": "not matched by source", "then": "update", "set": {"n": -1}},
    ]
    asset = Asset(
        tmp_path,
        instance,
        {
            "delta/mode": "merge",
            "delta/merge_predicate": "t.id = s.id",
            "delta/merge_aliases": {"target": "t", "source": "s"},
            "delta/merge_clauses": clauses,
        },
    )
    asset.materialize(to_rows(table(id=[1, 2, 3], n=[1, 2, 3], gone=[False] * 3)))
    asset.materialize(to_rows(table(id=[1, 2, 4], n=[9, 9, 9], gone=[True, False, True])))
    assert asset.rows == [(2, 11), (3, -1)]


def test_a_partition_is_merged_by_itself(
    tmp_path: Path, instance: dg.DagsterInstance, to_rows: ToRows
) -> None:
    clauses = [
        {"when": "matched", "then": "update"},
        {"when": "not matched", "then": "insert"},
        {"when": "not matched by source", "then": "delete"},
    ]
    asset = Asset(tmp_path, instance, {**BY_ID_AND_DAY, "delta/merge_clauses": clauses})
    first, second = "2026-01-01", "2026-01-02"
    asset.materialize(to_rows(table(id=[1, 2], day=[first] * 2, n=[1, 2])), first)
    asset.materialize(to_rows(table(id=[1, 2], day=[second] * 2, n=[3, 4])), second)
    reported = asset.materialize(to_rows(table(id=[1, 5], day=[second] * 2, n=[6, 7])), second)
    assert asset.rows == [
        (1, first, 1),
        (1, second, 6),
        (2, first, 2),
        (5, second, 7),
    ]
    assert (reported["delta/rows_written"], reported["delta/rows_deleted"]) == (2, 1)
    assert reported["dagster/partition_row_count"] == 2


@pytest.mark.parametrize(
    ("metadata", "rows", "day", "message"),
    [
        pytest.param(
            BY_ID_AND_DAY,
            table(id=[1, 2], day=["2026-01-01", "2026-01-02"]),
            "2026-01-01",
            r"outside the partitions of this run.* \(rows: 1\)",
            id="rows of another partition",
        ),
        pytest.param(
            BY_ID,
            table(id=[1, None], v=["a", "b"]),
            None,
            r"rows whose id is null.* \(rows: 1\)",
            id="keys that are null",
        ),
        pytest.param(
            {**BY_ID, "delta/merge_keys": ["country", "id"], "delta/partition_by": "country"},
            table(country=["", "at"], id=[1, 1]),
            None,
            r"whose partition column country is empty: such rows never match.* \(rows: 1\)",
            id="an empty key that is a partition column",
        ),
        pytest.param(
            {
                **BY_ID,
                "delta/merge_clauses": [
                    {"when": "not matched", "then": "insert", "set": {"id": "source.id"}}
                ],
            },
            table(id=[1]),
            None,
            "does not exist yet, and no clause of the merge inserts all columns",
            id="a first merge that does not say its columns",
        ),
        pytest.param(
            {
                **BY_ID,
                "delta/merge_clauses": [
                    {"when": "matched", "then": "update", "set": {"l": [1.0, 2.5]}},
                    {"when": "not matched", "then": "insert"},
                ],
            },
            table(id=[1], l=[[1]]),
            None,
            "column l.element of type long cannot hold 2.5",
            id="a value that would be changed",
        ),
    ],
)
def test_a_first_output_that_cannot_be_merged_leaves_nothing_behind(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    to_rows: ToRows,
    metadata: dict[str, Any],
    rows: pa.Table,
    day: str | None,
    message: str,
) -> None:
    asset = Asset(tmp_path, instance, metadata)
    with pytest.raises(InvalidRequestError, match=message):
        asset.materialize(to_rows(rows), day)
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == []


@pytest.mark.some_cases(6)
@pytest.mark.parametrize("mode", ["append", "overwrite", "error", "merge"])
@pytest.mark.parametrize(
    ("metadata", "rows", "message"),
    [
        pytest.param(
            {"delta/configuration": {"delta.constraints.low": "id < 2"}},
            table(id=[1, 2]),
            "low",
            id="a row that breaks a constraint",
        ),
        pytest.param(
            {"delta/partition_by": "nosuch"}, table(id=[1]), "nosuch", id="no such partition column"
        ),
        pytest.param(
            {"delta/configuration": {"delta.checkpointInterval": "x"}},
            table(id=[1]),
            "checkpointInterval",
            id="a property that is none",
        ),
        pytest.param(
            {},
            pa.table({"id": [1], "t": pa.array([1], pa.duration("us"))}),
            "duration",
            id="a type that Delta lacks",
        ),
    ],
)
def test_a_first_output_that_is_refused_leaves_nothing_behind(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    mode: str,
    metadata: dict[str, Any],
    rows: pa.Table,
    message: str,
) -> None:
    keys = BY_ID if mode == "merge" else {}
    asset = Asset(tmp_path, instance, {**keys, "delta/mode": mode, **metadata})
    with pytest.raises(DeltaOpsError, match=message):
        asset.materialize(rows)
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == []


def test_partitions_of_another_run_leave_no_new_table_behind(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    metadata = {"partition_expr": "day", "delta/partition_by": "day"}
    asset = Asset(tmp_path, instance, metadata)
    with pytest.raises(InvalidRequestError, match="2026-01-02"):
        asset.materialize(table(id=[1, 2], day=["2026-01-01", "2026-01-02"]), "2026-01-01")
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == []


class Overtaken:
    """Calls a function once, after the files are written and before the commit."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def __call__(self, event: Event) -> None:
        call = self.call
        if isinstance(event, DataFilesStaged) and call is not None:
            self.call = None
            call()


@pytest.mark.parametrize(
    "configuration", [{}, {"delta.columnMapping.mode": "name"}], ids=["plain", "mapped"]
)
@pytest.mark.parametrize(
    ("theirs", "both"),
    [
        pytest.param([2, 3], [(1, "ours"), (2, "ours"), (3, "theirs")], id="keys that meet"),
        pytest.param([8], [(1, "ours"), (2, "ours"), (8, "theirs")], id="other keys"),
    ],
)
def test_the_later_of_two_first_merges_merges_into_the_new_table(
    tmp_path: Path,
    theirs: list[int],
    both: list[tuple[int, str]],
    configuration: Mapping[str, str],
) -> None:
    log = DeltaLog(tmp_path)
    merge = OutputMerge(
        settings=MergeSettings(keys=("id",), predicate=None, clauses=UPSERT),
        txns=[Txn(app_id="ours", version=1)],
        among=None,
        merge_schema=False,
        partition_by=None,
        configuration=configuration,
        user_metadata=None,
        hooks=(),
    )

    def commit_theirs() -> None:
        rows = table(id=theirs, v=["theirs"] * len(theirs)).to_reader()
        merge_rows(begin(log), rows, replace(merge, txns=[Txn(app_id="theirs", version=1)]))

    transaction = begin(log, on_event=Overtaken(commit_theirs))
    ours = table(id=[1, 2], v=["ours"] * 2).to_reader()
    assert merge_rows(transaction, ours, merge).version == 1
    rows = da.to_table(tmp_path).to_pylist()
    assert sorted((row["id"], row["v"]) for row in rows) == both
    assert set(log.snapshot().transactions()) == {"ours", "theirs"}


def test_columns_that_come_are_added_where_that_is_wanted(
    tmp_path: Path, instance: dg.DagsterInstance, to_rows: ToRows
) -> None:
    asset = Asset(tmp_path, instance, BY_ID)
    asset.materialize(to_rows(table(id=[1, 2])))
    more = table(id=[2], v=["b"])
    with pytest.raises(InvalidRequestError, match="has no column 'v'"):
        asset.materialize(to_rows(more))
    asset.materialize(to_rows(more), more={"delta/merge_schema": True})
    assert asset.rows == [(1, None), (2, "b")]


def test_each_part_of_a_source_is_merged_once(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    asset = Asset(tmp_path, instance, {**BY_ID, "delta/idempotency": "source"})
    parts = [
        SourcePart(data=table(id=[n, 9], v=[n, n]), source=f"{n}.csv", position=1) for n in (1, 2)
    ]
    asset.materialize(parts)
    reported = asset.materialize(parts)
    assert asset.rows == [(1, 1), (2, 2), (9, 2)]
    assert (reported["delta/adopted"], reported["delta/version"]) == (True, 1)
    replacing = replace(parts[0], position=2, replaces=col("id") == 1)
    with pytest.raises(InvalidRequestError, match="replaces rows; leave one of them out"):
        asset.materialize([replacing])


def test_the_commit_that_makes_the_table_is_no_commit_of_others(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    asset = Asset(tmp_path, instance, BY_ID)
    asset.materialize(table(id=[1]))
    ref = TableRef(asset_key=asset.key, uri=asset.uri)
    tick = build_commit_sensor([ref]).evaluate_tick(dg.build_sensor_context(instance))
    assert not tick.asset_events


CLAUSE = {"when": "matched", "then": "update"}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"delta/merge_keys": None}, "of asset .* do not say which rows a merge matches"),
        ({"delta/merge_keys": [1]}, "give a column or a list of columns"),
        ({"delta/merge_predicate": 3}, "give a condition"),
        ({"delta/merge_aliases": {"target": "source"}}, '"target" and "source" to names'),
        ({"delta/merge_aliases": {"goal": "t"}}, '"target" and "source" to names'),
        ({"delta/merge_clauses": []}, "give a list of clauses"),
        ({"delta/merge_clauses": ["update"]}, "which is not a mapping"),
        ({"delta/merge_clauses": [{**CLAUSE, "where": "x"}]}, "'where' is unknown"),
        ({"delta/merge_clauses": [{**CLAUSE, "when": "met"}]}, "whose when is 'met'"),
        ({"delta/merge_clauses": [{**CLAUSE, "then": "insert"}]}, "choose update or delete"),
        ({"delta/merge_clauses": [{**CLAUSE, "if": True}]}, "whose if is not a SQL string"),
        ({"delta/merge_clauses": [{**CLAUSE, "set": ["v"]}]}, "whose set is not a mapping"),
        ({"delta/merge_clauses": [{**CLAUSE, "set": {}, "except": ["v"]}]}, "whose except"),
        (
            {"delta/merge_clauses": [{"when": "not matched by source", "then": "update"}]},
            "which needs a set",
        ),
        ({"delta/overwrite_schema": True}, "use delta/merge_schema"),
        ({"delta/idempotency": "partition"}, "which is for overwrites"),
    ],
)
def test_settings_that_say_no_merge_are_refused(metadata: dict[str, Any], message: str) -> None:
    place = ("the metadata of asset t", {**BY_ID, **metadata})
    with pytest.raises(InvalidRequestError, match=message):
        settings_from([place], {}, dg.AssetKey("t"), has_partitions=False)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"delta/merge_clauses": []}, "give a list of clauses"),
        (
            {"delta/merge_keys": ["ident"]},
            "lacks the column 'ident' of delta/merge_keys; it has id",
        ),
        ({"delta/merge_predicate": "target.id = "}, "target.id = "),
        ({"delta/merge_clauses": [{**CLAUSE, "if": "target.id = "}]}, "target.id = "),
    ],
)
def test_a_merge_that_cannot_be_is_refused_before_a_table_is_made(
    tmp_path: Path, instance: dg.DagsterInstance, metadata: dict[str, Any], message: str
) -> None:
    asset = Asset(tmp_path, instance, BY_ID)
    with pytest.raises(InvalidRequestError, match=message):
        asset.materialize(table(id=[1]), more=metadata)
    assert DeltaLog(asset.uri).snapshot_if_exists() is None


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        pytest.param({"v": [1]}, "it has v", id="another column"),
        pytest.param({}, "it has no columns", id="no columns"),
    ],
)
def test_an_output_without_the_key_of_its_table_is_named(
    tmp_path: Path, rows: dict[str, list[Any]], shown: str
) -> None:
    da.write(tmp_path / "t", table(id=[1], v=[1]))
    context = dg.build_output_context(asset_key=dg.AssetKey("t"), definition_metadata=BY_ID)
    message = f"the output lacks the column 'id' of delta/merge_keys; {shown}"
    with pytest.raises(InvalidRequestError, match=message):
        DeltaIOManager(root=str(tmp_path)).handle_output(context, pa.table(rows))


@pytest.mark.parametrize(
    ("metadata", "expected_message"),
    [
        ({"delta/merge_predicate": '"target.id" = 1'}, "write `target`.`id` for the column"),
        ({"delta/merge_clauses": [{**CLAUSE, "if": '"ID" > 1'}]}, "write `ID` for the column"),
    ],
)
def test_a_name_in_double_quotes_is_refused(
    tmp_path: Path, instance: dg.DagsterInstance, metadata: dict[str, Any], expected_message: str
) -> None:
    asset = Asset(tmp_path, instance, BY_ID)
    asset.materialize(table(id=[1]))
    with pytest.raises(InvalidRequestError, match=expected_message) as caught:
        asset.materialize(table(id=[1, 2]), more=metadata)
    assert caught.value.message.startswith(f"{asset.uri}: ")
    assert asset.rows == [(1,)]


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "metadata",
    [
        {"delta/merge_keys": "id"},
        {"delta/merge_predicate": "target.id = source.id"},
        {"delta/merge_clauses": [CLAUSE]},
    ],
)
def test_merge_settings_do_not_overwrite(
    tmp_path: Path, instance: dg.DagsterInstance, metadata: dict[str, Any]
) -> None:
    Asset(tmp_path, instance, {}).materialize(table(id=[1], v=[1]))
    without_mode = Asset(tmp_path, instance, metadata)
    with pytest.raises(InvalidRequestError, match="without a delta/mode, so existing rows would"):
        without_mode.materialize(table(id=[2], v=[2]))
    for mode in ("overwrite", "append"):
        beside = Asset(tmp_path, instance, {"delta/mode": mode, **metadata})
        with pytest.raises(InvalidRequestError, match=f"'{mode}', which does not merge"):
            beside.materialize(table(id=[2], v=[2]))
    assert beside.rows == [(1, 1)]


def test_a_run_may_overwrite_an_asset_that_is_merged_else() -> None:
    places = [
        ("the metadata of the Output", {"delta/mode": "overwrite"}),
        ("the metadata of asset t", BY_ID),
    ]
    settings = settings_from(places, {}, dg.AssetKey("t"), has_partitions=False)
    assert (settings.mode, settings.merge) == ("overwrite", None)


def test_keys_of_the_io_manager_are_for_assets_that_are_merged() -> None:
    for mode, is_merged in (("append", False), ("merge", True)):
        settings = settings_from(
            [("the metadata of asset t", {"delta/mode": mode})],
            {"delta/merge_keys": "id"},
            dg.AssetKey("t"),
            has_partitions=False,
        )
        assert (settings.merge is not None) is is_merged


def test_a_table_that_is_laid_out_otherwise_is_not_merged_into(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    asset = Asset(tmp_path, instance, BY_ID)
    asset.materialize(table(id=[1], v=[1]))
    with pytest.raises(InvalidRequestError, match="is partitioned by nothing, not by v"):
        asset.materialize(table(id=[1], v=[2]), more={"delta/partition_by": "v"})
    assert asset.rows == [(1, 1)]


def test_keys_with_dots_are_in_backticks(
    tmp_path: Path, instance: dg.DagsterInstance, to_rows: ToRows
) -> None:
    keys = {"delta/mode": "merge", "delta/merge_keys": ["`A.b`", "id"]}
    asset = Asset(tmp_path, instance, {**keys, "delta/partition_by": "`a.b`"})
    for v in ("x", "y"):
        asset.materialize(to_rows(pa.table({"a.b": [1, 2], "id": [1, 1], "v": [v, v]})))
    assert asset.rows == [(1, 1, "y"), (2, 1, "y")]
