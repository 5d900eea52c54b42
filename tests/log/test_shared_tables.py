"""Tables from other writers, at every version: opened, or rejected as the protocol requires."""

from __future__ import annotations

import pytest

from delta_ops import DeltaLog
from delta_ops.errors import LogCorruptError, UnsupportedFeatureError, VersionNotFoundError
from delta_ops.log.checksum_write.verify import validate_checksum
from tests.support.tables import SHARED, needs_shared

TABLES = SHARED / "data" / "tables"
FOUND = sorted(str(p.parent.relative_to(TABLES)) for p in TABLES.rglob("_delta_log"))
REFUSED = {
    # From another implementation's test of unknown features, and a future reader version.
    "delta_rs/simple_table_features": UnsupportedFeatureError,
    # No metadata was ever committed.
    "golden/data-reader-absolute-paths-escaped-chars/delta": LogCorruptError,
    # Version 1 is missing.
    "golden/versions-not-contiguous/delta": LogCorruptError,
}

pytestmark = needs_shared


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("writer", sorted({name.partition("/")[0] for name in FOUND}))
def test_every_version_opens_and_agrees_with_its_checksum(writer: str) -> None:
    names = [name for name in FOUND if name.startswith(f"{writer}/") and name not in REFUSED]
    assert names
    for name in names:
        check_every_version(name)


def check_every_version(name: str) -> None:
    log = DeltaLog(TABLES / name)
    latest = log.snapshot().version
    opened = 0
    for version in range(latest + 1):
        try:
            snapshot = log.snapshot(version)
        except VersionNotFoundError as error:
            assert opened == 0, "a version after one that opens"
            assert "the log was cleaned up, and the earliest version" in str(error)  # noqa: PT017
            continue
        opened += 1
        files = snapshot.files(
            ["path", "size", "partition_values", "num_records", "modification_time"]
        )
        assert (len(files), sum(files["size"].to_pylist())) == (
            snapshot.num_files,
            snapshot.size_bytes,
        ), (name, version)
        checksum = TABLES / name / "_delta_log" / f"{version:020d}.crc"
        assert validate_checksum(snapshot) == checksum.exists(), (name, version)
    assert opened, name


@pytest.mark.parametrize("name", REFUSED)
def test_tables_that_no_reader_may_open_are_refused(name: str) -> None:
    with pytest.raises(REFUSED[name]):
        DeltaLog(TABLES / name).snapshot()


def test_a_folder_without_a_log_is_recognized() -> None:
    assert not DeltaLog(TABLES / "golden" / "no-delta-log-folder" / "delta").exists()
