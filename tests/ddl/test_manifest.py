"""The symlink manifest lists the live files of each partition, as deltalake does."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.ddl import add_feature, generate_manifest, shallow_clone
from delta_ops.errors import InvalidRequestError
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import vacuum
from delta_ops.protocol.actions import CommitInfo, Protocol
from tests.arrow.foreign_table import inline_vector


def lists(root: Path) -> dict[str, list[str]]:
    folder = root / "_symlink_format_manifest"
    found = (each for each in folder.rglob("*") if each.is_file())
    return {
        unquote(str(each.relative_to(folder))): sorted(map(unquote, each.read_text().splitlines()))
        for each in found
    }


@pytest.mark.parametrize("columns", [[], ["p"]], ids=["no partitions", "partitions"])
def test_the_lists_match_deltalake(tmp_path: Path, columns: list[str]) -> None:
    data = pa.table({"id": [1, 2, 3], "p": ["a b", "é", None]})
    da.write(tmp_path, data, partition_by=columns)
    result = generate_manifest(tmp_path)
    assert (result.version, result.num_files) == (0, 3 if columns else 1)
    assert result.written == len(columns) * 2 + 1
    ours = lists(tmp_path)
    shutil.rmtree(tmp_path / "_symlink_format_manifest")
    DeltaTable(tmp_path).generate()
    assert ours == lists(tmp_path)
    named = [path for paths in ours.values() for path in paths]
    assert sum(pq.read_metadata(path).num_rows for path in named) == 3


def test_lists_of_partitions_that_are_gone_go(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1, 2], "p": ["a", "b"]}), partition_by=["p"])
    generate_manifest(tmp_path)
    nothing = pa.table({"id": pa.array([], pa.int64()), "p": pa.array([], pa.string())})
    da.write(tmp_path, nothing, "overwrite", replace_where=col("p") == "a")
    result = generate_manifest(tmp_path)
    assert (result.written, result.deleted, result.failures) == (1, 1, ())
    assert list(lists(tmp_path)) == ["p=b/manifest"]
    assert [each.name for each in (tmp_path / "_symlink_format_manifest").iterdir()] == ["p=b"]
    assert vacuum(tmp_path, dry_run=True).plan.files == ()


def test_a_table_without_files_has_an_empty_list(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": pa.array([], pa.int64())}))
    generate_manifest(tmp_path)
    assert lists(tmp_path) == {"manifest": []}


def test_files_of_a_clone_are_named_where_they_are(tmp_path: Path) -> None:
    da.write(tmp_path / "source", pa.table({"id": [1]}))
    shallow_clone(tmp_path / "source", tmp_path / "clone")
    generate_manifest(tmp_path / "clone")
    ((path,),) = lists(tmp_path / "clone").values()
    assert path.startswith(f"{tmp_path}/source/")
    assert Path(path).exists()


def test_files_that_are_not_the_rows_are_refused(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1, 2]}))
    log = DeltaLog(tmp_path)
    add_feature(log, "domainMetadata")
    protocol = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=("deletionVectors",),
        writer_features=("deletionVectors",),
    )
    (file,) = log.snapshot().add_files()
    vector = replace(file, deletion_vector=inline_vector([1]))
    create_commit(log.storage, log.log_directory, 2, [CommitInfo(values={}), protocol, vector])
    with pytest.raises(InvalidRequestError, match="has a deletion vector"):
        generate_manifest(log)
    assert lists(tmp_path) == {}
