"""Feature traces: the parts of a table that still use a feature and prevent its drop.

Source: PROTOCOL.md, "Table Features", and the sections of each feature. The reference removes some
traces by itself. Here each trace is an error, so that nothing is lost by accident.

A reader feature also leaves traces in the log: a reader without the feature would replay the
commits before the drop and misread them. Such commits must be cleaned up first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.checkpoint.parts import reading
from delta_ops.log.segment import list_log
from delta_ops.protocol.arrow_schemas import deletion_vectors
from delta_ops.protocol.properties.known import (
    IN_COMMIT_TIMESTAMP_TIME,
    IN_COMMIT_TIMESTAMP_VERSION,
    IN_COMMIT_TIMESTAMPS,
)
from delta_ops.protocol.row_rules import Check

_ENABLE_VECTORS = "delta.enableDeletionVectors"


def _find_nothing(_: object) -> Iterator[str]:
    return iter(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Droppable:
    """A feature that can be dropped, with the searches for its traces."""

    in_table: Callable[[Snapshot], Iterator[str]] = _find_nothing
    """Finds traces in the latest version, each with its cure."""
    in_log: Callable[[DeltaLog], Iterator[str]] = _find_nothing
    """Finds traces of a reader feature in the log."""
    properties: tuple[str, ...] = ()
    """Properties that are removed with the feature."""


def _constraints(snapshot: Snapshot) -> Iterator[str]:
    for rule in snapshot.definition.row_rules:
        if isinstance(rule, Check):
            yield f"{rule} ({rule.expression}); drop the constraint first"


def _domains(snapshot: Snapshot) -> Iterator[str]:
    for name in snapshot.domain_metadata():
        yield f"the domain {name}; remove the domain first"


def _v2_policy(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.properties.checkpoint_policy == "v2":
        yield "delta.checkpointPolicy = v2; set it to classic first"


def _v2_checkpoints(log: DeltaLog) -> Iterator[str]:
    listing = list_log(log.storage, log.log_directory)
    for version in sorted(listing.v2_checkpoints):
        yield f"the V2 checkpoint of version {version}"
    for checkpoint in listing.checkpoints:
        # A V2 checkpoint may have a classic name; only a V2 checkpoint has this column.
        top = checkpoint.parts[0]
        if checkpoint.version in listing.v2_checkpoints or not top.path.endswith(".parquet"):
            continue
        with reading(log.storage, top), log.storage.open_input(top.path) as file:
            names = pq.read_schema(file).names
        if "checkpointMetadata" in names:
            yield f"the V2 checkpoint of version {checkpoint.version}"


def _vectors(snapshot: Snapshot) -> Iterator[str]:
    configuration = snapshot.metadata.configuration
    if configuration.get(_ENABLE_VECTORS, "").strip().lower() == "true":
        yield f"{_ENABLE_VECTORS} = true; unset it first"
    for files in snapshot.stream_live(["path", "deletionVector"]):
        if count := _num_vectors(files):
            yield (
                f"the deletion vectors of at least {count} live files; purge them first "
                "(delta-ops optimize TABLE --purge)"
            )
            return


def _vectors_in_log(log: DeltaLog) -> Iterator[str]:
    listing = list_log(log.storage, log.log_directory)
    # Without the first commit, readers begin at a checkpoint.
    is_whole = 0 in listing.commits or not listing.checkpoints
    first = 0 if is_whole else listing.checkpoints[0].version + 1
    for commit in log.commits(first):
        if _num_vectors(commit.adds) or _num_vectors(commit.removes):
            yield f"deletion vectors in the commit of version {commit.version}"
    if not listing.checkpoints:
        return
    # All later checkpoints follow from the oldest checkpoint and the commits after it.
    oldest = log.snapshot(listing.checkpoints[0].version)
    live = (_num_vectors(files) for files in oldest.stream_live(["path", "deletionVector"]))
    if any(live) or _num_vectors(oldest.tombstones(("path", "deletionVector"))):
        yield f"deletion vectors in the checkpoint of version {oldest.version}"


def _num_vectors(files: pa.Table) -> int:
    column = files["deletionVector"]
    if column.null_count == len(column):
        return 0
    return sum(vector is not None for vector in deletion_vectors(column))


DROPPABLE: Mapping[str, Droppable] = {
    "checkConstraints": Droppable(in_table=_constraints),
    "domainMetadata": Droppable(in_table=_domains),
    "inCommitTimestamp": Droppable(
        properties=(
            IN_COMMIT_TIMESTAMPS.name,
            IN_COMMIT_TIMESTAMP_VERSION.name,
            IN_COMMIT_TIMESTAMP_TIME.name,
        )
    ),
    "vacuumProtocolCheck": Droppable(),
    "v2Checkpoint": Droppable(in_table=_v2_policy, in_log=_v2_checkpoints),
    "deletionVectors": Droppable(in_table=_vectors, in_log=_vectors_in_log),
}
"""Droppable features by name; delta_ops can drop no other feature."""
