"""Symlink manifest: lists of the live files by partition, for engines that cannot read the log.

Source: the reference's GENERATE symlink_format_manifest. `_symlink_format_manifest/` holds a file
`manifest` in a directory for each partition, and a line for each data file.

New lists are written before those of partitions go that have no files any more, each at once; who
reads meanwhile may find the lists of two versions side by side.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot, TableOrPlace, log_of
from delta_ops.protocol.file_paths import canonical_path, is_absolute
from delta_ops.protocol.table_definition import validate
from delta_ops.protocol.values.partition_values import hive_directory
from delta_ops.storage.concurrency import run_parallel

MANIFESTS = "_symlink_format_manifest"
_ALWAYS_MS = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestResult:
    """What `generate_manifest` did."""

    version: int
    """The version that the lists are of."""
    num_files: int
    written: int
    """Lists: one for each partition that has files."""
    deleted: int
    """Lists of partitions that have none any more."""
    failures: tuple[str, ...] = ()
    """Lists that could not be deleted."""


def generate_manifest(target: TableOrPlace) -> ManifestResult:
    """Write the lists of the latest version's files, and delete those that are out of date.

    Raises:
        InvalidRequestError: The files alone are not the table's rows: some have deletion vectors,
            or columns have other names there.
        UnsupportedFeatureError: The rows are stored in a way that we cannot read.
    """
    validate_arguments(generate_manifest, locals())
    log = log_of(target)
    snapshot = log.snapshot()
    validate(snapshot.definition, "read", table=snapshot.uri)
    if snapshot.definition.is_mapped:
        raise InvalidRequestError(
            f"{log.uri}: the columns have other names in the files (delta.columnMapping.mode), "
            "which a list of files cannot say"
        )
    lines = _lines_by_place(snapshot)
    run_parallel(partial(_write, snapshot), lines.items())
    stale = [info.path for info in log.storage.list_tree(MANIFESTS) if info.path not in lines]
    failures = log.storage.delete_many(stale)
    log.storage.delete_empty({path.rpartition("/")[0] for path in stale}, _ALWAYS_MS)
    return ManifestResult(
        version=snapshot.version,
        num_files=sum(map(len, lines.values())),
        written=len(lines),
        deleted=len(stale) - len(failures),
        failures=tuple(failures),
    )


def _lines_by_place(snapshot: Snapshot) -> dict[str, list[str]]:
    """The files of each list, by its path."""
    columns = snapshot.partition_columns
    found: dict[str, list[str]] = defaultdict(list)
    if not columns:
        found[f"{MANIFESTS}/manifest"] = []
    for add in snapshot.add_files():
        if add.deletion_vector is not None:
            raise InvalidRequestError(
                f"{snapshot.uri}: file {add.path} has rows that are deleted by a deletion vector, "
                "which a list of files cannot say; write such files anew first"
            )
        directory = hive_directory(columns, add.partition_values) if columns else ""
        place = "/".join(filter(None, (MANIFESTS, directory, "manifest")))
        path = canonical_path(add.path, snapshot.uri)
        found[place].append(path if is_absolute(path) else snapshot.storage.locate(path))
    return found


def _write(snapshot: Snapshot, item: tuple[str, list[str]]) -> None:
    place, lines = item
    snapshot.storage.replace(place, "".join(f"{line}\n" for line in sorted(lines)).encode())
