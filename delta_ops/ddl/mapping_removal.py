"""Mapping removal: rewrites data files under the names of columns, so that no mapping is needed.

Source: PROTOCOL.md, "Column Mapping"; the operation is the reference's.

Partition values and statistics of a file have the physical names of columns, too. If a physical
name differs from the column's name, all files are rewritten. Otherwise only files with other
columns are rewritten, such as dropped columns: a new column could have the name of a dropped one.
"""

from __future__ import annotations

from dataclasses import replace

from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.maintenance.optimize.plan import OptimizePlan
from delta_ops.maintenance.optimize.plan_runs import key_order
from delta_ops.maintenance.optimize.rewriting import Rewriting
from delta_ops.maintenance.optimize.small_files import target_size_bytes
from delta_ops.maintenance.purge.act import OutdatedReasons, find_outdated_files
from delta_ops.maintenance.purge.plan import plan_purge
from delta_ops.protocol.columns.mapping import ID, PHYSICAL_NAME, logical_path
from delta_ops.protocol.schema import StructType, map_structs
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.transaction import Transaction
from delta_ops.transaction.column_rules import validate_names
from delta_ops.transaction.engine import Engine, RewriteFiles

_KEYS = (ID, PHYSICAL_NAME, "delta.columnMapping.nested.ids")


def unmapped_schema(schema: StructType) -> StructType:
    """The schema without ids and physical names.

    Raises:
        InvalidRequestError: Only a mapped table can have a column of this name.
    """

    try:
        validate_names(schema)
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"the feature columnMapping cannot be dropped: {error}",
            "DELTA_INVALID_COLUMN_NAMES_WHEN_REMOVING_COLUMN_MAPPING",
        ) from error
    return map_structs(schema, _unmap)


def _unmap(struct: StructType) -> StructType:
    fields = []
    for each in struct.fields:
        metadata = {key: value for key, value in each.metadata.items() if key not in _KEYS}
        fields.append(replace(each, metadata=metadata))
    return StructType(tuple(fields))


def rename_clustering(transaction: Transaction, snapshot: Snapshot) -> None:
    """Name the clustering columns as the table does; call it after the definition has changed."""
    if snapshot.clustering_columns:
        transaction.set_clustering(
            [logical_path(each, snapshot.schema) for each in snapshot.clustering_columns]
        )


def rewrite_unmapped(
    transaction: Transaction,
    snapshot: Snapshot,
    definition: TableDefinition,
    engine: Engine | RewriteFiles,
) -> Rewriting:
    """Rewrite the files that need the mapping, and stage the new files.

    Args:
        definition: The table without the mapping.

    Returns:
        The written files; the caller deletes them if the commit fails.

    Raises:
        DataFileError: A file is gone, unreadable, or has other rows than the log says.
    """
    rewriting = Rewriting(transaction, snapshot, engine)
    plan = _plan(snapshot, definition)
    if plan.has_work:
        rewriting.run_once(plan)
    try:
        for each in rewriting.rewrites:
            transaction.stage(each.staged)
            transaction.remove(each.inputs, data_change=False)
    except BaseException:
        rewriting.undo()
        raise
    return rewriting


def _plan(snapshot: Snapshot, definition: TableDefinition) -> OptimizePlan:
    files = list(snapshot.add_files())
    if map_structs(snapshot.definition.physical_schema, _unmap) == definition.schema:
        reasons = OutdatedReasons(old_schema=True)
        outdated = find_outdated_files(snapshot, files, reasons, definition)
    else:
        outdated = {add.path for add in files}
    plan = plan_purge(
        files,
        target_size_bytes=target_size_bytes(snapshot, None),
        deleted_share=None,
        otherwise=outdated,
        order=key_order(snapshot),
    )
    groups = tuple(replace(group, definition=definition) for group in plan.groups)
    return replace(plan, groups=groups)
