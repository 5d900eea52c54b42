"""Checksums that we write are correct or absent."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from delta_ops import DeltaLog
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.log.checksum_write.write import MAX_DOMAINS, MAX_TRANSACTIONS, create_checksum
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import (
    Action,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Protocol,
    SetTransaction,
)
from delta_ops.protocol.file_names import checksum_name
from delta_ops.protocol.json.codec import json_body
from delta_ops.storage import open_storage
from tests.support.counting_storage import CountingStorage
from tests.support.tables import PROTOCOL, SHARED, add, metadata, needs_shared, remove

FUTURE = 2**42
"""Milliseconds: younger than any checkpoint that a test writes."""
CHECKPOINT = 1
DOMAINS = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("domainMetadata",))


class Table:
    """A log; commits run the checksum hook."""

    def __init__(self, root: Path, first: Sequence[Action] = (PROTOCOL, metadata())) -> None:
        self.calls: list[tuple[str, str]] = []

        def note(_number: int, method: str, path: str, moment: str) -> None:
            if moment == "before":
                self.calls.append((method, path.rpartition("/")[2]))

        self.root = root
        self.log = DeltaLog(root, storage=CountingStorage(open_storage(root), note))
        self.commit(*first)

    def commit(self, *actions: Action, recount: bool = False, **info: Any) -> bool:
        """Commit; whether that wrote a checksum."""
        before = self.log.snapshot_if_exists()
        version = before.version + 1 if before else 0
        all_actions = [CommitInfo(values={"txnId": f"txn {version}", **info}), *actions]
        create_commit(self.log.storage, self.log.log_directory, version, all_actions)
        self.calls.clear()
        return create_checksum(
            self.log.storage,
            self.log.log_directory,
            version,
            before,
            all_actions,
            recount=recount,
        )

    def crc(self, version: int | None = None) -> Path:
        latest = self.log.snapshot().version if version is None else version
        return self.root / "_delta_log" / checksum_name(latest)

    def said(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.crc().read_text())
        return said

    def change_checksum(self, **changes: Any) -> None:
        """Change a field of the latest checksum."""
        self.crc().write_text(json.dumps({**self.said(), **changes}))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Old and tail are live, gone was removed; the checkpoint lacks tail and gone."""
    made = Table(tmp_path)
    made.commit(add("old", size=10), add("a%20b", size=20), add("gone", size=30))
    write_checkpoint(made.log.snapshot(CHECKPOINT), now_ms=0)
    made.commit(add("tail", size=40), remove("gone", size=30))
    return made


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take any checkpoint for a large one."""
    monkeypatch.setattr("delta_ops.log.checksum_write.write.CHEAP_CHECKPOINT_BYTES", 0)


OTHER = {"appId": "a", "version": 2}
D = {"domain": "d", "configuration": "", "removed": False}
GONE = {"domain": "gone", "configuration": "", "removed": False}
NEW = add("new", size=5, modification_time=FUTURE)


@pytest.mark.some_cases(7)
@pytest.mark.parametrize(
    "actions",
    [
        pytest.param([NEW], id="a new file"),
        pytest.param([add("old", size=10, data_change=False)], id="an old file's add again"),
        pytest.param([add("tail", size=40)], id="a recent file's add again"),
        pytest.param([add("old", size=11)], id="a file's add again, with another size"),
        pytest.param([add("a b", size=20)], id="a file's add again, encoded otherwise"),
        pytest.param([add("gone", size=30)], id="a removed file's add again"),
        pytest.param([remove("old")], id="a remove without a size"),
        pytest.param([remove("old", size=9)], id="a remove with another size"),
        pytest.param([remove("tail", size=40), NEW], id="a recent file for a new file"),
        pytest.param([remove("gone", size=30)], id="a remove of what was removed before"),
        pytest.param([remove("never", size=1)], id="a remove of what was never there"),
        pytest.param([remove("a b", size=20)], id="a remove, encoded otherwise"),
        pytest.param([metadata(configuration={"a": "1"})], id="other properties"),
        pytest.param([replace(PROTOCOL, min_writer_version=1)], id="another protocol"),
        pytest.param([], id="nothing"),
    ],
)
@pytest.mark.parametrize(
    "previous",
    [
        pytest.param(True, id="after a checksum"),
        # File counts need no checkpoint, for any commit.
        pytest.param(False, id="after none", marks=pytest.mark.full),
    ],
)
def test_a_small_table_gets_a_checksum_that_is_right(
    table: Table, actions: list[Action], previous: bool
) -> None:
    if not previous:
        table.crc().unlink()
    assert table.commit(*actions)
    assert validate_checksum(table.log.snapshot())


def test_a_small_table_without_a_checksum_gets_one(table: Table) -> None:
    table.crc().unlink()
    for actions in ([NEW, remove("old")], [], [remove("a b", size=20)]):
        assert table.commit(*actions)
        assert validate_checksum(table.log.snapshot())
        table.crc().unlink()


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    ("actions", "is_written"),
    [
        pytest.param([NEW], True, id="a new file"),
        pytest.param([add("tail", size=40)], True, id="a recent file's add again"),
        pytest.param([add("gone", size=30)], True, id="a removed file's add again"),
        pytest.param([], True, id="nothing"),
        pytest.param([add("old", size=10)], False, id="a file that may be in the checkpoint"),
        pytest.param([remove("old"), NEW], True, id="a remove, which needed an earlier read"),
        pytest.param([remove("never"), NEW], True, id="a remove of nothing"),
    ],
)
def test_a_large_table_gets_a_checksum_where_it_follows(
    table: Table, actions: list[Action], is_written: bool
) -> None:
    assert table.commit(*actions) is is_written
    assert validate_checksum(table.log.snapshot()) is is_written


@pytest.mark.usefixtures("large")
def test_an_append_reads_no_checkpoint_for_it(table: Table) -> None:
    assert table.commit(NEW)
    # The base of the checksum was read when the table was opened.
    assert table.calls == [("create", checksum_name(3))]


@pytest.mark.usefixtures("large")
def test_without_a_previous_one_a_large_table_gets_none(table: Table) -> None:
    table.crc().unlink()
    assert not table.commit(NEW)
    assert ("read", checksum_name(2)) in table.calls
    assert not table.commit(NEW)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(("modified_ms", "is_new"), [(5000, False), (5001, True)])
def test_a_file_is_new_if_it_is_younger_than_the_checkpoint(
    table: Table, modified_ms: int, is_new: bool
) -> None:
    (checkpoint,) = (table.root / "_delta_log").glob("*.parquet")
    os.utime(checkpoint, (5, 5))
    assert table.commit(add("new", size=5, modification_time=modified_ms)) is is_new


@pytest.mark.usefixtures("large")
def test_a_live_file_is_not_new_beside_a_checkpoint_of_a_clock_that_was_set_back(
    table: Table,
) -> None:
    """A checkpoint that looks older would make a repeated action count a second time."""
    (checkpoint,) = (table.root / "_delta_log").glob("*.parquet")
    os.utime(checkpoint, (5, 5))
    assert not table.commit(add("old", size=10, modification_time=FUTURE, data_change=False))


@pytest.mark.usefixtures("large")
def test_counting_anew_brings_it_back(table: Table) -> None:
    table.crc().unlink()
    assert table.commit(NEW, recount=True)
    assert validate_checksum(table.log.snapshot())


@pytest.mark.usefixtures("large")
def test_a_rewrite_brings_it_back(table: Table) -> None:
    table.crc().unlink()
    assert table.commit(remove("old", size=10), NEW)
    assert validate_checksum(table.log.snapshot())


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"numFiles": None}, id="no number of files"),
        pytest.param({"numFiles": 0, "fileSizeHistogram": None}, id="fewer files than are known"),
        pytest.param({"tableSizeBytes": 39, "fileSizeHistogram": None}, id="too few bytes"),
        pytest.param({"numFiles": -1}, id="fewer than no files"),
        pytest.param({"numFiles": 4}, id="a histogram of other files"),
        pytest.param({"metadata": None}, id="no metadata"),
        pytest.param({"metadata": json_body(metadata(name="x"))}, id="other metadata"),
        pytest.param({"protocol": None}, id="no protocol"),
        pytest.param({"protocol": json_body(DOMAINS)}, id="another protocol"),
        pytest.param({"txnId": "another"}, id="a version that was taken back"),
    ],
)
def test_nothing_follows_from_one_that_does_not_agree(
    table: Table, changes: dict[str, Any]
) -> None:
    right = table.said()
    table.crc().unlink()
    before = table.log.snapshot()
    table.crc().write_text(json.dumps({**right, **changes}))
    create_commit(table.log.storage, "_delta_log", 3, [NEW])
    assert not create_checksum(table.log.storage, "_delta_log", 3, before, [NEW])


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    ("changes", "is_right"),
    [
        pytest.param({}, True, id="nothing"),
        pytest.param({"setTransactions": []}, False, id="a txn"),
        pytest.param({"setTransactions": [OTHER]}, False, id="a txn's last version"),
        pytest.param({"domainMetadata": []}, False, id="a domain"),
        pytest.param({"domainMetadata": [D, GONE]}, False, id="that a domain is gone"),
    ],
)
def test_nothing_follows_from_one_that_has_forgotten_what_came_last(
    tmp_path: Path, changes: dict[str, Any], is_right: bool
) -> None:
    table = Table(tmp_path, [DOMAINS, metadata()])
    write_checkpoint(table.log.snapshot(0), now_ms=0)
    table.commit(
        SetTransaction(app_id="a", version=1),
        DomainMetadata(domain="d", configuration=""),
        DomainMetadata(domain="gone", configuration="", removed=True),
    )
    table.change_checksum(**changes)
    assert table.commit(NEW) is is_right


@pytest.mark.usefixtures("large")
def test_a_checksum_without_a_transaction_may_be_followed(table: Table) -> None:
    table.change_checksum(txnId=None)
    assert table.commit(NEW)


@pytest.mark.usefixtures("large")
def test_columns_that_another_writer_left_out_stay_out(table: Table) -> None:
    table.change_checksum(setTransactions=None, domainMetadata=None, fileSizeHistogram=None)
    assert table.commit(NEW, SetTransaction(app_id="a", version=1))
    assert not {"setTransactions", "domainMetadata", "fileSizeHistogram"} & table.said().keys()
    assert validate_checksum(table.log.snapshot())


def test_a_mistake_is_not_passed_on_where_files_are_counted_anew(table: Table) -> None:
    table.change_checksum(
        numFiles=33,
        tableSizeBytes=333,
        fileSizeHistogram=None,
        metadata=json_body(metadata(created_time=1)),
    )
    assert table.commit(NEW, recount=True)
    assert validate_checksum(table.log.snapshot())
    assert table.said()["metadata"] == json_body(metadata())


@pytest.mark.parametrize(
    "actions",
    [
        pytest.param([NEW, NEW], id="a file twice"),
        pytest.param([remove("old"), add("old", size=10)], id="a file for itself"),
        pytest.param(
            [
                add(
                    "old",
                    deletion_vector=DeletionVector(
                        storage_type="i", path_or_inline_dv="x", size_in_bytes=1, cardinality=1
                    ),
                )
            ],
            id="a deletion vector",
        ),
        pytest.param(
            [
                Protocol(
                    min_reader_version=3,
                    min_writer_version=7,
                    reader_features=("deletionVectors",),
                    writer_features=("deletionVectors",),
                )
            ],
            id="a protocol that allows deletion vectors",
        ),
    ],
)
def test_ambiguous_texts_get_no_value(table: Table, actions: list[Action]) -> None:
    assert not table.commit(*actions)


def test_it_is_created_and_never_replaced(table: Table) -> None:
    table.crc(3).write_text("another's")
    assert not table.commit(NEW)
    assert table.crc(3).read_text() == "another's"


def test_its_fields_are_in_the_order_and_shape_of_the_reference(tmp_path: Path) -> None:
    of_domain = DomainMetadata(domain="d", configuration="{}")
    txn = SetTransaction(app_id="a", version=1, last_updated=2)
    table = Table(tmp_path, [DOMAINS, metadata(), of_domain, txn, add("x", size=7)])
    text = table.crc().read_text()
    assert text.count("\n") == 1
    said = json.loads(text)
    histogram = said.pop("fileSizeHistogram")
    assert list(said.items()) == [
        ("txnId", "txn 0"),
        ("tableSizeBytes", 7),
        ("numFiles", 1),
        ("numMetadata", 1),
        ("numProtocol", 1),
        ("setTransactions", [{"appId": "a", "version": 1, "lastUpdated": 2}]),
        ("domainMetadata", [{"domain": "d", "configuration": "{}", "removed": False}]),
        ("metadata", json_body(metadata())),
        ("protocol", json_body(DOMAINS)),
    ]
    assert (histogram["fileCounts"][0], histogram["totalBytes"][0]) == (1, 7)


@needs_shared
def test_the_reference_writes_the_same_fields_in_the_same_order(table: Table) -> None:
    of_reference = SHARED / "data/tables/delta_rs/cdc_ict_table/_delta_log" / checksum_name(1)
    names = list(json.loads(of_reference.read_text()))
    ours = list(table.said())
    assert [name for name in names if name in ours] == ours
    assert set(names) - set(ours) == {"inCommitTimestampOpt", "allFiles"}


def test_transactions_and_domains_are_those_after_the_commit(tmp_path: Path) -> None:
    table = Table(
        tmp_path,
        [
            DOMAINS,
            metadata(),
            *(DomainMetadata(domain=name, configuration="") for name in "de"),
            *(SetTransaction(app_id=app_id, version=1) for app_id in "ab"),
        ],
    )
    table.commit(
        DomainMetadata(domain="d", configuration="", removed=True),
        SetTransaction(app_id="b", version=2),
    )
    said = table.said()
    assert [domain["domain"] for domain in said["domainMetadata"]] == ["e"]
    assert {txn["appId"]: txn["version"] for txn in said["setTransactions"]} == {"a": 1, "b": 2}


def test_a_list_that_is_too_long_is_left_out_altogether(tmp_path: Path) -> None:
    txns = [SetTransaction(app_id=str(i), version=1) for i in range(MAX_TRANSACTIONS)]
    domains = [DomainMetadata(domain=str(i), configuration="") for i in range(MAX_DOMAINS)]
    table = Table(tmp_path, [DOMAINS, metadata(), *txns, *domains])
    said = table.said()
    assert len(said["setTransactions"]) == MAX_TRANSACTIONS
    assert len(said["domainMetadata"]) == MAX_DOMAINS
    table.commit(
        SetTransaction(app_id="more", version=1), DomainMetadata(domain="more", configuration="")
    )
    assert not {"setTransactions", "domainMetadata"} & table.said().keys()


@pytest.mark.parametrize("since", [0, 1], ids=["from the start", "from this commit on"])
def test_transactions_that_may_expire_are_left_out(tmp_path: Path, since: int) -> None:
    expiring = metadata(configuration={"delta.setTransactionRetentionDuration": "1 day"})
    versions = [metadata(), expiring] if since else [expiring, metadata()]
    table = Table(tmp_path, [PROTOCOL, versions[0], SetTransaction(app_id="a", version=1)])
    table.commit(versions[1])
    assert "setTransactions" not in table.said()


def test_the_checksum_has_the_in_commit_timestamp_if_the_table_enables_it(tmp_path: Path) -> None:
    timed = metadata(configuration={"delta.enableInCommitTimestamps": "true"})
    table = Table(tmp_path)
    table.commit(inCommitTimestamp=7)
    assert "inCommitTimestampOpt" not in table.said()
    table.commit(timed, inCommitTimestamp=8)
    assert table.said()["inCommitTimestampOpt"] == 8
    assert not table.commit(NEW)


def test_a_log_that_goes_on_from_another_counts_the_files_of_both(tmp_path: Path) -> None:
    main = Table(tmp_path)
    main.commit(add("of main", size=3))
    storage = open_storage(tmp_path)
    branch = DeltaLog("", storage=storage, log_directory="_branch", base=main.log.snapshot())
    actions = [add("of main", size=3), add("of branch", size=4)]
    create_commit(storage, "_branch", 2, actions)
    assert create_checksum(storage, "_branch", 2, main.log.snapshot(), actions)
    assert validate_checksum(branch.snapshot())
