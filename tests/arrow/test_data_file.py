"""Data files: failures during a write, and files of other writers."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.arrow.write.data_file import DataFileWriter, row_groups
from delta_ops.errors import InvalidRequestError, StorageError
from delta_ops.protocol.row_rules import not_null_rules
from delta_ops.protocol.schema.arrow_types import schema_from_arrow
from delta_ops.protocol.stats.file_stats import parse_stats
from delta_ops.storage import Storage, open_storage
from delta_ops.transaction import RewriteGroup, Staged
from tests.support.counting_storage import CountingStorage
from tests.support.tables import add, define

_STRICT = pa.schema([pa.field("a", pa.int64(), nullable=False)])


def write_file(
    root: Path, batches: Iterable[pa.RecordBatch], file_schema: pa.Schema = _STRICT
) -> None:
    """Write one file to a folder, without any check of its rows."""
    definition = define(schema_from_arrow(_STRICT))
    writer = DataFileWriter(open_storage(root), file_schema, definition)
    writer.write(row_groups(batches), {}, data_change=True)


def test_rows_that_break_a_rule_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="column a has a null"):
        write_file(tmp_path, [pa.record_batch([pa.array([None], pa.int64())], schema=_STRICT)])
    assert list(tmp_path.iterdir()) == []


def test_values_that_parquet_cannot_store_are_refused_and_leave_no_files(tmp_path: Path) -> None:
    spans = pa.schema([("a", pa.month_day_nano_interval())])
    rows = pa.record_batch([pa.array([(1, 2, 3)], spans.field(0).type)], schema=spans)
    with pytest.raises(InvalidRequestError, match=r"cannot be written to a Parquet file \("):
        write_file(tmp_path, [rows], spans)
    assert list(tmp_path.iterdir()) == []


def test_rows_that_arrow_cannot_go_on_with_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays([pa.array(range(1_100_000), pa.int64())], schema=_STRICT)
        raise pa.ArrowInvalid("the second half is broken")

    with pytest.raises(InvalidRequestError, match="the second half is broken"):
        write_file(tmp_path, batches())
    assert list(tmp_path.iterdir()) == []


class InterruptedStorage:
    """A storage that is interrupted while it creates the second data file."""

    def __init__(self, inner: Storage) -> None:
        self._inner = inner
        self._num_files = 0

    def create_from_stream(
        self, path: str, write: Callable[[IO[bytes]], None], *, is_durable: bool = True
    ) -> Any:
        self._num_files += 1
        if self._num_files == 2:
            raise KeyboardInterrupt
        return self._inner.create_from_stream(path, write, is_durable=is_durable)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class FullStorage:
    """A storage that reports a full disk when files are made durable."""

    def __init__(self, inner: Storage) -> None:
        self._inner = inner

    def persist(self, paths: Iterable[str]) -> None:
        raise StorageError(next(iter(paths)), "made durable", "no space left on device")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_files_that_cannot_be_made_durable_are_deleted_and_not_committed(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1, 2]}))
    before = list(tmp_path.rglob("*.parquet"))
    storage: Any = FullStorage(open_storage(tmp_path))
    with pytest.raises(StorageError, match="no space left"):
        da.update(DeltaLog("", storage=storage), {"id": 7}, col("id") == 1)
    assert list(tmp_path.rglob("*.parquet")) == before
    assert da.to_table(tmp_path)["id"].to_pylist() == [1, 2]


def test_the_files_of_partitions_are_durable_before_a_commit_names_them(tmp_path: Path) -> None:
    calls: list[str] = []
    storage = CountingStorage(
        open_storage(tmp_path),
        lambda _, method, path, moment: (
            calls.append(f"{method} {path}"[:26]) if moment == "after" else None
        ),
    )
    data = pa.table({"id": [1, 2], "p": ["a", "b"]})
    da.write(DeltaLog("", storage=storage), data, partition_by=["p"], hooks=())
    writing = [each for each in calls if each.startswith(("create", "persist"))]
    assert set(writing[:2]) == {"create_from_stream p=a/par", "create_from_stream p=b/par"}
    assert writing[2:] == ["persist ", "create _delta_log/00000000"]


def test_files_that_are_written_again_are_durable_before_a_commit_names_them(
    tmp_path: Path,
) -> None:
    da.write(tmp_path, pa.table({"id": [1, 2]}))
    da.write(tmp_path, pa.table({"id": [3, 4]}))
    calls: list[str] = []
    storage = CountingStorage(
        open_storage(tmp_path),
        lambda _, method, path, moment: (
            calls.append(f"{method} {path}"[:26]) if moment == "after" else None
        ),
    )
    odd = col("id").isin([1, 3])
    da.update(DeltaLog("", storage=storage), {"id": 7}, odd, hooks=())
    writing = [each for each in calls if each.startswith(("create", "persist"))]
    # The rows of both files are small, so one file has them.
    assert writing == ["create_from_stream part-00", "persist ", "create _delta_log/00000000"]


def test_an_interrupt_between_two_files_leaves_none(tmp_path: Path) -> None:
    storage: Any = InterruptedStorage(open_storage(tmp_path))
    data = pa.table({"id": [1, 2], "p": ["a", "b"]})
    with pytest.raises(KeyboardInterrupt):
        da.write(DeltaLog("", storage=storage), data, partition_by=["p"])
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_file_whose_nested_fields_have_another_case_and_order_is_read(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"a": [{"x": 1, "y": "b"}]}))
    other = pa.struct([("Y", pa.string()), ("extra", pa.int64()), ("X", pa.int32())])
    _add_file(tmp_path, pa.table({"A": pa.array([{"Y": "c", "extra": 0, "X": 2}, None], other)}))
    found = da.to_table(DeltaLog(tmp_path))["a"].to_pylist()
    assert found == [{"x": 2, "y": "c"}, None, {"x": 1, "y": "b"}]


def test_a_rewrite_refuses_rows_that_break_a_rule(tmp_path: Path) -> None:
    strict = pa.list_(pa.field("element", pa.int64(), nullable=False))
    da.write(tmp_path, pa.table({"a": pa.array([[1]], strict)}))
    _add_file(tmp_path, pa.table({"a": pa.array([[None]], pa.list_(pa.int64()))}))
    snapshot = DeltaLog(tmp_path).snapshot()
    before = set(tmp_path.glob("*.parquet"))
    files = tuple(snapshot.add_files())
    with pytest.raises(InvalidRequestError, match=r"column a\.element has a null"):
        da.rewrite(snapshot, RewriteGroup(files=files, target_size_bytes=2**30))
    assert set(tmp_path.glob("*.parquet")) == before


def _add_file(root: Path, rows: pa.Table) -> None:
    """Commit a file in the form of another writer."""
    pq.write_table(rows, root / "other.parquet")
    log = DeltaLog(root)
    transaction = begin(log)
    schema = log.snapshot().schema
    size = (root / "other.parquet").stat().st_size
    transaction.stage(
        Staged(
            adds=(add("other.parquet", size=size),),
            schema=schema,
            partition_columns=(),
            num_rows=len(rows),
            row_rules=frozenset(not_null_rules(schema)),
        )
    )
    transaction.commit(operation="WRITE")


def test_a_file_of_a_few_rows_has_no_dictionary_and_one_of_many_does(tmp_path: Path) -> None:
    data = pa.table({"p": ["few"] + ["many"] * 1000, "text": ["a"] * 1001})
    da.write(tmp_path, data, partition_by=["p"])
    (few,), (many,) = (list((tmp_path / f"p={each}").iterdir()) for each in ("few", "many"))
    encodings = [pq.read_metadata(each).row_group(0).column(0).encodings for each in (few, many)]
    assert ["RLE_DICTIONARY" in each for each in encodings] == [False, True]


CHOSEN = {"delta.parquet.compression.codec": "zstd"}


@pytest.mark.parametrize(
    ("num_rows", "configuration", "codec"),
    [
        pytest.param(1, {}, "snappy", id="a row is not worth what zstd takes to begin"),
        pytest.param(127, {}, "snappy", id="nor are columns of less than a kilobyte"),
        pytest.param(128, {}, "zstd", id="larger files are"),
        pytest.param(1, CHOSEN, "zstd", id="the table's property decides"),
    ],
)
@pytest.mark.parametrize("partition_by", [[], ["p"]], ids=["one file", "a partition"])
def test_a_small_file_has_a_codec_that_is_quick_to_begin(
    tmp_path: Path,
    num_rows: int,
    configuration: dict[str, str],
    codec: str,
    partition_by: list[str],
) -> None:
    values = pa.array(range(num_rows))
    data = pa.table({"x": values, "y": values})
    if partition_by:
        data = data.append_column("p", pa.array([2**40] * num_rows))
    da.write(tmp_path, data, partition_by=partition_by, configuration=configuration)
    (file,) = tmp_path.rglob("part-*.parquet")
    group = pq.read_metadata(file).row_group(0)
    assert {group.column(i).compression for i in range(2)} == {codec.upper()}
    assert file.name.endswith(f"-c000.{codec}.parquet")


def test_files_are_named_by_random_uuids(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"p": range(100), "x": range(100)}), partition_by=["p"])
    names = [path.name for path in tmp_path.rglob("part-*.parquet")]
    found = {uuid.UUID(name.removeprefix("part-00000-")[:36]) for name in names}
    assert len(found) == 100
    assert {(each.version, each.variant) for each in found} == {(4, uuid.RFC_4122)}


def test_partitions_too_large_to_be_encoded_in_memory_are_written_alike(tmp_path: Path) -> None:
    texts = [f"{i:08}" * 20 for i in range(20_000)]
    data = pa.table({"p": [i % 2 for i in range(20_000)], "x": [0.5] * 20_000, "text": texts})
    da.write(tmp_path, data, partition_by=["p"])
    assert da.to_table(DeltaLog(tmp_path)).sort_by("text").select(data.column_names) == data
    stats = DeltaLog(tmp_path).snapshot().files(["partition_values", "stats"]).sort_by("stats")
    found = {row["partition_values"]["p"]: parse_stats(row["stats"]) for row in stats.to_pylist()}
    assert {p: (each.num_records, each.max_values["x"]) for p, each in found.items() if each} == {
        0: (10_000, Decimal("0.5")),
        1: (10_000, Decimal("0.5")),
    }


def test_the_statistics_of_partitions_are_independent(tmp_path: Path) -> None:
    data = pa.table({"p": ["a", "b", "c"], "x": [1.0, float("nan"), None]})
    da.write(tmp_path, data, partition_by=["p"])
    rows = DeltaLog(tmp_path).snapshot().files(["partition_values", "stats"]).to_pylist()
    found = {row["partition_values"]["p"]: parse_stats(row["stats"]) for row in rows}
    bounds = {
        p: (each.min_values, each.max_values, each.null_count) for p, each in found.items() if each
    }
    assert bounds == {
        "a": ({"x": Decimal("1.0")}, {"x": Decimal("1.0")}, {"x": 0}),
        "b": ({}, {}, {"x": 0}),
        "c": ({}, {}, {"x": 1}),
    }


def test_row_groups_of_narrow_rows_have_more_of_them() -> None:
    narrow = [pa.record_batch([pa.array(range(10), pa.int8())], names=["a"])] * 10
    wide = [pa.record_batch([pa.array(["x" * 100] * 10)], names=["a"])] * 10
    assert [len(each) for each in row_groups(narrow, max_rows=20, least_bytes=50)] == [50, 50]
    assert [len(each) for each in row_groups(wide, max_rows=20, least_bytes=50)] == [20] * 5
    assert [len(each) for each in row_groups(wide, max_rows=20, max_bytes=50)] == [10] * 10
