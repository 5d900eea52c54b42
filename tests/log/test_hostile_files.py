"""Files made to break their readers: right answers, or errors of delta_ops.

The counterpart for rows that exceed the memory: `tests/arrow/test_swelling_files.py`.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import DataFileError, LogCorruptError
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.deletion_vectors import load_deletion_vector
from delta_ops.log.outside_files import OutsideFiles, TableFiles
from delta_ops.maintenance import clean_up_log, health, vacuum
from delta_ops.protocol.actions import DeletionVector
from delta_ops.protocol.file_names import checkpoint_name, checksum_name, commit_name

DEEP = "[" * 100_000 + "]" * 100_000
LONG = "9" * 100_000
PAR1 = b"PAR1"
MAX_INT = 2**31 - 1


def use(root: Path) -> int:
    """Read the log, its files and the rows; return the number of rows."""
    log = DeltaLog(root)
    list(log.history())
    health(log)
    vacuum(log, dry_run=True)
    clean_up_log(log, dry_run=True)
    return len(da.to_table(log.snapshot()))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A table of two versions and four rows, with a checkpoint."""
    da.write(tmp_path, pa.table({"id": [1, 2, 3], "p": ["a", "b", "c"]}))
    da.write(tmp_path, pa.table({"id": [4], "p": ["d"]}))
    write_checkpoint(DeltaLog(tmp_path).snapshot(), now_ms=0)
    return tmp_path


@pytest.mark.parametrize("name", ["_last_checkpoint", checksum_name(1)])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(DEEP, id="nothing but brackets"),
        pytest.param(f'{{"version":{DEEP},"metadata":{DEEP},"protocol":1}}', id="brackets within"),
        pytest.param('{"a":' * 100_000 + "1" + "}" * 100_000, id="objects"),
        pytest.param("[" * 100_000, id="never closed"),
        pytest.param(f'{{"version":{LONG},"numFiles":{LONG}}}', id="long numbers"),
    ],
)
def test_a_hint_or_a_checksum_of_any_depth_is_passed_over(root: Path, name: str, text: str) -> None:
    (root / "_delta_log" / name).write_text(text)
    assert use(root) == 4


def of_table(schema_string: str) -> str:
    body = {"id": "0" * 36, "format": {"provider": "parquet"}, "schemaString": schema_string}
    return json.dumps({"metaData": {**body, "partitionColumns": [], "configuration": {}}})


ADD = '{"add":{"path":"x","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true,'


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(DEEP, id="nothing but brackets"),
        pytest.param('{"commitInfo":' + "[" * 100_000, id="never closed"),
        pytest.param(f'{{"unknown":{DEEP}}}', id="an unknown action"),
        pytest.param(f'{ADD}"unknown":{DEEP}}}}}', id="an unknown field"),
        pytest.param(f'{ADD}"tags":{{"a":{DEEP}}}}}}}', id="a tag"),
        pytest.param(f'{{"commitInfo":{{"operationParameters":{DEEP}}}}}', id="a parameter"),
        pytest.param(f'{{"commitInfo":{{"timestamp":{LONG}}}}}', id="a long time"),
        pytest.param(f'{{"txn":{{"appId":"a","version":{LONG}}}}}', id="a long version"),
        pytest.param(of_table(f'{{"type":"struct","fields":{DEEP}}}'), id="a schema"),
    ],
)
def test_a_commit_of_any_depth_is_refused_by_its_name(root: Path, line: str) -> None:
    (root / "_delta_log" / commit_name(2)).write_text(line + "\n")
    with pytest.raises(LogCorruptError, match=r"0002|version 2"):
        use(root)


def with_footer(content: bytes, change: Callable[[bytes], bytes]) -> bytes:
    (length,) = struct.unpack_from("<I", content, len(content) - 8)
    start = len(content) - 8 - length
    footer = change(content[start:-8])
    return content[:start] + footer + struct.pack("<I", len(footer)) + PAR1


def with_length(length: int) -> Callable[[bytes], bytes]:
    return lambda content: content[:-8] + struct.pack("<I", length) + PAR1


def varint(value: int) -> bytes:
    data = b""
    while value > 127:
        data, value = data + bytes([value & 127 | 128]), value >> 7
    return data + bytes([value])


def absurd_schema(footer: bytes) -> bytes:
    """A schema of the largest number of columns, with only a few defined."""
    at = footer.index(b"\x19", 2)
    return footer[: at + 1] + b"\xfc" + varint(MAX_INT) + footer[at + 2 :]


def with_rows(num_rows: int) -> Callable[[bytes], bytes]:
    """Change the row count before the list of the only row group."""

    def change(footer: bytes) -> bytes:
        end = footer.index(b"\x19\x1c", footer.index(b"\x16"))
        start = footer.rindex(b"\x16", 0, end)
        return footer[: start + 1] + varint(num_rows << 1) + footer[end:]

    return change


DAMAGES: list[Any] = [
    pytest.param(with_length(MAX_INT), id="a footer of 2 GB"),
    pytest.param(with_length(2**32 - 1), id="a footer of 4 GB"),
    pytest.param(with_length(1_000_000), id="a footer longer than the file"),
    pytest.param(lambda content: with_footer(content, absurd_schema), id="2 billion columns"),
    pytest.param(lambda content: with_footer(content, lambda _: b""), id="no footer"),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_data_file_with_an_absurd_footer_is_named(
    root: Path, damage: Callable[[bytes], bytes]
) -> None:
    place = min(root.glob("*.parquet"))
    place.write_bytes(damage(place.read_bytes()))
    with pytest.raises(DataFileError, match=place.name):
        use(root)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_checkpoint_with_an_absurd_footer_is_named(
    root: Path, damage: Callable[[bytes], bytes]
) -> None:
    place = root / "_delta_log" / checkpoint_name(1)
    place.write_bytes(damage(place.read_bytes()))
    for version in range(2):
        (root / "_delta_log" / commit_name(version)).unlink()
        (root / "_delta_log" / checksum_name(version)).unlink(missing_ok=True)
    with pytest.raises(LogCorruptError, match=place.name):
        use(root)


@pytest.mark.parametrize("num_rows", [2**61, 5, 0])
def test_a_footer_that_counts_other_rows_than_its_row_groups_is_refused(
    root: Path, num_rows: int
) -> None:
    log = DeltaLog(root)
    for version in range(2):
        place = root / "_delta_log" / commit_name(version)
        actions = [json.loads(line) for line in place.read_text().splitlines()]
        for action in actions:
            action.get("add", {}).pop("stats", None)
        place.write_text("\n".join(map(json.dumps, actions)))
        (root / "_delta_log" / checksum_name(version)).unlink(missing_ok=True)
    (root / "_delta_log" / checkpoint_name(1)).unlink()
    assert da.count_rows(log.snapshot()) == 4
    place = min(root.glob("*.parquet"))
    place.write_bytes(with_footer(place.read_bytes(), with_rows(num_rows)))
    with pytest.raises(DataFileError, match="rows"):
        da.count_rows(DeltaLog(root).snapshot())


VECTOR = (1681511377).to_bytes(4, "little") + BitMap64([1]).serialize()
STORED = b"\x01" + len(VECTOR).to_bytes(4, "big") + VECTOR + zlib.crc32(VECTOR).to_bytes(4, "big")


@pytest.mark.parametrize(
    ("content", "changes"),
    [
        pytest.param(STORED, {"cardinality": 2**62}, id="more rows than can be"),
        pytest.param(STORED, {"size_in_bytes": MAX_INT}, id="2 GB of a file of bytes"),
        pytest.param(STORED, {"offset": MAX_INT}, id="2 GB into a file of bytes"),
        pytest.param(STORED[:-6], {}, id="cut off"),
        pytest.param(b"", {}, id="empty"),
    ],
)
def test_an_absurd_vector_takes_no_memory_and_deletes_nothing(
    tmp_path: Path, content: bytes, changes: dict[str, int]
) -> None:
    (tmp_path / "deletion_vector_00000000-0000-0000-0000-000000000000.bin").write_bytes(content)
    described: dict[str, Any] = {"offset": 1, "size_in_bytes": len(VECTOR), "cardinality": 1}
    vector = DeletionVector(
        storage_type="u", path_or_inline_dv="0" * 20, **{**described, **changes}
    )
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "x.parquet")
    files = TableFiles(DeltaLog(tmp_path).storage, OutsideFiles())
    with pytest.raises(DataFileError, match="cannot be used"):
        load_deletion_vector(files, 0, "x.parquet", vector)
