"""File URIs: the paths of a table's files in Spark's format.

Spark takes unescaped names, so nothing is encoded here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from delta_ops.errors import InvalidRequestError, OutsideFileError, StorageError
from delta_ops.log import Snapshot
from delta_ops.protocol.file_paths import is_absolute
from delta_ops.spark import stores
from delta_ops.storage import Readable, Storage
from delta_ops.storage.addresses import local_path_of
from delta_ops.storage.paths import split_uri


def spark_path(storage: Readable, path: str) -> str:
    """Convert the path of a table file to Spark's format.

    Args:
        path: Canonical, inside the table; "" is its root.

    Raises:
        InvalidRequestError: Spark cannot reach the storage.
    """
    root = stores.root_of(storage)
    place = storage.locate(path)
    if root is not None:
        return f"{root}/{split_uri(place)[1].partition('/')[2]}"
    place = place.removeprefix("file://") if place.startswith("file:///") else place
    place = place.removeprefix("file:")
    if not place.startswith("/") or place.startswith("//"):
        raise InvalidRequestError(
            f"{storage.uri} is not on a local disk, S3, Google Cloud Storage or Azure, and "
            "delta_ops.spark supports no other storage; use delta_ops.arrow"
        )
    return f"file:{place}"


def spark_file(spark: SparkSession, snapshot: Snapshot, path: str) -> str:
    """Convert the canonical path of a file in the log to Spark's format.

    If the file is in another store, the session is configured to reach that store.
    """
    if not is_absolute(path):
        return spark_path(snapshot.storage, path)
    snapshot.outside.validate(path, snapshot.uri)
    if path.startswith("/"):
        _refuse_pipe(path, snapshot.uri)
        return f"file:{path}"
    storage, inner = snapshot.outside.find(path, snapshot.uri)
    place = spark_path(storage, inner)
    stores.reach(spark, storage, place)
    return place


def file_locations(spark: SparkSession, snapshot: Snapshot) -> Callable[[str], str]:
    """Return a faster `spark_file` for many files of one snapshot."""
    root = spark_path(snapshot.storage, "")

    def location_of(path: str) -> str:
        # Joined here because there are many paths, and `locate` takes ten times as long.
        return spark_file(spark, snapshot, path) if is_absolute(path) else f"{root}/{path}"

    return location_of


def _refuse_pipe(path: str, table: str) -> None:
    """Reject an existing path that is not a file: Spark would wait for a pipe indefinitely."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # the Spark job reports it
        return
    if not stat.S_ISREG(mode):
        reason = "it is not a regular file; remove it from the table, or restore the file"
        raise OutsideFileError(table, path, reason)


def options_to_write(place: str) -> Mapping[str, str]:
    """Hadoop options for a write to this place.

    By default, Hadoop writes a checksum file beside each local file. Its clients of object stores
    need that default for the local files that they buffer before the upload.
    """
    if not place.startswith("file:"):
        return {}
    return {
        "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "fs.file.impl.disable.cache": "true",
    }


def reach(spark: SparkSession, storage: Storage) -> None:
    """Configure the session so that its jobs can reach a table's storage.

    Raises:
        DeltaOpsError: As `stores.reach` and `spark_path`.
    """
    stores.reach(spark, storage, spark_path(storage, ""))


def remove_directory(storage: Storage, directory: str) -> None:
    """Remove a job's directory with its contents; no table version refers to them.

    Files that cannot be removed stay until vacuum.
    """
    local = local_path_of(storage.locate(directory))
    if local is not None:
        shutil.rmtree(local, ignore_errors=True)
        return
    with contextlib.suppress(StorageError):
        storage.delete_many([file.path for file in storage.list_tree(directory)])
