"""Which files vacuum may delete: the plan over a listing, without a table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_ops.clock import DAY_MS, HOUR_MS
from delta_ops.maintenance import VacuumPlan, plan_vacuum
from delta_ops.storage import FileInfo
from delta_ops.storage.paths import staged_name

NOW = 20_000 * DAY_MS
WEEK = 7 * DAY_MS


def file(path: str, age_ms: int = 9 * DAY_MS) -> FileInfo:
    return FileInfo(path, 1, NOW - age_ms)


def plan(*files: FileInfo, retention_ms: int = WEEK, **options: object) -> VacuumPlan:
    reachable = {"live.parquet"}
    return plan_vacuum(files, reachable, now_ms=NOW, retention_ms=retention_ms, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "age_ms", "goes"),
    [
        pytest.param("live.parquet", 9 * DAY_MS, False, id="a reachable file stays, however old"),
        pytest.param("orphan.parquet", HOUR_MS, False, id="a young orphan may be in flight"),
        pytest.param("orphan.parquet", WEEK, False, id="one exactly at the horizon stays"),
        pytest.param("orphan.parquet", WEEK + 1, True, id="an old orphan goes"),
        pytest.param("p=1/orphan.csv", WEEK + 1, True, id="whatever its kind and directory"),
        pytest.param(staged_name(), 23 * HOUR_MS, False, id="an unfinished file of today stays"),
        pytest.param(staged_name(), 25 * HOUR_MS, True, id="an unfinished file of yesterday goes"),
        pytest.param(
            f"_delta_log/{staged_name()}", 25 * HOUR_MS, True, id="in the log directory too"
        ),
    ],
)
def test_age(path: str, age_ms: int, goes: bool) -> None:
    assert plan(file(path, age_ms)).has_work is goes


@pytest.mark.parametrize(
    ("path", "goes"),
    [
        pytest.param("_delta_log/00000000000000000000.json", False, id="the log"),
        pytest.param("_delta_ops/probe", False, id="what is ours"),
        pytest.param("_tmp/x.parquet", False, id="a hidden directory"),
        pytest.param("a/.hidden/b/x.parquet", False, id="a hidden directory further down"),
        pytest.param("a/_SUCCESS", False, id="a hidden file"),
        pytest.param(".part-0.parquet.crc", False, id="a checksum"),
        pytest.param("_change_data/cdc-1.parquet", True, id="change data"),
        pytest.param("_change_data/_p=1/cdc-1.parquet", True, id="change data of a partition"),
        pytest.param("_change_data/_x/cdc-1.parquet", False, id="hidden within change data"),
        pytest.param("_delta_index/x", True, id="an index"),
        pytest.param("_delta_index_v2/x", True, id="an index of another kind"),
        pytest.param("_p=1/x.parquet", True, id="a partition whose column begins with _"),
        pytest.param("_p=1/_q=2/x.parquet", False, id="a column that is not the table's"),
        pytest.param(".a%25=1/x.parquet", True, id="a column whose name is escaped"),
        pytest.param("a_b/x.parquet", True, id="a name with _ inside"),
    ],
)
def test_hidden_names(path: str, goes: bool) -> None:
    chosen = plan(file(path), partition_columns=["_p", ".a%"])
    assert chosen.has_work is goes
    assert goes or chosen.kept == {"hidden": 1}


def test_a_table_inside_the_table_stays_whole() -> None:
    chosen = plan(
        file("copy/_delta_log/00000000000000000000.json"),
        file("copy/p=1/x.parquet"),
        file("copy2/x.parquet"),
    )
    assert [info.path for info in chosen.files] == ["copy2/x.parquet"]
    assert chosen.kept == {"hidden": 1, "of another table": 1}


def test_paths_to_keep_stay() -> None:
    chosen = plan(file("a.parquet"), file("b.parquet"), keep=["a.parquet"])
    assert [info.path for info in chosen.files] == ["b.parquet"]
    assert chosen.kept == {"on request": 1}


def test_all_files_of_a_kept_directory_stay() -> None:
    chosen = plan(file("d/e/a.parquet"), file("d.parquet"), file("de/a.parquet"), keep=["d"])
    assert [info.path for info in chosen.files] == ["d.parquet", "de/a.parquet"]


paths = st.lists(st.sampled_from(["a", "_a", ".b", "p=1", "_p=2", "_change_data", "c.parquet"]))
listings = st.lists(
    st.builds(lambda parts, age: file("/".join([*parts, "x"]), age), paths, st.integers(0, 20)),
    unique_by=lambda info: info.path,
)


@given(listings, st.sets(st.integers(0, 20)), st.integers(0, 20))
def test_only_unreachable_old_visible_files_go_and_every_file_is_accounted_for(
    listed: list[FileInfo], reachable_numbers: set[int], retention_ms: int
) -> None:
    reachable = {info.path for n, info in enumerate(listed) if n in reachable_numbers}
    chosen = plan_vacuum(listed, reachable, now_ms=NOW, retention_ms=retention_ms)
    going = {info.path for info in chosen.files}
    assert not going & reachable
    assert all(info.modified_ms < NOW - retention_ms for info in chosen.files)
    assert len(listed) == len(going) + sum(chosen.kept.values())
