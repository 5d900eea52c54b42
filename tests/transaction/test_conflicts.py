"""Conflicts: changes in an earlier commit that invalidate a transaction."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.errors import CommitConflictError, InvalidRequestError
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import optimize
from delta_ops.protocol.actions import AddFile, DomainMetadata, Protocol, RemoveFile
from delta_ops.protocol.predicate import TRUE, Predicate
from delta_ops.protocol.schema import LONG, TIMESTAMP, StructField, StructType
from delta_ops.transaction.changes import Describe, PutBack
from delta_ops.transaction.requests import Mode
from tests.arrow.foreign_table import create, data_file
from tests.support.tables import add, live_paths, metadata, remove, rows, stage_files, write_log

WITH_DOMAINS = Protocol(
    min_reader_version=1, min_writer_version=7, writer_features=("domainMetadata",)
)


def ids(*values: int) -> pa.Table:
    return pa.table({"id": list(values)})


def copied(log: DeltaLog, *values: int) -> None:
    """Commit rows that were derived from the rows with a small id."""
    txn = begin(log)
    txn.read(col("id") <= 3)
    txn.stage(da.stage_write(txn, ids(*values)))
    da.write(log, ids(7), mode="overwrite")
    txn.commit(operation="WRITE")


def test_read_files_must_still_be_live(tmp_path: Path) -> None:
    da.write(tmp_path, ids(1, 2, 3))
    log = DeltaLog(tmp_path)
    with pytest.raises(CommitConflictError, match="removed files that this operation has read"):
        copied(log, 10, 20, 30)
    assert rows(da.to_table(log)) == [{"id": 7}]


def test_a_removed_file_that_was_not_read_does_no_harm(tmp_path: Path) -> None:
    da.write(tmp_path, ids(4, 5))
    log = DeltaLog(tmp_path)
    copied(log, 10)
    assert rows(da.to_table(log)) == [{"id": 10}, {"id": 7}]


@pytest.mark.some_cases(3)
@pytest.mark.parametrize("rearrangements", [0, 1, 2])
@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
def test_read_files_must_still_be_live_wherever_their_rows_moved(
    tmp_path: Path, level: str, rearrangements: int
) -> None:
    properties = {"delta.isolationLevel": level}
    log = DeltaLog(tmp_path)
    for value in (1, 2, 3, 4):
        da.write(log, ids(value), configuration=properties)
    txn = begin(log)
    txn.read(col("id") == 1)
    txn.stage(da.stage_write(txn, ids(10)))
    for _ in range(rearrangements):
        optimize(log)
        da.write(log, ids(99))
    da.write(log, ids(1).slice(1), mode="overwrite", replace_where=col("id") == 1)
    with pytest.raises(CommitConflictError) as raised:
        txn.commit(operation="WRITE")
    assert raised.value.kind == "delete read"
    assert rows(da.to_table(log, predicate=col("id") < 10)) == [{"id": n} for n in (2, 3, 4)]


def test_a_rearrangement_does_not_mind_that_other_files_are_removed(tmp_path: Path) -> None:
    log = write_log(tmp_path, [[add("a.parquet")], [add("b.parquet")]])
    a, b = sorted(log.snapshot().add_files(), key=lambda each: each.path)
    rearrange, delete = begin(log), begin(log)
    rearrange.read(TRUE)
    rearrange.remove([a], data_change=False)
    rearrange.stage(stage_files(add("c.parquet", data_change=False)))
    delete.remove([b])
    delete.commit(operation="DELETE")
    rearrange.commit(operation="OPTIMIZE")
    assert live_paths(log) == {"c.parquet"}


def test_an_add_that_does_not_say_whether_it_changes_data_may_do_so(tmp_path: Path) -> None:
    log = write_log(tmp_path, [[add("old.parquet")]])
    overwrite = begin(log)
    overwrite.read(TRUE)
    overwrite.remove(log.snapshot().add_files())
    foreign = {"path": "new.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1}
    (tmp_path / "_delta_log" / f"{1:020d}.json").write_text(json.dumps({"add": foreign}))
    with pytest.raises(CommitConflictError, match="added"):
        overwrite.commit(operation="WRITE")


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_partition_whose_text_names_no_zone_is_judged_by_the_zone_of_who_read(
    tmp_path: Path, is_removed: bool
) -> None:
    at_midnight = {"ts": "2020-01-01 00:00:00"}  # in New York
    create(
        tmp_path,
        StructType((StructField("id", LONG), StructField("ts", TIMESTAMP))),
        [data_file(tmp_path, "old.parquet", ids(1), partition_values=at_midnight)],
        {},
        ("ts",),
    )
    log = DeltaLog(tmp_path)
    reader, writer = begin(log), begin(log)
    reader.partition_time_zone = "America/New_York"
    reader.read(col("ts") == datetime(2020, 1, 1, 5, tzinfo=UTC))
    reader.set_transaction(("app", 1))
    if is_removed:
        writer.remove(log.snapshot().add_files())
    else:
        new = data_file(tmp_path, "new.parquet", ids(2), partition_values=at_midnight)
        staged = stage_files(new)
        writer.stage(replace(staged, schema=log.snapshot().schema, partition_columns=("ts",)))
    writer.commit(operation="WRITE")
    with pytest.raises(CommitConflictError, match="read"):
        reader.commit(operation="WRITE")


def table_with_domains(tmp_path: Path) -> DeltaLog:
    log = DeltaLog(tmp_path)
    create_commit(log.storage, log.log_directory, 0, [WITH_DOMAINS, metadata()])
    return log


def test_two_changes_of_one_domain_conflict(tmp_path: Path) -> None:
    log = table_with_domains(tmp_path)
    first, second, third = begin(log), begin(log), begin(log)
    for txn, domain in ((first, "d"), (second, "d"), (third, "e")):
        txn.set_domain_metadata(DomainMetadata(domain=domain, configuration="{}"))
    first.commit(operation="WRITE")
    with pytest.raises(CommitConflictError, match="changed the domain d too"):
        second.commit(operation="WRITE")
    third.commit(operation="WRITE")
    assert set(log.snapshot().domain_metadata()) == {"d", "e"}


@pytest.mark.parametrize(
    ("domain", "reason"),
    [
        pytest.param("d", "has no domains", id="a protocol without domains"),
        pytest.param("delta.d", "belongs to the protocol", id="a domain of the protocol"),
    ],
)
def test_a_domain_that_is_not_the_users_is_refused(
    tmp_path: Path, domain: str, reason: str
) -> None:
    without = write_log(tmp_path / "without", [[]])
    log = without if domain == "d" else table_with_domains(tmp_path / "with")
    with pytest.raises(InvalidRequestError, match=reason):
        begin(log).set_domain_metadata(DomainMetadata(domain=domain, configuration="{}"))


def test_a_change_of_the_protocol_invalidates_whatever_was_prepared_before(tmp_path: Path) -> None:
    log = write_log(tmp_path, [[]])
    append = begin(log)
    append.stage(stage_files(add("new.parquet")))
    create_commit(log.storage, log.log_directory, 1, [WITH_DOMAINS])
    with pytest.raises(CommitConflictError, match="changed the protocol") as raised:
        append.commit(operation="WRITE")
    assert (raised.value.kind, raised.value.version) == ("protocol", 1)


def test_an_earlier_write_of_the_same_application_invalidates_a_later_one(tmp_path: Path) -> None:
    """It did not exist when the later transaction was prepared."""
    log = write_log(tmp_path, [[]])
    first, second, other = begin(log), begin(log), begin(log)
    for txn, identity in ((first, ("A", 1)), (second, ("A", 2)), (other, ("B", 1))):
        txn.set_transaction(identity)
        txn.stage(stage_files(add(f"{identity}.parquet")))
    first.commit(operation="WRITE")
    with pytest.raises(CommitConflictError, match="same application A") as raised:
        second.commit(operation="WRITE")
    assert (raised.value.kind, raised.value.evidence) == ("txn", ("A",))
    assert other.commit(operation="WRITE").version == 2


def test_rows_that_came_and_went_meanwhile_may_have_done_so_afterwards(tmp_path: Path) -> None:
    da.write(tmp_path, ids(1), configuration={"delta.isolationLevel": "WriteSerializable"})
    log = DeltaLog(tmp_path)
    txn = begin(log)
    txn.read(TRUE)
    txn.stage(da.stage_write(txn, ids(10)))
    da.write(log, ids(2))
    da.write(log, ids(2).slice(1), mode="overwrite", replace_where=col("id") == 2)
    txn.commit(operation="WRITE")
    assert rows(da.to_table(log)) == [{"id": 1}, {"id": 10}]


@pytest.mark.parametrize("predicate", [col("x") == 1, col("id") == "a"])
def test_a_checkpoint_that_was_read_must_exist(tmp_path: Path, predicate: Predicate) -> None:
    log = write_log(tmp_path, [[]])
    with pytest.raises(InvalidRequestError):
        begin(log).read(predicate)


def test_a_rearrangement_tolerates_rows_that_came_to_what_it_has_read(tmp_path: Path) -> None:
    log = write_log(tmp_path, [[add("a.parquet")]])
    rearrange, append = begin(log), begin(log)
    rearrange.read(TRUE)
    rearrange.remove(log.snapshot().add_files(), data_change=False)
    rearrange.stage(stage_files(add("c.parquet", data_change=False)))
    append.read(TRUE)
    append.stage(stage_files(add("new.parquet")))
    append.commit(operation="WRITE")
    rearrange.commit(operation="OPTIMIZE")
    assert live_paths(log) == {"c.parquet", "new.parquet"}


@pytest.mark.parametrize("reads", [(1, 2), (2, 1)])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_each_of_what_was_read_counts(tmp_path: Path, mode: Mode, reads: tuple[int, int]) -> None:
    da.write(tmp_path, ids(2))
    log = DeltaLog(tmp_path)
    txn = begin(log)
    for value in reads:
        txn.read(col("id") == value)
    txn.stage(da.stage_write(txn, ids(10)))
    da.write(log, ids(2) if mode == "append" else ids(7), mode=mode)
    with pytest.raises(CommitConflictError) as raised:
        txn.commit(operation="WRITE")
    assert raised.value.kind == ("concurrent append" if mode == "append" else "delete read")


@pytest.mark.parametrize("stored", ["a b.parquet", "a%20b.parquet", "./a%20b.parquet", "absolute"])
@pytest.mark.parametrize("is_removed_by_us", [True, False])
def test_a_file_is_recognized_by_any_spelling_of_its_path(
    tmp_path: Path, stored: str, is_removed_by_us: bool
) -> None:
    log = write_log(tmp_path, [[add("a%20b.parquet")]])
    txn = begin(log)
    if is_removed_by_us:
        txn.remove(log.snapshot().add_files())
    else:
        txn.read(TRUE)
    path = f"{tmp_path.as_uri()}/a%20b.parquet" if stored == "absolute" else stored
    create_commit(log.storage, log.log_directory, 1, [remove(path)])
    with pytest.raises(CommitConflictError) as raised:
        txn.commit(operation="WRITE")
    assert raised.value.kind == ("delete delete" if is_removed_by_us else "delete read")


@pytest.mark.parametrize(
    ("winner", "conflicts"),
    [
        pytest.param([remove("a")], True, id="was removed"),
        pytest.param([add("a", data_change=False)], True, id="was described"),
        pytest.param([add("./a")], True, id="was added under another spelling"),
        pytest.param([add("b"), remove("c")], False, id="is not concerned"),
    ],
)
@pytest.mark.parametrize("data_change", [True, False], ids=["put back", "described"])
def test_files_that_are_added_again_must_be_unchanged(
    tmp_path: Path, data_change: bool, winner: list[AddFile | RemoveFile], conflicts: bool
) -> None:
    log = write_log(tmp_path, [[add("a"), add("c")]])
    (tmp_path / "a").touch()  # the lookup comes after the commit
    txn = begin(log)
    again = (add("a", data_change=data_change),)
    txn.apply(PutBack(files=again) if data_change else Describe(files=again))
    create_commit(log.storage, log.log_directory, 1, winner)
    if not conflicts:
        assert txn.commit(operation="TEST").version == 2
        return
    with pytest.raises(CommitConflictError) as caught:
        txn.commit(operation="TEST")
    assert caught.value.evidence == ("a",)
    assert log.snapshot().version == 1
