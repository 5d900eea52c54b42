"""Streams of tables against a plain model: each added file once, in every case."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError, TableReplacedError, VersionNotFoundError
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import create_checkpoint
from delta_ops.planning.stream_commits import StreamRules
from delta_ops.planning.stream_slices import SliceLimits
from delta_ops.planning.table_stream import FilesByTime, StreamRequest, TableStream
from delta_ops.protocol.actions import Action, AddFile, CommitInfo
from delta_ops.protocol.stream_offset import StreamOffset, stream_offset_from_json
from tests.support.tables import SCHEMA, add, metadata, remove, write_log

WIDER = SCHEMA.replace(
    '"fields":[', '"fields":[{"name":"x","type":"long","nullable":true,"metadata":{}},'
)
KINDS = ("append", "append", "append", "optimize", "delete", "change", "nothing", "property")
STEPS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.lists(st.integers(1, 9), max_size=5)),
    min_size=1,
    max_size=12,
)
SKIPPING = StreamRules(skip_change_commits=True)


class Model:
    """A growing table, with the expected files of each version."""

    def __init__(self, root: Path) -> None:
        self.log, self.live = DeltaLog(root), dict[str, AddFile]()
        self.read_of: list[list[str]] = []
        self.live_at: list[list[AddFile]] = []

    def commit(self, kind: str, sizes: list[int]) -> None:
        version, actions = len(self.read_of), list[Action]()
        gone = sorted(self.live)[: len(sizes)] if kind in ("optimize", "delete", "change") else []
        changes = kind != "optimize"
        actions += [remove(path, data_change=changes) for path in gone]
        new = [
            add(f"{version}-{n}", size=size, modification_time=size % 3, data_change=changes)
            for n, size in enumerate(sizes)
            if kind in ("append", "change") or (kind == "optimize" and gone)
        ]
        actions += new
        if kind == "property":
            actions.append(metadata(configuration={"a": str(version)}))
        first = write_log if version == 0 else None
        if first:
            first(Path(self.log.uri.removeprefix("file://")), [actions])
        else:
            create_commit(self.log.storage, self.log.log_directory, version, actions)
        for path in gone:
            del self.live[path]
        self.live |= {each.path: each for each in new}
        is_read = kind == "append" or (kind == "change" and not gone)
        self.read_of.append([each.path for each in new] if is_read else [])
        self.live_at.append(list(self.live.values()))

    def expect(self, begin: int | None, first: int) -> list[str]:
        """All files of a stream that began with a version, or with its snapshot."""
        if begin is not None:
            return [path for paths in self.read_of[begin:] for path in paths]
        live = sorted(self.live_at[first], key=lambda each: (each.modification_time, each.path))
        after = [path for paths in self.read_of[first + 1 :] for path in paths]
        return [each.path for each in live] + after


def drive(
    stream: TableStream, start: StreamOffset | None, limits: SliceLimits
) -> tuple[list[str], StreamOffset | None]:
    """One slice, read twice, as after a killed process."""
    end = stream.end_after(start, limits)
    if end is None or end == start:
        return [], start
    taken = [each.path for each in stream.adds_between(start, end)]
    assert [each.path for each in stream.adds_between(start, end)] == taken
    return taken, end


@settings(max_examples=40)
@given(
    before=STEPS,
    after=STEPS,
    begins=st.none() | st.integers(0, 30),
    limits=st.lists(st.tuples(st.integers(1, 4), st.none() | st.integers(1, 20)), min_size=1),
    restarts=st.lists(st.booleans(), min_size=1),
)
def test_each_added_file_is_read_once_in_order_through_restarts_and_other_commits(
    before: list[tuple[str, list[int]]],
    after: list[tuple[str, list[int]]],
    begins: int | None,
    limits: list[tuple[int, int | None]],
    restarts: list[bool],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Model(Path(folder) / "t")
        for step in before:
            model.commit(*step)
        first = len(before) - 1
        begin = None if begins is None else begins % len(before)
        request = StreamRequest(starting_version=begin, rules=SKIPPING)
        stream = TableStream(model.log, model.log.snapshot(), request)
        place, read, number = None, list[str](), 0
        while True:
            if number < len(after):
                model.commit(*after[number])
            max_files, max_bytes = limits[number % len(limits)]
            limit = SliceLimits(max_files=max_files, max_bytes=max_bytes)
            taken, end = drive(stream, place, limit)
            if end == place and number >= len(after):
                break
            read, place, number = read + taken, end, number + 1
            if place is not None and restarts[number % len(restarts)]:
                place = stream_offset_from_json(place.to_json())
                stream = TableStream(model.log, model.log.snapshot(), request)
        assert read == model.expect(begin, first)


@given(
    times=st.lists(st.integers(0, 4), min_size=1, max_size=30),
    window=st.integers(1, 8),
    numbers=st.tuples(st.integers(0, 30), st.integers(0, 30)),
)
@settings(max_examples=40)
def test_files_by_time_are_the_same_whatever_part_is_in_memory(
    times: list[int], window: int, numbers: tuple[int, int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        adds = [add(f"f{n}", size=n + 1, modification_time=t) for n, t in enumerate(times)]
        log = write_log(Path(folder), [adds])
        in_order = sorted(adds, key=lambda each: (each.modification_time, each.path))
        files = FilesByTime(log.snapshot(), window)
        taken = slice(*numbers)
        found = [p for t in files.rows_between(taken) for p in t["path"].to_pylist()]
        assert found == [each.path for each in in_order[taken]]
        first = min(numbers[0], len(adds))
        assert list(files.sizes_from(first)) == [each.size for each in in_order[first:]]


def stream_of(root: Path, *commits: list[Action], **options: Any) -> TableStream:
    log = write_log(root, commits)
    return TableStream(log, log.snapshot(), StreamRequest(**options))


def paths(stream: TableStream, start: StreamOffset | None = None) -> list[str]:
    end = stream.end_after(start)
    assert end is not None
    return [each.path for each in stream.adds_between(start, end)]


@pytest.mark.parametrize(
    ("commit", "rules", "outcome"),
    [
        pytest.param([remove("a")], {}, "deletes rows", id="a delete"),
        pytest.param([remove("a")], {"ignore_deletes": True}, ["b"], id="a delete, ignored"),
        pytest.param([remove("a")], {"skip_change_commits": True}, ["b"], id="a delete, skipped"),
        pytest.param([remove("a"), add("c")], {}, "changes rows", id="an update"),
        pytest.param(
            [remove("a"), add("c")], {"ignore_deletes": True}, "changes rows", id="not a delete"
        ),
        pytest.param(
            [remove("a"), add("c")], {"skip_change_commits": True}, ["b"], id="an update, skipped"
        ),
        pytest.param(
            [remove("a"), add("c")], {"ignore_changes": True}, ["c", "b"], id="files again"
        ),
        pytest.param(
            [remove("a", data_change=False), add("c", data_change=False)],
            {},
            ["b"],
            id="a compaction",
        ),
        pytest.param(
            [CommitInfo(values={"operation": "FSCK"}), remove("a")], {}, ["b"], id="a repair"
        ),
    ],
)
def test_a_commit_that_changes_rows_is_an_error_or_skipped(
    tmp_path: Path, commit: list[Action], rules: dict[str, bool], outcome: str | list[str]
) -> None:
    stream = stream_of(
        tmp_path, [add("a")], commit, [add("b")], starting_version=1, rules=StreamRules(**rules)
    )
    if isinstance(outcome, list):
        assert paths(stream) == outcome
    else:
        with pytest.raises(InvalidRequestError, match=outcome):
            stream.end_after(None)


def test_rows_before_a_change_of_columns_are_read_and_then_the_stream_stops(
    tmp_path: Path,
) -> None:
    stream = stream_of(tmp_path, [add("a")], starting_version=0)
    log = stream.log
    create_commit(log.storage, log.log_directory, 1, [add("b")])
    create_commit(log.storage, log.log_directory, 2, [metadata(schema_string=WIDER)])
    create_commit(log.storage, log.log_directory, 3, [add("c")])

    end = stream.end_after(None)

    assert end is not None
    assert [each.path for each in stream.adds_between(None, end)] == ["a", "b"]
    with pytest.raises(InvalidRequestError, match="version 2 changes the table's columns"):
        stream.end_after(end)
    again = TableStream(log, log.snapshot(), StreamRequest(starting_version=0))
    assert paths(again, end) == ["c"]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        pytest.param(SCHEMA.replace('"long"', '"string"'), "column id was string", id="a type"),
        pytest.param(WIDER, None, id="a column that was dropped"),
    ],
)
def test_older_rows_are_read_with_the_columns_of_today_if_they_can_be(
    tmp_path: Path, schema: str, reason: str | None
) -> None:
    stream = stream_of(
        tmp_path,
        [metadata(schema_string=schema), add("a")],
        [metadata(), add("b")],
        starting_version=0,
    )
    if reason is None:
        assert paths(stream) == ["a", "b"]
    else:
        with pytest.raises(InvalidRequestError, match=reason):
            stream.end_after(None)


def test_older_rows_that_were_partitioned_in_another_way_are_refused(tmp_path: Path) -> None:
    parted = metadata(partition_columns=("p",))
    stream = stream_of(tmp_path, [parted, add("a")], [metadata()], starting_version=0)
    with pytest.raises(InvalidRequestError, match="partition columns changed"):
        stream.end_after(None)


def test_the_checkpoint_of_another_table_is_refused(tmp_path: Path) -> None:
    stream = stream_of(tmp_path, [add("a")])
    with pytest.raises(InvalidRequestError, match="on the table with the id other"):
        stream.end_after(StreamOffset(table_id="other", version=0))


def test_a_table_that_takes_the_place_of_another_one_ends_the_stream(tmp_path: Path) -> None:
    stream = stream_of(tmp_path, [add("a")], starting_version=0)
    create_commit(stream.log.storage, stream.log.log_directory, 1, [metadata(id="new")])
    end = stream.end_after(None)
    with pytest.raises(
        TableReplacedError, match=r"replaced by a table with the id .* in version 1"
    ):
        stream.end_after(end)


def test_commits_that_were_cleaned_up_before_they_were_read_are_missed(tmp_path: Path) -> None:
    stream = stream_of(tmp_path, [add("a")], [add("b")], [add("c")], starting_version=0)
    start = StreamOffset(table_id=stream.schema_snapshot.metadata.id, version=1)
    create_checkpoint(stream.log)
    for version in (0, 1):
        (tmp_path / "_delta_log" / f"{version:020}.json").unlink()
    with pytest.raises(VersionNotFoundError, match="cleaned up before this stream read it"):
        stream.end_after(start)


def test_a_version_that_was_read_and_is_gone_ends_the_stream(tmp_path: Path) -> None:
    stream = stream_of(tmp_path, [add("a")])
    start = StreamOffset(table_id=stream.schema_snapshot.metadata.id, version=5)
    with pytest.raises(TableReplacedError, match="already read version 4"):
        stream.end_after(start)


def test_a_start_that_is_not_there_is_refused(tmp_path: Path) -> None:
    stream = stream_of(tmp_path, [add("a")], starting_version=1)
    with pytest.raises(VersionNotFoundError, match="its latest version is 0"):
        stream.end_after(None)


def test_a_stream_of_what_is_to_come_reads_nothing_else_even_if_it_starts_again(
    tmp_path: Path,
) -> None:
    stream = stream_of(tmp_path, [add("a")], starting_version="latest")
    begin = stream.end_after(None)
    assert begin is not None
    assert stream.adds_between(None, begin) == []
    create_commit(stream.log.storage, stream.log.log_directory, 1, [add("b")])
    again = TableStream(stream.log, stream.log.snapshot(), StreamRequest(starting_version="latest"))
    assert again.adds_between(None, begin) == []
    assert paths(again, begin) == ["b"]


def test_a_stream_that_stops_reads_no_commit_that_comes_later(tmp_path: Path) -> None:
    stream = stream_of(tmp_path, [add("a")], [add("b")], starting_version=0)
    stream.stop_at_latest()
    create_commit(stream.log.storage, stream.log.log_directory, 2, [add("c")])
    end = stream.end_after(None)
    assert end is not None
    assert [each.path for each in stream.adds_between(None, end)] == ["a", "b"]
    assert stream.end_after(end) == end


def test_a_batch_with_only_an_end_begins_with_the_first_snapshot(
    tmp_path: Path,
) -> None:
    stream = stream_of(tmp_path, [add("a")], [add("b")])
    end = StreamOffset(table_id=stream.schema_snapshot.metadata.id, version=2)
    create_commit(stream.log.storage, stream.log.log_directory, 2, [add("c")])
    again = TableStream(stream.log, stream.log.snapshot(), StreamRequest())
    assert [each.path for each in again.adds_between(None, end)] == ["a", "b"]


def test_excluded_files_count_and_are_not_read(tmp_path: Path) -> None:
    stream = stream_of(
        tmp_path,
        [add("a"), add("b"), add("c")],
        starting_version=0,
        exclude=re.compile("b"),
        limits=SliceLimits(max_files=2),
    )
    assert paths(stream) == ["a"]
