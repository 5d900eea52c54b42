"""Row ids and row commit versions survive every rewrite of the files."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.arrow.read.scan import read_kept
from delta_ops.ddl import NewColumn, add_columns, set_properties, shallow_clone
from delta_ops.errors import CommitConflictError, InvalidRequestError
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.maintenance import create_checkpoint, optimize, restore
from delta_ops.protocol.row_tracking import row_columns
from tests.support.examples import check_examples, few_or_many
from tests.support.tables import rows, rows_by_deltalake

TRACKED = {"delta.enableRowTracking": "true"}
Tracked = dict[int, tuple[int, int]]


def data(*ids: int, part: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": [part] * len(ids), "v": [0] * len(ids)})


def tracked(place: Path) -> Tracked:
    """The row id and row commit version of each row, by the row's own number."""
    snapshot = DeltaLog(place).snapshot()
    names = row_columns(snapshot.definition, snapshot.uri)
    assert names is not None
    found: Tracked = {}
    for batch in read_kept(snapshot, snapshot.add_files(), ["id", *names]):
        for row in batch.to_pylist():
            assert row["id"] not in found
            found[row["id"]] = row[names.row_id], row[names.commit_version]
    assert len({row_id for row_id, _ in found.values()}) == len(found)
    assert max((row_id for row_id, _ in found.values()), default=-1) <= mark(place)
    return found


def mark(place: Path) -> int:
    domain = DeltaLog(place).snapshot().domain_metadata().get("delta.rowTracking")
    return -1 if domain is None else json.loads(domain.configuration)["rowIdHighWaterMark"]


@pytest.fixture(params=["vectors", "mapped", "feed", pytest.param("by id", marks=pytest.mark.full)])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A table in a given layout; the layout decides how kept rows are written."""
    properties = {
        "vectors": {"delta.enableDeletionVectors": "true"},
        "mapped": {"delta.columnMapping.mode": "name"},
        "by id": {"delta.columnMapping.mode": "id"},
        "feed": {"delta.enableChangeDataFeed": "true"},
    }[request.param]
    return create(tmp_path, properties, ["p"] if request.param == "mapped" else None)


@pytest.fixture
def any_table(tmp_path: Path) -> Path:
    """A table for claims that do not depend on its layout."""
    return create(tmp_path, {"delta.enableDeletionVectors": "true"}, None)


def create(place: Path, properties: dict[str, str], by: list[str] | None) -> Path:
    da.write(place, data(1, 2, 3), partition_by=by, configuration={**TRACKED, **properties})
    da.write(place, data(4, 5, 6, part="b"))
    return place


FIRST = {1: (0, 0), 2: (1, 0), 3: (2, 0), 4: (3, 1), 5: (4, 1), 6: (5, 1)}


def test_new_rows_get_ids_that_nobody_had(any_table: Path) -> None:
    assert tracked(any_table) == FIRST
    assert mark(any_table) == 5
    definition = DeltaLog(any_table).snapshot().definition
    assert definition.has("rowTracking")
    assert definition.has("domainMetadata")


def test_rows_that_stay_keep_their_ids(table: Path) -> None:
    da.delete(table, col("id").isin([2, 4]))
    left = {number: FIRST[number] for number in (1, 3, 5, 6)}
    assert tracked(table) == left
    optimize(DeltaLog(table))
    assert tracked(table) == left
    da.write(table, data(5), "overwrite", replace_where=col("id") == 5)
    found = tracked(table)
    assert {n: found[n] for n in (1, 3, 6)} == {n: FIRST[n] for n in (1, 3, 6)}
    version = DeltaLog(table).snapshot().version
    assert found[5][0] > 5
    assert found[5][1] == version
    create_checkpoint(DeltaLog(table))
    assert tracked(table) == found
    assert rows(da.to_table(table).select(["id"])) == [{"id": n} for n in (1, 3, 5, 6)]


def test_rows_that_are_updated_keep_their_ids_and_say_when(table: Path) -> None:
    da.update(table, {"v": "id * 10"}, col("id").isin([2, 6]))
    expected = {**FIRST, 2: (1, 2), 6: (5, 2)}
    assert tracked(table) == expected
    da.update(table, {"p": "'c'"}, col("id") == 1)
    expected = {**expected, 1: (0, 3)}
    assert tracked(table) == expected
    optimize(DeltaLog(table))
    assert tracked(table) == expected


def test_merged_rows_keep_their_ids_and_new_rows_get_new_ids(table: Path) -> None:
    source = pa.table({"id": [2, 3, 9], "p": ["a", "z", "n"], "v": [7, 8, 9]})
    merge = da.merge(table, source, "target.id = source.id")
    merge = merge.when_matched_update_all("source.p = 'a'").when_matched_delete()
    merge = merge.when_not_matched_by_source_update({"v": "target.v + 1"}, "target.id = 5")
    merge.when_not_matched_insert_all().execute()
    found = tracked(table)
    assert found.pop(9)[0] > 5
    assert found == {1: (0, 0), 2: (1, 2), 4: (3, 1), 5: (4, 2), 6: (5, 1)}
    if DeltaLog(table).snapshot().definition.has_change_feed:
        changes = pa.table(da.read_changes(table, 2, 2))
        assert set(changes.column_names) == {
            *("id", "p", "v"),
            *("_change_type", "_commit_version", "_commit_timestamp"),
        }


def test_two_at_once_give_no_id_twice(any_table: Path) -> None:
    begun = [begin(DeltaLog(any_table)) for _ in range(3)]
    for number, each in enumerate(begun):
        da.write(each, data(100 + number, 200 + number))
    found = tracked(any_table)
    assert len(found) == 12
    assert [found[100 + n] for n in range(3)] == [(6 + 2 * n, 2 + n) for n in range(3)]
    validate_checksum(DeltaLog(any_table).snapshot())


def test_a_restored_row_is_unchanged(any_table: Path) -> None:
    da.delete(any_table, col("id") < 5)
    da.write(any_table, data(50))
    restore(DeltaLog(any_table), version=1)
    assert tracked(any_table) == FIRST
    assert mark(any_table) >= 6
    da.write(any_table, data(51))
    assert tracked(any_table)[51][0] == mark(any_table) > 6


def test_a_clone_goes_on_counting(
    any_table: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    da.delete(any_table, col("id") == 2)
    clone = tmp_path_factory.mktemp("clone") / "t"
    shallow_clone(any_table, clone)
    assert tracked(clone) == tracked(any_table)
    da.write(clone, data(60))
    assert tracked(clone)[60][0] == mark(clone) > 5


def test_no_reader_sees_the_columns(table: Path) -> None:
    da.update(table, {"v": "1"}, col("id") == 2)
    optimize(DeltaLog(table))
    assert da.to_table(table).column_names == ["id", "p", "v"]
    adds = list(DeltaLog(table).snapshot().add_files())
    names = row_columns(DeltaLog(table).snapshot().definition, "t")
    assert names is not None
    assert all(name not in (add.stats or "") for add in adds for name in names)
    add_columns(table, [NewColumn(name="w", data_type="string")])
    da.write(table, data(7).append_column("w", [["x"]]))
    expected = {1: None, 2: None, 3: None, 4: None, 5: None, 6: None, 7: "x"}
    assert {row["id"]: row["w"] for row in rows(da.to_table(table))} == expected


def test_each_commit_says_that_it_keeps_the_ids(any_table: Path) -> None:
    da.update(any_table, {"v": 1}, col("id") == 1)
    optimize(DeltaLog(any_table))
    recorded = [each.commit_info.get("tags") for each in DeltaLog(any_table).history()]
    assert recorded == [{"delta.rowTracking.preserved": "true"}] * len(recorded)


def test_a_table_that_only_counts_keeps_no_ids(tmp_path: Path) -> None:
    da.write(tmp_path, data(1, 2), configuration={"delta.feature.rowTracking": "supported"})
    da.update(tmp_path, {"v": "1"}, col("id") == 2)
    [add] = DeltaLog(tmp_path).snapshot().add_files()
    assert (add.base_row_id, add.default_row_commit_version) == (2, 1)
    assert mark(tmp_path) == 3
    assert all("tags" not in each.commit_info for each in DeltaLog(tmp_path).history())
    assert rows_by_deltalake(tmp_path) == rows(da.to_table(tmp_path))
    set_properties(tmp_path, TRACKED)
    assert tracked(tmp_path) == {1: (2, 1), 2: (3, 1)}
    set_properties(
        tmp_path, {"delta.enableRowTracking": None, "delta.rowTrackingSuspended": "true"}
    )
    da.write(tmp_path, data(3))
    assert mark(tmp_path) == 3


def test_rows_without_ids_are_not_tracked(tmp_path: Path) -> None:
    da.write(tmp_path, data(1))
    with pytest.raises(InvalidRequestError, match="rows without row ids"):
        set_properties(tmp_path, TRACKED)
    set_properties(tmp_path, {"delta.feature.rowTracking": "supported"})
    da.write(tmp_path, data(1, 2), "overwrite")
    set_properties(tmp_path, TRACKED)
    assert tracked(tmp_path) == {1: (0, 2), 2: (1, 2)}


def test_rows_that_somebody_adds_while_tracking_begins_are_a_conflict(tmp_path: Path) -> None:
    """Their writer may not know that it has to assign row ids."""
    da.write(tmp_path, data(1).slice(0, 0))
    begun = begin(DeltaLog(tmp_path))
    begun.set_properties(TRACKED)
    da.write(tmp_path, data(1))
    with pytest.raises(CommitConflictError):
        begun.commit(operation="SET TBLPROPERTIES")
    assert not DeltaLog(tmp_path).snapshot().definition.has("rowTracking")


def test_rows_are_not_tracked_and_left_without_ids(tmp_path: Path) -> None:
    both = {**TRACKED, "delta.rowTrackingSuspended": "true"}
    with pytest.raises(InvalidRequestError, match="cannot both be true"):
        da.write(tmp_path, data(1), configuration=both)
    da.write(tmp_path, data(1), configuration=TRACKED)
    with pytest.raises(InvalidRequestError, match="cannot both be true"):
        set_properties(tmp_path, {"delta.rowTrackingSuspended": "true"})


Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "delete", "update", "move", "merge", "replace", "optimize"]),
        st.integers(0, 9),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=6,
)


def steps_of(place: Path) -> dict[str, Callable[[int, int, int], Any]]:
    def merge(low: int, high: int, fresh: int) -> Any:
        source = pa.table({"id": [low, fresh], "p": ["m", "m"], "v": [5, 5]})
        merge = da.merge(place, source, "target.id = source.id").when_matched_update_all()
        return merge.when_not_matched_insert_all().execute()

    def within(low: int, high: int) -> Any:
        return (col("id") >= low) & (col("id") <= high)

    return {
        "append": lambda _l, _h, fresh: da.write(place, data(fresh, fresh + 1)),
        "delete": lambda low, high, _: da.delete(place, within(low, high)),
        "update": lambda low, high, _: da.update(place, {"v": "v + 1"}, within(low, high)),
        "move": lambda low, high, _: da.update(place, {"p": "'z'"}, within(low, high)),
        "merge": merge,
        "replace": lambda low, _h, _f: da.write(
            place, data(low), "overwrite", replace_where=col("id") == low
        ),
        "optimize": lambda _l, _h, _f: optimize(DeltaLog(place)),
    }


def numbers() -> Iterator[int]:
    yield from range(100, 10_000, 2)


@few_or_many(12, 40)
def test_an_id_is_of_one_row_for_life(num_examples: int) -> None:
    check_examples(num_examples, check_ids, STEPS, st.booleans(), st.booleans())


def check_ids(steps: list[Step], has_vectors: bool, is_partitioned: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check_ids_in(Path(folder), steps, has_vectors, is_partitioned)


def check_ids_in(place: Path, steps: list[Step], has_vectors: bool, is_partitioned: bool) -> None:
    properties = {**TRACKED, "delta.enableDeletionVectors": str(has_vectors).lower()}
    by = ["p"] if is_partitioned else None
    da.write(place, data(*range(10)), partition_by=by, configuration=properties)
    does, fresh = steps_of(place), numbers()
    ids = tracked(place)
    first_ids = {row_id for row_id, _ in ids.values()}
    for name, low, high in steps:
        before = {row["id"]: row for row in rows(da.to_table(place))}
        does[name](low, high, next(fresh))
        version = DeltaLog(place).snapshot().version
        found = tracked(place)
        after = {row["id"]: row for row in rows(da.to_table(place))}
        for number, (row_id, changed_in) in found.items():
            is_new = number not in ids or (name == "replace" and number == low)
            if is_new:
                assert row_id not in first_ids
                assert changed_in == version
                continue
            assert row_id == ids[number][0]
            if after[number] == before[number] and name not in ("update", "move", "merge"):
                assert changed_in == ids[number][1]
            elif after[number] != before[number]:
                assert changed_in == version
        first_ids |= {row_id for row_id, _ in found.values()}
        ids = found
