"""Symlink manifests: lists of the live files by partition, for engines that cannot read the log.

Source: the reference's GENERATE symlink_format_manifest. `_symlink_format_manifest/` has a
directory for each partition. Its file `manifest` has a line for each data file.

Each manifest is replaced atomically. Manifests of empty partitions are deleted last. A concurrent
reader may therefore see manifests of two versions.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot, TableOrPlace, log_of
from delta_ops.maintenance.admission import is_of_branch
from delta_ops.protocol.file_paths import canonical_path, is_absolute
from delta_ops.protocol.table_definition import validate
from delta_ops.protocol.values.partition_values import hive_directory
from delta_ops.storage.concurrency import run_parallel

MANIFESTS = "_symlink_format_manifest"
_ALWAYS_MS = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestResult:
    """The result of `generate_manifest`."""

    version: int
    """The version that the manifests describe."""
    num_files: int
    written: int
    """Number of written manifests, one for each partition with files."""
    deleted: int
    """Number of deleted manifests of partitions without files."""
    failures: tuple[str, ...] = ()
    """Manifests that could not be deleted."""


def generate_manifest(target: TableOrPlace) -> ManifestResult:
    """Write the manifests of the latest version, and delete outdated manifests.

    Raises:
        InvalidRequestError: A list of files cannot describe the table: a file has a deletion
            vector, or the table has column mapping. Or the log belongs to a branch.
        UnsupportedFeatureError: The table uses a feature that we cannot read.

    Examples:
        >>> generate_manifest("lake/orders").num_files
        1
    """
    validate_arguments(generate_manifest, locals())
    log = log_of(target)
    snapshot = log.snapshot()
    validate(snapshot.definition, "read", table=snapshot.uri)
    if is_of_branch(snapshot):
        raise InvalidRequestError(
            f"{log.uri}: a table has one set of manifests, for its own log; publish the branch, "
            "then generate them"
        )
    if snapshot.definition.is_mapped:
        raise InvalidRequestError(
            f"{log.uri}: the table has column mapping (delta.columnMapping.mode), which a "
            "manifest cannot express",
            "DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING",
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
    """The lines of each manifest, by path of the manifest."""
    columns = snapshot.partition_columns
    found: dict[str, list[str]] = defaultdict(list)
    if not columns:
        found[f"{MANIFESTS}/manifest"] = []
    for add in snapshot.add_files():
        if add.deletion_vector is not None:
            raise InvalidRequestError(
                f"{snapshot.uri}: file {add.path} has a deletion vector, which a manifest cannot "
                "express; purge deletion vectors first",
                "DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS",
            )
        directory = hive_directory(columns, add.partition_values) if columns else ""
        place = "/".join(filter(None, (MANIFESTS, directory, "manifest")))
        path = canonical_path(add.path, snapshot.uri)
        found[place].append(path if is_absolute(path) else snapshot.storage.locate(path))
    return found


def _write(snapshot: Snapshot, item: tuple[str, list[str]]) -> None:
    place, lines = item
    snapshot.storage.replace(place, "".join(f"{line}\n" for line in sorted(lines)).encode())
