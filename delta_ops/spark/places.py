"""Places: where a table's files are, as Spark takes it.

Spark takes names as they are, unescaped: nothing is encoded on the way there.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Mapping

from pyspark.sql import SparkSession

from delta_ops.errors import InvalidRequestError, OutsideFileError, StorageError
from delta_ops.log import Snapshot
from delta_ops.protocol.file_paths import is_absolute
from delta_ops.spark import stores
from delta_ops.storage import Readable, Storage
from delta_ops.storage.addresses import local_path_of
from delta_ops.storage.paths import split_uri


def spark_path(storage: Readable, path: str) -> str:
    """A file of the table as Spark takes it.

    Args:
        path: Canonical, inside the table; "" is its root.

    Raises:
        InvalidRequestError: Spark cannot name it.
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
            "delta_ops.spark reaches no other storage; use delta_ops.arrow"
        )
    return f"file:{place}"


def spark_file(spark: SparkSession, snapshot: Snapshot, path: str) -> str:
    """A file that the log names, as Spark takes it, by its canonical path; a store is reached."""
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


def _refuse_pipe(path: str, table: str) -> None:
    """Refuse what is there and no file: Spark would wait for a pipe, as long as nobody writes."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # the job tells of it
        return
    if not stat.S_ISREG(mode):
        reason = "it is no regular file; remove it from the table, or restore the file"
        raise OutsideFileError(table, path, reason)


def options_to_write(place: str) -> Mapping[str, str]:
    """Options of a write to a place, by what Spark calls it.

    Hadoop's default for local files writes a checksum file beside each. Its clients of stores need
    that default, for the files that they put aside on a disk until these are uploaded.
    """
    if not place.startswith("file:"):
        return {}
    return {
        "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "fs.file.impl.disable.cache": "true",
    }


def reach(spark: SparkSession, storage: Storage) -> None:
    """Let Spark's jobs reach a table's storage.

    Raises:
        As `stores.reach` and `spark_path` do.
    """
    stores.reach(spark, storage, spark_path(storage, ""))


def remove_directory(storage: Storage, directory: str) -> None:
    """Remove a directory that a job made and no version names, with all that is in it.

    What cannot be removed stays, as garbage for vacuum.
    """
    local = local_path_of(storage.locate(directory))
    if local is not None:
        shutil.rmtree(local, ignore_errors=True)
        return
    with contextlib.suppress(StorageError):
        storage.delete_many([file.path for file in storage.list_tree(directory)])
