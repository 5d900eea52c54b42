"""A directory of Parquet files becomes a table in place, by one commit."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, date, datetime
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, convert_to_deltalake
from deltalake.schema import Field, PrimitiveType, Schema

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.ddl import rename_column
from delta_ops.errors import InvalidRequestError, TableExistsError
from delta_ops.maintenance import vacuum
from delta_ops.storage import Storage, open_storage
from tests.support.counting_storage import CountingStorage
from tests.support.faulty_storage import crashes
from tests.support.tables import rows, rows_by_deltalake


def write(place: Path, **columns: Any) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), place)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    root = tmp_path / "orders"
    write(root / "day=2026-01-01/country=NL/a.parquet", id=[1, 2], price=[1.5, None])
    write(root / "day=2026-01-02/country=a%2Fb/b.parquet", id=[3])
    write(root / "day=2026-01-02/country=__HIVE_DEFAULT_PARTITION__/c d.parquet", id=[4])
    (root / "_SUCCESS").touch()
    (root / ".hidden").mkdir()
    (root / ".hidden" / "x.csv").touch()
    return root


def test_files_become_a_table_with_hive_partitions(files: Path) -> None:
    result = da.convert(files, name="orders", user_metadata="moved in")
    assert (result.version, result.metrics) == (0, {"numConvertedFiles": 3})
    ours = rows(da.to_table(files))
    first, second = date(2026, 1, 1), date(2026, 1, 2)
    assert ours == [
        {"id": 1, "price": 1.5, "day": first, "country": "NL"},
        {"id": 2, "price": None, "day": first, "country": "NL"},
        {"id": 3, "price": None, "day": second, "country": "a/b"},
        {"id": 4, "price": None, "day": second, "country": None},
    ]
    assert rows_by_deltalake(files) == ours
    snapshot = DeltaLog(files).snapshot()
    assert snapshot.partition_columns == ("day", "country")
    assert snapshot.metadata.name == "orders"
    entry = next(DeltaLog(files).history())
    assert (entry.operation, entry.user_metadata) == ("CONVERT", "moved in")
    assert entry.operation_parameters == {
        "numFiles": 3,
        "partitionedBy": '["day","country"]',
        "collectStats": True,
        "sourceFormat": "parquet",
    }
    da.write(files, pa.table({"id": [5], "day": [first], "country": ["BE"]}))
    assert len(rows_by_deltalake(files)) == 5


def test_statistics_come_from_the_footers(files: Path) -> None:
    da.convert(files)
    snapshot = DeltaLog(files).snapshot()
    stats = sorted(
        json.loads(text)["numRecords"] for text in snapshot.files(["stats"])["stats"].to_pylist()
    )
    assert stats == [1, 1, 2]
    assert snapshot.files(["path"], col("id") > 3).num_rows == 1
    assert snapshot.files(["path"], col("country") == "NL").num_rows == 1


def test_only_footers_are_read(files: Path) -> None:
    log = DeltaLog(files)
    called: list[str] = []

    def note(_number: int, method: str, path: str, when: str) -> None:
        if when == "before" and path.endswith(".parquet"):
            called.append(method)

    da.convert(log.over(CountingStorage(log.storage, note)))
    # The oldest file is looked up before and after the commit: someone may delete the directory.
    assert called == ["read_ranges"] * 3 + ["stat"] * 2


def test_it_is_done_once(files: Path) -> None:
    da.convert(files)
    again = da.convert(files)
    assert (again.version, again.ignored) == (None, True)
    assert DeltaLog(files).snapshot().version == 0


def test_a_dry_run_makes_no_table(files: Path) -> None:
    assert da.convert(files, dry_run=True).metrics == {"numConvertedFiles": 3}
    assert not (files / "_delta_log").exists()


def test_vacuum_finds_nothing_to_delete(files: Path) -> None:
    da.convert(files, configuration={"delta.deletedFileRetentionDuration": "0 days"})
    assert vacuum(files, dry_run=True).plan.files == ()
    assert (files / "_SUCCESS").exists()


@pytest.mark.parametrize(
    ("partition_by", "values"),
    [
        pytest.param(None, [1, 2], id="as their values are"),
        pytest.param(["n"], [1, 2], id="by name"),
        pytest.param({"n": "string"}, ["1", "2"], id="as a text"),
        pytest.param({"n": "double"}, [1.0, 2.0], id="as a number"),
    ],
)
def test_partition_columns_have_the_requested_type(
    tmp_path: Path, partition_by: Any, values: list[Any]
) -> None:
    write(tmp_path / "n=1" / "a.parquet", id=[1])
    write(tmp_path / "n=2" / "b.parquet", id=[2])
    da.convert(tmp_path, partition_by=partition_by)
    assert [row["n"] for row in rows(da.to_table(tmp_path))] == values


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "-20"], "long"),
        (["1", "02"], "string"),
        (["1", "x"], "string"),
        (["2026-01-01", "2026-12-31"], "date"),
        (["2026-01-01", "2026-02-30"], "string"),
        (["99999999999999999999"], "string"),
        (["__HIVE_DEFAULT_PARTITION__"], "string"),
    ],
)
def test_the_type_of_a_partition_column_is_that_of_all_values(
    tmp_path: Path, texts: list[str], kind: str
) -> None:
    for text in texts:
        write(tmp_path / f"p={text}" / "a.parquet", id=[1])
    da.convert(tmp_path)
    assert DeltaLog(tmp_path).snapshot().schema.fields[-1].data_type.name == kind
    assert len(rows_by_deltalake(tmp_path)) == len(texts)


def test_files_of_several_schemas_are_merged(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", id=[1], s=[{"x": 1}])
    write(tmp_path / "b.parquet", later=["z"], id=[2], s=[{"y": "b", "x": 2}])
    write(tmp_path / "deep" / "er" / "c.parquet", l=[[1]])
    da.convert(tmp_path)
    names = [each.name for each in DeltaLog(tmp_path).snapshot().schema.fields]
    assert names == ["id", "s", "later", "l"]
    assert [row["s"] for row in da.to_table(tmp_path).to_pylist()] == [
        {"x": 1, "y": None},
        {"x": 2, "y": "b"},
        None,
    ]
    da.write(tmp_path, pa.table({"id": [9]}))


def test_times_keep_their_meaning(tmp_path: Path) -> None:
    moment = datetime(2026, 1, 1, 12, tzinfo=UTC)
    local = pa.array([moment.replace(tzinfo=None)], pa.timestamp("us"))
    zoned = pa.array([moment], pa.timestamp("us", "UTC"))
    pq.write_table(
        pa.table({"at": local}), tmp_path / "old.parquet", use_deprecated_int96_timestamps=True
    )
    write(tmp_path / "new.parquet", at=zoned)
    da.convert(tmp_path)
    assert da.to_table(tmp_path)["at"].to_pylist() == [moment, moment]
    assert DeltaLog(tmp_path).snapshot().schema.fields[0].data_type.name == "timestamp"
    write(tmp_path / "local" / "a.parquet", at=local)
    da.convert(tmp_path / "local")
    assert DeltaLog(tmp_path / "local").snapshot().definition.has("timestampNtz")


@pytest.mark.parametrize("has_arrow_schema", [False, True])
def test_strings_that_are_marked_as_json_are_read(tmp_path: Path, has_arrow_schema: bool) -> None:
    """DuckDB marks its columns of type JSON so."""
    marked = pa.table({"j": pa.array(["{}", None], pa.json_())})
    pq.write_table(marked, tmp_path / "a.parquet", store_schema=has_arrow_schema)
    write(tmp_path / "b.parquet", j=["[1]"])
    da.convert(tmp_path)
    assert da.to_table(tmp_path)["j"].to_pylist() == ["{}", None, "[1]"]


def damaged(root: Path) -> None:
    (root / "x.parquet").write_bytes(b"PAR1 no")


REFUSED = [
    pytest.param(
        lambda root: (root / "x.csv").touch(),
        r"x\.csv does not have the",
        id="another kind",
    ),
    pytest.param(damaged, r"x\.parquet cannot be read as Parquet", id="damaged"),
    pytest.param(lambda root: write(root / "x.parquet", id=["a"]), "of type string", id="a type"),
    pytest.param(lambda root: write(root / "x.parquet", ID=[1]), "spelled id in", id="a spelling"),
    pytest.param(
        lambda root: write(root / "x.parquet", u=pa.array([1], pa.uint8())),
        "uint8, which Delta tables do not have",
        id="an unsigned number",
    ),
    pytest.param(
        lambda root: write(root / "x.parquet", at=pa.array([1], pa.timestamp("ns"))),
        "at has times in nanoseconds",
        id="nanoseconds",
    ),
    pytest.param(
        lambda root: write(root / "x.parquet", u=pa.array([uuid4()], pa.uuid())),
        "u has UUIDs, which Spark cannot read",
        id="UUIDs",
    ),
    pytest.param(
        lambda root: write(root / "x.parquet", **{"a b": [1]}), "forbid in names", id="a name"
    ),
    pytest.param(
        lambda root: write(root / "p=1" / "x.parquet", id=[1]), "partitioned by", id="directories"
    ),
    pytest.param(
        lambda root: da.write(root / "inner", pa.table({"id": [1]})),
        "another table, in inner",
        id="another table",
    ),
    pytest.param(lambda root: (root / "a.parquet").unlink(), "no Parquet file to", id="nothing"),
]


@pytest.mark.parametrize(("spoil", "message"), REFUSED)
def test_data_that_a_table_would_lose_are_refused(tmp_path: Path, spoil: Any, message: str) -> None:
    write(tmp_path / "a.parquet", id=[1])
    spoil(tmp_path)
    with pytest.raises(InvalidRequestError, match=message):
        da.convert(tmp_path)
    assert not (tmp_path / "_delta_log").exists()


def test_partition_columns_match_the_directories(files: Path) -> None:
    with pytest.raises(InvalidRequestError, match="but the directories have day, country"):
        da.convert(files, partition_by=["country", "day"])
    with pytest.raises(InvalidRequestError, match="Give the column another type"):
        da.convert(files, partition_by={"day": "date", "country": "int"})
    write(files / "day=2026-01-03" / "plain" / "a.parquet", id=[1])
    with pytest.raises(InvalidRequestError, match="which is not a partition directory"):
        da.convert(files)


def test_a_table_that_was_made_meanwhile_stays_as_it_is(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", id=[1])
    outside = open_storage(tmp_path)

    def make_first(_number: int, method: str, path: str, when: str) -> None:
        if method == "create" and path.endswith("0.json") and when == "before":
            da.write(DeltaLog("", storage=outside), pa.table({"id": [2]}))

    with pytest.raises(TableExistsError):
        da.convert(DeltaLog("", storage=CountingStorage(outside, make_first)))
    assert rows_by_deltalake(tmp_path) == [{"id": 2}]


def test_a_kill_leaves_no_table_or_all_of_it(files: Path, tmp_path: Path) -> None:
    number = count()

    def fresh() -> Storage:
        place = tmp_path / str(next(number))
        shutil.copytree(files, place)
        return open_storage(place)

    for where, left in crashes(fresh, lambda storage: da.convert(DeltaLog("", storage=storage))):
        log = DeltaLog("", storage=left)
        before = log.snapshot_if_exists()
        assert before is None or before.num_files == 3, where
        assert da.convert(log).ignored is (before is not None), where
        assert len(rows_by_deltalake(Path(left.uri))) == 4, where


def test_deltalake_makes_the_same_table(files: Path, tmp_path: Path) -> None:
    shutil.rmtree(files / "day=2026-01-02")
    other = tmp_path / "other"
    shutil.copytree(files, other)
    da.convert(files, partition_by={"day": "date", "country": "string"})
    fields = [Field("day", PrimitiveType("date")), Field("country", PrimitiveType("string"))]
    partitions = Schema(fields)
    convert_to_deltalake(other, partition_by=partitions, partition_strategy="hive")
    assert rows(da.to_table(other)) == rows(da.to_table(files))
    assert DeltaTable(other).file_uris() == [
        uri.replace(str(files), str(other)) for uri in DeltaTable(files).file_uris()
    ]


def test_columns_of_a_mapped_table_are_found_under_their_names(tmp_path: Path) -> None:
    root = tmp_path / "t"
    s = pa.array([{"c d": 1, "e": [{"f": 2}]}])
    write(root / "p q=x/a.parquet", **{"a b": [1], "s": s})
    write(root / "p q=y/b.parquet", **{"a b": [2], "s": s, "late=": ["z"]})
    with pytest.raises(InvalidRequestError, match=r"forbid in names.*set delta.columnMapping.mode"):
        da.convert(root)
    with pytest.raises(InvalidRequestError, match="set it to name"):
        da.convert(root, configuration={"delta.columnMapping.mode": "id"})
    da.convert(root, configuration={"delta.columnMapping.mode": "name"})
    found = {"c d": 1, "e": [{"f": 2}]}
    expected = [
        {"a b": 1, "s": found, "late=": None, "p q": "x"},
        {"a b": 2, "s": found, "late=": "z", "p q": "y"},
    ]
    assert rows(da.to_table(root)) == expected
    assert rows(da.to_table(root, predicate=col("a b") == 2)) == expected[1:]
    assert len(DeltaLog(root).snapshot().add_files(col("a b") == 2)) == 1
    assert rows_by_deltalake(root) == expected
    rename_column(root, "`a b`", "new")
    da.write(root, pa.table({"new": [3], "p q": ["x"]}))
    assert sorted(da.to_table(root, ["new"])["new"].to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize("city", ["Köln", "日本", "a%b", "50% é", "x/y"])
def test_directories_of_other_writers_say_any_character(tmp_path: Path, city: str) -> None:
    root = tmp_path / "t"
    pq.write_to_dataset(pa.table({"a": [1], "city": [city]}), root, partition_cols=["city"])
    da.convert(root)
    assert da.to_table(root)["city"].to_pylist() == [city]


def test_a_directory_that_is_no_text_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "t" / "city=K%F6ln" / "a.parquet", a=[1])
    with pytest.raises(InvalidRequestError, match="not UTF-8; rename it"):
        da.convert(tmp_path / "t")


@pytest.mark.parametrize("link", ["day=2026-01-03", "day=2026-01-01/country=NL/z.parquet"])
def test_a_link_is_refused_and_not_passed_over(files: Path, tmp_path: Path, link: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere / "country=NL" / "c.parquet", id=[9])
    is_file = link.endswith(".parquet")
    (files / ".hidden" / "link").symlink_to(elsewhere)
    (files / link).symlink_to(elsewhere / "country=NL" / "c.parquet" if is_file else elsewhere)
    with pytest.raises(InvalidRequestError, match=f"{link} is a link"):
        da.convert(files)
    (files / link).unlink()
    assert da.convert(files).version == 0
